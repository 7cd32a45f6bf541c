"""Takes up a trigger: a fire that a person asks for, whatever time it is.  Pure."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from fournos.api.fournosschedule import MAX_ACTIVE, ActiveFire
from fournos.engine.runtime.decision import Decision
from fournos.systems.schedules import names
from fournos.systems.schedules.children import changed, count
from fournos.systems.schedules.context import Context, time_of
from fournos.systems.schedules.trigger import Trigger, trigger_text
from fournos.systems.schedules.unchanged import Measured, measured

_SECOND: Final = timedelta(seconds=1)


def fire_by_hand(ctx: Context, trigger: Trigger) -> Decision:
    """Writes the fire to the status, as `fire` does; it moves no time, and does not wait for an earlier one.

    It also works while the schedule is suspended: who asks knows that.
    """
    draft = ctx.draft.put(lastTrigger=trigger.id)
    if len(draft.active) >= MAX_ACTIVE:
        text = f"Trigger {trigger.id} was not taken up: {MAX_ACTIVE} fires are active"
        draft.event("TriggerIgnored", text, warning=True)
        return ctx.decision()
    _, spec = changed(ctx.obj, ctx.spec, trigger.changes)
    comparable = Measured() if trigger.changes else measured(ctx)
    if comparable is None:
        return Decision(retry=True)
    claim = ActiveFire(
        time=_unused_time(ctx),
        started_at=ctx.now,
        jobs=count(spec),
        digest=comparable.digest,
        trigger=trigger_text(ctx.obj),
    )
    draft.fires((*draft.active, claim))
    return ctx.decision()


def _unused_time(ctx: Context) -> datetime:
    """Returns the time of the fire: with seconds, which tell it from all times of the schedule."""
    used = {time_of(job) for job in ctx.jobs} | {names.stamp(fire.time) for fire in ctx.draft.active}
    time = ctx.now.replace(microsecond=0)
    while not time.second or names.stamp(time) in used:
        time += _SECOND
    return time
