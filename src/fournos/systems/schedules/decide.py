"""The decision of the FournosSchedule controller.

claim a time in the status → create its jobs → note that they were created → note how they ended
"""

from __future__ import annotations

from datetime import datetime

from fournos.engine.api.times import creation_time
from fournos.engine.runtime.decision import Decision, Facts
from fournos.engine.runtime.steps import Create, Delete, Step
from fournos.systems.schedules.by_hand import fire_by_hand
from fournos.systems.schedules.context import Context
from fournos.systems.schedules.create import create
from fournos.systems.schedules.fire import fire
from fournos.systems.schedules.observe import Observed
from fournos.systems.schedules.plan import plan_of, problem
from fournos.systems.schedules.settings import ScheduleSettings
from fournos.systems.schedules.settle import settle
from fournos.systems.schedules.status import ACCEPTED
from fournos.systems.schedules.trigger import trigger_of


def decide(observed: Observed, facts: Facts, now: datetime, *, settings: ScheduleSettings) -> Decision:
    """Returns the next steps and status of a schedule.  Pure; see `fournos.engine.runtime.decision`."""
    ctx = Context(observed, facts, now, settings)
    if ctx.deleting:
        return Decision()  # what runs goes on
    failure = facts.failure
    if failure is not None and (failure.transient or not isinstance(failure.step, Create | Delete)):
        return Decision(retry=True)
    settle(ctx)
    text = observed.unreadable or problem(ctx.spec)
    if text:
        return _not_accepted(ctx, text)
    _accept(ctx)
    if steps := _stopped_by_failures(ctx):
        return ctx.decision(steps)
    plan = plan_of(ctx.spec, str(ctx.obj["metadata"]["uid"]))
    claimed = next((entry for entry in ctx.draft.active if not entry.created), None)
    if claimed is not None:
        return create(ctx, plan, claimed)
    asked = trigger_of(ctx.obj)
    if asked is not None and asked.id != ctx.draft.last_trigger:
        return fire_by_hand(ctx, asked)
    return fire(ctx, plan)


def _not_accepted(ctx: Context, text: str) -> Decision:
    """Waits for a change of the spec; a fire whose jobs were not created yet is given up."""
    ctx.draft.fires(entry for entry in ctx.draft.active if entry.created)
    ctx.draft.times(nextTime=None)
    if ctx.draft.reason_of(ACCEPTED) != "Invalid":
        ctx.draft.event("Invalid", text, warning=True)
    ctx.draft.condition(ACCEPTED, "False", "Invalid", text)
    return ctx.decision()


def _accept(ctx: Context) -> None:
    """Notes since when this generation of the spec counts.

    It counts from when it is seen, so that neither an edit nor the end of a suspension makes up for a
    time.  A new schedule counts from its creation.
    """
    draft, generation = ctx.draft, ctx.obj["metadata"].get("generation")
    if draft.observed_generation == generation and draft.is_true(ACCEPTED):
        return
    new = draft.observed_generation is None
    draft.times(effectiveSince=creation_time(ctx.obj) if new else ctx.now)
    draft.put(observedGeneration=generation).condition(ACCEPTED, "True", "Valid")
    last = draft.last_schedule_time
    if last is not None and last > ctx.now:
        # The clock was ahead.  An edit is the way to go on before it is there again.
        draft.times(lastScheduleTime=None, lastStartTime=None)
    if ctx.spec.suspend is None or ctx.spec.suspend.until is not None:
        draft.put(failures=None)  # a person goes on; a suspension of ours has no end


def _stopped_by_failures(ctx: Context) -> tuple[Step, ...]:
    limit, failures = ctx.spec.stop_after_failures, ctx.draft.failures
    if not limit or failures < limit:
        return ()
    last = ctx.draft.last_fire
    why = f", the last one: {last.message}" if last and last.message else ""
    return ctx.suspension(f"{failures} fires in a row failed{why}")
