"""Until when a schedule must have had a success, for the alert FournosScheduleNoSuccess.  Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from fournos.api.fournosschedule import FournosScheduleSpec, FournosScheduleStatus, MissedReason
from fournos.systems.schedules.due import Plan, due_after
from fournos.systems.schedules.plan import plan_of

PERIODS: Final = 3
"""So many periods may pass without a success."""


def success_expected(spec: FournosScheduleSpec, status: FournosScheduleStatus, uid: str) -> datetime | None:
    """Returns when three periods without a success are over; None if no success is expected.

    The periods are those of the schedule itself: a weekend without times is one period, and excluded times do
    not count.  They begin with the last success, or with the first time after a change or a suspension.
    Nothing is expected of a suspended schedule.  One that the operator suspended, because its fires failed or
    its author lost a right, has had its last time: no success comes any more, so that they are over with it.

    Raises ValueError if the schedule has no times.
    """
    since, pause, last_fire = status.effective_since, spec.suspend, status.last_fire
    if since is None:
        return None
    if pause is not None and pause.until is None:
        if last_fire is None:
            return None
        by_failures = 0 < spec.stop_after_failures <= (status.failures or 0)
        by_lost_right = pause.reason is not None and pause.reason == last_fire.message
        return last_fire.time if by_failures or by_lost_right else None
    if pause is not None and pause.until is not None:
        since = max(since, pause.until)
    plan, success = plan_of(spec, uid), _last_success(status)
    if success is not None and success >= since:
        return _nth_after(plan, PERIODS, success, last_start=success)
    return _nth_after(plan, PERIODS + 1, since, last_start=None)


def _last_success(status: FournosScheduleStatus) -> datetime | None:
    """Returns the time of the last success, or of a later one that was skipped as unchanged since then."""
    missed = status.missed
    unchanged = missed.time if missed is not None and missed.reason is MissedReason.UNCHANGED else None
    return max(filter(None, (status.last_success_time, unchanged)), default=None)


def _nth_after(plan: Plan, number: int, moment: datetime, *, last_start: datetime | None) -> datetime | None:
    """Returns when the `number`-th time after `moment` comes, with jitter; None if that is out of reach."""
    begin: datetime | None = None
    for _ in range(number):
        begin = due_after(plan, moment, last_start)
        if begin is None:
            return None
        moment = last_start = begin - plan.jitter
    return begin
