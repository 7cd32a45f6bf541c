"""Which time of a schedule is due: one pure function for start, restart, relist, resume and edit.

Due is the newest time that has come since the last one was dealt with, unless it is too late for it.  At most
one time is due; what is older is missed.  Nothing is counted before `floor`, so that neither a resumed nor an
edited schedule makes up for anything, and no time runs again after the clock was set back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import Final
from zoneinfo import ZoneInfo

from fournos.api.fournosschedule import MissedReason
from fournos.systems.schedules.dialect import times
from fournos.systems.schedules.exclusions import ExcludedTimes

LONGEST_DEADLINE: Final = timedelta(hours=12)
"""The longest deadline of a schedule that names none."""
MOST_COUNTED: Final = 1000
"""The most missed times that are counted in one pass, so that it is short after a year of absence."""
_LOOKED_AHEAD: Final = 2000
"""The most times that are looked at for the next one that is not excluded."""
_ZERO: Final = timedelta()


@dataclass(frozen=True, slots=True)
class Plan:
    """The times of one schedule, as its spec has them."""

    expressions: tuple[str, ...]
    zone: ZoneInfo
    deadline: timedelta | None = None
    """How late jobs may be created; None: half the interval, at most LONGEST_DEADLINE."""
    jitter: timedelta = _ZERO
    """By how much all times of this schedule are moved."""
    excluded: ExcludedTimes = field(default_factory=ExcludedTimes)
    minimum_interval: timedelta = _ZERO


@dataclass(frozen=True, slots=True)
class Due:
    """What is due at one moment."""

    time: datetime | None = None
    """The time that is due, without jitter."""
    dealt_with: datetime | None = None
    """The newest time that needs no other look: the one that is due, or a missed one."""
    deadline: datetime | None = None
    """Until when it is due."""
    following: datetime | None = None
    """The time after it; without a time that is due, None."""
    missed: Mapping[MissedReason, int] = field(default_factory=dict)
    next: datetime | None = None
    """When the next time comes, with jitter; None if that is not within reach."""


def due(plan: Plan, *, floor: datetime, last_start: datetime | None, now: datetime) -> Due:
    """Returns what is due at `now`.

    `floor`: times up to this one are dealt with; `last_start`: the time of the last fire.
    """
    reach = now - plan.jitter
    coming = due_after(plan, max(floor, reach), last_start)
    newest = _newest(plan, floor, reach)
    if newest is None:
        return Due(next=coming)
    following = next(times(plan.expressions, plan.zone, newest), None)
    deadline = newest + plan.jitter + _deadline(plan, newest, following)
    if plan.excluded.touch(newest, now, plan.zone):
        return Due(next=coming)
    missed = Counter({MissedReason.LATE: _older(plan, floor, newest)})
    if now > deadline:
        missed[MissedReason.LATE] += 1
    elif last_start is not None and newest - last_start < plan.minimum_interval:
        missed[MissedReason.TOO_SOON] += 1
    else:
        coming = due_after(plan, max(floor, reach), newest)
        return Due(newest, newest, deadline, following, +missed, coming)
    return Due(None, newest, missed=+missed, next=coming)


def _newest(plan: Plan, floor: datetime, reach: datetime) -> datetime | None:
    """Returns the newest time in (floor, reach], by search backwards in growing steps."""
    step = timedelta(hours=1)
    while True:
        begin = max(floor, reach - step)
        passed = takewhile(lambda moment: moment <= reach, times(plan.expressions, plan.zone, begin))
        newest = max(passed, default=None)
        if newest is not None or begin <= floor:
            return newest
        step *= 8


def _older(plan: Plan, floor: datetime, newest: datetime) -> int:
    """Returns how many times before `newest` were missed; those that were excluded are not."""
    older = takewhile(lambda moment: moment < newest, times(plan.expressions, plan.zone, floor))
    return sum(not plan.excluded.touch(moment, moment, plan.zone) for moment in islice(older, MOST_COUNTED))


def _deadline(plan: Plan, moment: datetime, following: datetime | None) -> timedelta:
    if plan.deadline is not None:
        return plan.deadline
    return LONGEST_DEADLINE if following is None else min(LONGEST_DEADLINE, (following - moment) / 2)


def due_after(plan: Plan, after: datetime, last_start: datetime | None) -> datetime | None:
    """Returns when the next time after `after` comes, with jitter; None if that is not within reach."""
    for moment in islice(times(plan.expressions, plan.zone, after), _LOOKED_AHEAD):
        begin = moment + plan.jitter
        too_soon = last_start is not None and moment - last_start < plan.minimum_interval
        if not too_soon and not plan.excluded.touch(moment, begin, plan.zone):
            return begin
    return None
