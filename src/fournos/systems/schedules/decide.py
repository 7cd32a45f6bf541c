"""The decision of the FournosSchedule controller.

claim a time in the status → create its jobs → note that they were created → note how they ended

Claim before make: the fire is in the status before its first job is created, by a write that fails if the
schedule has changed.  So two operators, or one that restarts, never take up one time twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from fournos.api.fournosschedule import (
    MAX_ACTIVE,
    MAX_TRIGGER,
    ActiveFire,
    ConcurrencyPolicy,
    FireOutcome,
    MissedReason,
)
from fournos.api.kinds import FOURNOS_JOB, FOURNOS_SCHEDULE
from fournos.api.phase import Phase
from fournos.engine.api.values import creation_time
from fournos.engine.kube.resource import Obj, key_of, uid_of
from fournos.engine.runtime.decision import Create, Decision, Delete, Facts, Patch, Step, StepFailure
from fournos.systems.schedules import names
from fournos.systems.schedules.build import Fire, children, count, creation, problem, template_violations
from fournos.systems.schedules.observe import Context, Observed, phase, running, time_of
from fournos.systems.schedules.settings import ScheduleSettings
from fournos.systems.schedules.times import Due, Plan, due, floor, plan_of, suspended

_NAMED: Final = 3
"""The most jobs that a message names."""
_REASON_MAX: Final = 1024
_SECOND: Final = timedelta(seconds=1)


def decide(observed: Observed, facts: Facts, now: datetime, *, settings: ScheduleSettings) -> Decision:
    """Returns the next steps and status of a schedule.  Pure; see `fournos.engine.runtime.decision`."""
    ctx = Context(observed, facts, now, settings)
    if ctx.deleting:
        return Decision()  # what runs goes on
    failure = facts.failure
    if failure is not None and (failure.transient or not isinstance(failure.step, Create | Delete)):
        return Decision(retry=True)
    _settle(ctx)
    text = observed.unreadable or problem(ctx.spec) or _template_problem(ctx)
    if text:
        return _not_accepted(ctx, text)
    plan = plan_of(ctx.spec)
    _accept(ctx, plan)
    if steps := _stopped_by_failures(ctx):
        return ctx.decision(steps)
    claimed = next((entry for entry in ctx.draft.active if not entry.created), None)
    if claimed is not None:
        return _create(ctx, plan, claimed)
    trigger = (ctx.obj["metadata"].get("annotations") or {}).get(names.TRIGGER_ANNOTATION) or ""
    if 0 < len(trigger) <= MAX_TRIGGER and trigger != ctx.draft.last_trigger:
        return _fire_by_hand(ctx, trigger)
    return _look_at_the_clock(ctx, plan)


# --- the spec --------------------------------------------------------------------------------------------


def _accepted_before(ctx: Context) -> bool:
    """True if this generation of the spec was found to be good."""
    draft, generation = ctx.draft, ctx.obj["metadata"].get("generation")
    return draft.observed_generation == generation and draft.is_true(names.ACCEPTED)


def _template_problem(ctx: Context) -> str:
    """Returns why the jobs cannot be created; it is looked at once for each generation of the spec."""
    if _accepted_before(ctx):
        return ""
    return "; ".join(map(str, template_violations(ctx.obj, ctx.spec)))[:_REASON_MAX]


def _not_accepted(ctx: Context, text: str) -> Decision:
    """Waits for a change of the spec; a fire whose jobs were not created yet is given up."""
    ctx.draft.fires(entry for entry in ctx.draft.active if entry.created)
    ctx.draft.times(nextTime=None)
    if ctx.draft.reason_of(names.ACCEPTED) != "Invalid":
        ctx.draft.event("Invalid", text, warning=True)
    ctx.draft.condition(names.ACCEPTED, "False", "Invalid", text)
    return ctx.decision()


def _accept(ctx: Context, plan: Plan) -> None:
    """Notes since when this generation of the spec counts.

    It counts from when it is seen, so that neither an edit nor the end of a suspension makes up for a
    time.  A new schedule counts from its creation, unless it had to be corrected first.
    """
    if _accepted_before(ctx):
        return
    draft, generation = ctx.draft, ctx.obj["metadata"].get("generation")
    new = draft.observed_generation is None and not draft.is_false(names.ACCEPTED)
    draft.times(effectiveSince=creation_time(ctx.obj) if new else _since(ctx, plan))
    draft.put(observedGeneration=generation).condition(names.ACCEPTED, "True", "Valid")
    last = draft.last_schedule_time
    if last is not None and last > ctx.now:
        # The clock was ahead.  An edit is the way to go on before it is there again.
        draft.times(lastScheduleTime=None, lastStartTime=None)
    if ctx.spec.suspend is None or ctx.spec.suspend.until is not None:
        draft.put(failures=None)  # a person goes on; a suspension of ours has no end


def _since(ctx: Context, plan: Plan) -> datetime:
    """Returns since when an edit counts: a time that had come before and that it keeps is still due."""
    came = ctx.draft.next_time
    if came is None or came > ctx.now or plan.next(came - _SECOND) != came:
        return ctx.now
    return came - _SECOND


def _stopped_by_failures(ctx: Context) -> tuple[Step, ...]:
    """Returns the step that suspends the schedule after too many failures, unless it is suspended already."""
    limit, failures = ctx.spec.stop_after_failures, ctx.draft.failures
    if not limit or failures < limit or suspended(ctx.spec, ctx.now):
        return ()
    last = ctx.draft.last_fire
    why = f", the last one: {last.message}" if last and last.message else ""
    reason = f"{failures} fires in a row failed{why}"
    ctx.draft.event("Suspended", reason, warning=True)
    body = {
        "metadata": {"resourceVersion": ctx.obj["metadata"]["resourceVersion"]},
        "spec": {"suspend": {"reason": reason[:_REASON_MAX], "until": None}},
    }
    return (Patch(FOURNOS_SCHEDULE, key_of(ctx.obj), body),)


# --- what is due -----------------------------------------------------------------------------------------


def _look_at_the_clock(ctx: Context, plan: Plan) -> Decision:
    """Takes up what is due, and sleeps until the next time."""
    draft, since = ctx.draft, ctx.draft.effective_since
    assert since is not None
    if suspended(ctx.spec, ctx.now):
        until = ctx.spec.suspend.until if ctx.spec.suspend else None
        coming = plan.next(until) if until else None
        draft.times(nextTime=coming)
        return ctx.decision(wake_at=coming)
    verdict = due(plan, floor=floor(ctx.spec, since, draft.last_schedule_time, ctx.now), now=ctx.now)
    draft.times(nextTime=verdict.next)
    if verdict.dealt_with is None:
        return ctx.decision(wake_at=verdict.next)
    if verdict.time is None:
        draft.times(lastScheduleTime=verdict.dealt_with)
        draft.missed(verdict.missed, MissedReason.LATE, verdict.dealt_with)
        return ctx.decision(wake_at=verdict.next)
    jobs = ctx.live_jobs()
    if jobs is None:
        return Decision(retry=True)
    return _take_up(ctx, verdict, verdict.time, jobs)


def _take_up(ctx: Context, verdict: Due, time: datetime, jobs: Sequence[Obj]) -> Decision:
    """Claims the time, or skips it because of a fire before it."""
    draft, policy = ctx.draft, ctx.spec.concurrency_policy
    full = len(draft.active) >= MAX_ACTIVE
    behind = [] if policy is ConcurrencyPolicy.ALLOW and not full else running(jobs)
    draft.times(lastScheduleTime=time)
    if behind and (full or policy is not ConcurrencyPolicy.REPLACE):
        draft.overlapping(f"The fire of {names.stamp(time)} was skipped, because of {_first_of(behind)}")
        draft.missed(verdict.missed + 1, MissedReason.OVERLAP, time)
        return ctx.decision(wake_at=verdict.next)
    draft.overlapping("")
    steps = (*_stops(behind), *_trimmed(ctx, jobs))
    if steps and not ctx.up_to_date():
        # An old view takes the jobs of this very time for older ones.
        return Decision(retry=True)
    draft.missed(verdict.missed, MissedReason.LATE, time).times(lastStartTime=time)
    draft.fires((*draft.active, ActiveFire(time=time, started_at=ctx.now, jobs=count(ctx.spec))))
    return ctx.decision(steps, wake_at=verdict.next)


def _first_of(jobs: Sequence[Obj]) -> str:
    job = min(jobs, key=lambda job: (time_of(job), job["metadata"]["name"]))
    more = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
    return f"FournosJob {job['metadata']['name']} ({phase(job) or 'new'}){more}"


def _stops(jobs: Sequence[Obj]) -> tuple[Step, ...]:
    """Returns the steps that stop the jobs of earlier fires, with the policy Replace."""
    return tuple(
        Patch(FOURNOS_JOB, key_of(job), _stop(job))
        for job in jobs
        if not (job.get("spec") or {}).get("shutdown")
    )


def _stop(job: Obj) -> Obj:
    # The precondition: never a later job of this name.
    return {"metadata": {"resourceVersion": job["metadata"]["resourceVersion"]}, "spec": {"shutdown": "Stop"}}


def _trimmed(ctx: Context, jobs: Sequence[Obj]) -> tuple[Step, ...]:
    """Returns the steps that delete the jobs of ended fires beyond `spec.historyLimits`.

    A refusal of one must not hold the schedule back, so none is sent again in that pass.
    """
    limits = ctx.spec.history_limits
    failure = ctx.facts.failure
    if limits is None or (failure is not None and isinstance(failure.step, Delete)):
        return ()
    fires: dict[str, list[Obj]] = defaultdict(list)
    for job in jobs:
        fires[time_of(job)].append(job)
    for active in ctx.draft.active:
        fires.pop(names.stamp(active.time), None)
    left = {True: limits.succeeded, False: limits.failed}
    steps: list[Step] = []
    for _, ended in sorted(fires.items(), reverse=True):
        if running(ended):
            continue
        succeeded = all(phase(job) == Phase.SUCCEEDED for job in ended)
        remaining = left[succeeded]
        if remaining is None:
            continue
        if remaining > 0:
            left[succeeded] = remaining - 1
            continue
        steps += [_deletion(job) for job in ended if _may_go(ctx, job)]
    return tuple(steps)


def _may_go(ctx: Context, job: Obj) -> bool:
    """True unless the history has not recorded the job yet."""
    return not ctx.settings.archived_first or bool((job.get("status") or {}).get("archivedAt"))


def _deletion(job: Obj) -> Delete:
    return Delete(FOURNOS_JOB, key_of(job), uid_of(job), why="spec.historyLimits of its FournosSchedule")


# --- a fire that a person asks for -----------------------------------------------------------------------


def _fire_by_hand(ctx: Context, trigger: str) -> Decision:
    """Claims a fire now, whatever time it is; it moves no time, and does not wait for an earlier one.

    It also works while the schedule is suspended: who asks knows that.
    """
    draft = ctx.draft.put(lastTrigger=trigger)
    if len(draft.active) >= MAX_ACTIVE:
        text = f"Trigger {trigger} was not taken up: {MAX_ACTIVE} fires are active"
        draft.event("TriggerIgnored", text, warning=True)
        return ctx.decision()
    fire = ActiveFire(time=_unused_time(ctx), started_at=ctx.now, jobs=count(ctx.spec), trigger=trigger)
    draft.fires((*draft.active, fire))
    return ctx.decision()


def _unused_time(ctx: Context) -> datetime:
    """Returns the time of the fire: with seconds, which tell it from all times of the schedule."""
    used = {time_of(job) for job in ctx.jobs} | {names.stamp(fire.time) for fire in ctx.draft.active}
    time = ctx.now.replace(microsecond=0)
    while not time.second or names.stamp(time) in used:
        time += _SECOND
    return time


# --- the jobs of a fire that is claimed ------------------------------------------------------------------


def _create(ctx: Context, plan: Plan, fire: ActiveFire) -> Decision:
    """Creates the jobs once: with `created` in the status none is created again, even if one is deleted."""
    if fire.jobs != count(ctx.spec):  # the schedule was edited since
        fire = fire.model_copy(update={"jobs": count(ctx.spec), "refused": ()})
    jobs = children(ctx.obj, ctx.spec, Fire(fire.time, plan.zone, _period(plan, fire), fire.trigger or ""))
    failure = ctx.facts.failure
    if failure is not None and isinstance(failure.step, Create):
        return _refused(ctx, fire, jobs, failure, failure.step)
    if not ctx.up_to_date():
        # Created already, as far as an old view can tell: a job that was deleted since would come again.
        return Decision(retry=True)
    there = {job["metadata"]["name"] for job in ctx.observed.jobs}
    steps = tuple(
        creation(job)
        for number, job in enumerate(jobs)
        if number not in fire.refused and job["metadata"]["name"] not in there
    )
    ctx.draft.replace(fire.model_copy(update={"created": True}))
    return ctx.decision(steps)


def _refused(
    ctx: Context, fire: ActiveFire, jobs: Sequence[Obj], failure: StepFailure, step: Create
) -> Decision:
    """Gives up the one job that the API server refuses, so that the others are created by the next pass."""
    name = step.body["metadata"]["name"]
    number = [job["metadata"]["name"] for job in jobs].index(name)
    ctx.draft.replace(fire.model_copy(update={"refused": tuple(sorted({*fire.refused, number}))}))
    ctx.draft.event("JobRefused", f"FournosJob {name} could not be created: {failure.message}", warning=True)
    return ctx.decision()


def _period(plan: Plan, fire: ActiveFire) -> timedelta | None:
    """Returns the length from its time to the next; of a trigger, which may come just before one, the next
    length."""
    following = plan.after(fire.time)
    begin = next(following, None) if fire.trigger else fire.time
    end = next(following, None)
    return end - begin if begin and end else None


# --- the end of a fire -----------------------------------------------------------------------------------


def _settle(ctx: Context) -> None:
    """Takes the fires whose jobs have ended from `status.active`, and counts their outcomes."""
    for fire in ctx.draft.active:
        if fire.created:
            _settle_one(ctx, fire)


def _settle_one(ctx: Context, fire: ActiveFire) -> None:
    all_names = names.job_names(ctx.name, uid_of(ctx.obj), fire.time, fire.jobs)
    created = {name for number, name in enumerate(all_names) if number not in fire.refused}
    jobs = _of_fire(ctx.jobs, fire)
    if not created <= jobs.keys():
        # A job that the cache does not have may only be late in it; a deleted one is not made again.
        live = ctx.live_jobs()
        if live is None:
            return
        jobs = _of_fire(live, fire)
    if running(jobs.values()):
        return
    outcome, message = _outcome(fire, {name: phase(jobs[name]) if name in jobs else "" for name in created})
    ctx.draft.ended(fire, outcome, message)
    if outcome is FireOutcome.FAILED:
        ctx.draft.event("FireFailed", f"Of {names.stamp(fire.time)}: {message}", warning=True)


def _of_fire(jobs: Iterable[Obj], fire: ActiveFire) -> dict[str, Obj]:
    """Returns the jobs of a fire by name, with the reruns that confirm their results."""
    stamp = names.stamp(fire.time)
    return {job["metadata"]["name"]: job for job in jobs if time_of(job) == stamp}


def _outcome(fire: ActiveFire, phases: dict[str, str]) -> tuple[FireOutcome, str]:
    failed = sorted(name for name, found in phases.items() if found == Phase.FAILED)
    stopped = sorted(name for name, found in phases.items() if found == Phase.STOPPED)
    deleted = sorted(name for name, found in phases.items() if not found)
    parts = [
        f"{len(fire.refused)} of {fire.jobs} jobs could not be created" if fire.refused else "",
        _listed("failed", failed),
        _listed("stopped", stopped),
        _listed("deleted before it was seen to end", deleted),
    ]
    message = "; ".join(filter(None, parts))
    if failed or fire.refused:
        return FireOutcome.FAILED, message
    return (FireOutcome.STOPPED if stopped or deleted else FireOutcome.SUCCEEDED), message


def _listed(what: str, jobs: list[str]) -> str:
    if not jobs:
        return ""
    more = f" and {len(jobs) - _NAMED} more" if len(jobs) > _NAMED else ""
    return f"{what}: {', '.join(jobs[:_NAMED])}{more}"
