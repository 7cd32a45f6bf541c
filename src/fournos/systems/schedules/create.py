"""Creates the jobs of a fire that was written to the status before.  Pure."""

from __future__ import annotations

from datetime import datetime

from fournos.api.fournosschedule import ActiveFire, FireOutcome
from fournos.engine.kube.resource import Obj
from fournos.engine.runtime.decision import Decision, StepFailure
from fournos.engine.runtime.steps import Create
from fournos.systems.schedules.author import lost_right
from fournos.systems.schedules.author_rights import rights_to_create
from fournos.systems.schedules.children import Fire, changed, children, count, creation
from fournos.systems.schedules.context import Context
from fournos.systems.schedules.dialect import times
from fournos.systems.schedules.due import Plan
from fournos.systems.schedules.trigger import changes_of, parsed


def create(ctx: Context, plan: Plan, fire: ActiveFire) -> Decision:
    """Creates the jobs once: with `created` in the status none is created again, even if one is deleted."""
    fire = _as_now(ctx, fire)
    failure = ctx.facts.failure
    if failure is not None:
        return _refused(ctx, plan, fire, failure)
    lost = lost_right(ctx, rights_to_create(ctx.obj))
    if lost is None:
        return Decision(retry=True)
    if lost:
        pause = ctx.suspension(lost)
        ctx.draft.ended(fire, FireOutcome.FAILED, lost)
        return ctx.decision(pause)
    if not ctx.up_to_date():
        # Created already, as far as an old view can tell: a job that was deleted since would come again.
        return Decision(retry=True)
    there = {job["metadata"]["name"] for job in ctx.observed.jobs}
    steps = tuple(
        creation(job)
        for number, job in enumerate(_jobs(ctx, plan, fire))
        if number not in fire.refused and job["metadata"]["name"] not in there
    )
    _put(ctx, fire.model_copy(update={"created": True}))
    return ctx.decision(steps)


def _as_now(ctx: Context, fire: ActiveFire) -> ActiveFire:
    """Returns the fire with the number of jobs that the spec has now: it may have been edited since."""
    _, spec = changed(ctx.obj, ctx.spec, changes_of(fire))
    if fire.jobs == count(spec):
        return fire
    return fire.model_copy(update={"jobs": count(spec), "refused": ()})


def _refused(ctx: Context, plan: Plan, fire: ActiveFire, failure: StepFailure) -> Decision:
    """Gives up the one job that the API server refuses, so that the others are created by the next pass."""
    assert isinstance(failure.step, Create)
    jobs = [job["metadata"]["name"] for job in _jobs(ctx, plan, fire)]
    name = failure.step.body["metadata"]["name"]
    number = jobs.index(name)
    _put(ctx, fire.model_copy(update={"refused": tuple(sorted({*fire.refused, number}))}))
    ctx.draft.event("JobRefused", f"FournosJob {name} could not be created: {failure.message}", warning=True)
    return ctx.decision()


def _jobs(ctx: Context, plan: Plan, fire: ActiveFire) -> list[Obj]:
    schedule, spec = changed(ctx.obj, ctx.spec, changes_of(fire))
    trigger = parsed(fire.trigger)
    begin, end = _period(plan, fire.time, by_hand=trigger is not None)
    length = end - begin if begin and end else None
    return children(schedule, spec, Fire(fire.time, plan.zone, length, trigger.id if trigger else ""))


def _period(plan: Plan, time: datetime, *, by_hand: bool) -> tuple[datetime | None, datetime | None]:
    """Returns a time and the one after it: of a trigger, which may come just before a time, the next two."""
    following = times(plan.expressions, plan.zone, time)
    begin = next(following, None) if by_hand else time
    return begin, next(following, None)


def _put(ctx: Context, fire: ActiveFire) -> None:
    ctx.draft.fires(fire if other.time == fire.time else other for other in ctx.draft.active)
