"""The times of a schedule: the dialect of `spec.schedules`, and which of its times is due.  Pure.

The dialect is five fields as in Debian's cron, and five names for common times.
A time that a clock change skips is moved to the first minute after the gap, one that it doubles counts at its
first occurrence, both only for expressions whose minute and hour begin with no star; an expression that
begins with one follows the clock, so that `0 * * * *` counts twice in the doubled hour.

Due is the newest time that has come since the last one was dealt with, unless it is too late for it.  At most
one time is due; what is older is missed.  Nothing is counted before `floor`, so that neither a resumed nor an
edited schedule makes up for anything, and no time runs again after the clock was set back.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from fournos.api.fournosschedule import FournosScheduleSpec

MACROS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
}
"""The names, of which cronsim has none."""
DIALECT: Final = (
    "write five fields as in Debian's cron (minute, hour, day of month, month, day of week; "
    "each *, a number, a range a-b, a list a,b or a step */n; months and days of the week also as JAN or "
    "MON), "
    f"or one of {', '.join(MACROS)}; L, W, # and a field of seconds are of other dialects"
)

_MONTHS: Final = "JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC"
_DAYS: Final = "SUN|MON|TUE|WED|THU|FRI|SAT"


def _field(names: str = "") -> str:
    value = rf"([0-9]{{1,2}}{f'|{names}' if names else ''})"
    term = rf"([*]|{value}(-{value})?)(/[0-9]{{1,2}})?"
    return rf"{term}(,{term})*"


PATTERN: Final = (
    rf"({'|'.join(MACROS)}|{_field()} +{_field()} +{_field()} +{_field(_MONTHS)} +{_field(_DAYS)})"
)
"""The syntax, as a regular expression for the API server; whether a day exists is known to `cron` alone."""
_LAST_YEAR: Final = 9998
"""What is added to a time, such as its deadline, stays within the year 9999, the last that there is."""
_FARTHEST: Final = timedelta(days=20 * 366)
"""How far a search for the next time goes: of 29 February three come within 16 years."""
_BEFORE: Final = timedelta(hours=3)
"""How much earlier a search begins: at a clock change the first times found depend on where it begins."""
LONGEST_DEADLINE: Final = timedelta(hours=12)
"""The longest deadline of a schedule that names none."""
MOST_COUNTED: Final = 1000
"""The most missed times that are counted in one pass, so that it is short after a year of absence."""


def cron(text: str) -> str:
    """Returns the expression in five fields.  Raises ValueError, whose message names the dialect."""
    if not re.fullmatch(PATTERN, text, re.ASCII):
        raise ValueError(f"{text!r:.80} is no time of a schedule: {DIALECT}")
    expression = MACROS.get(text, text)
    try:
        next(CronSim(expression, datetime(2026, 1, 1, tzinfo=UTC)), None)
    except CronSimError as error:
        raise ValueError(f"{text!r:.80} is no time of a schedule ({error}): {DIALECT}") from None
    return expression


def zone(name: str) -> ZoneInfo:
    """Returns the time zone.  Raises ValueError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(
            f"{name!r:.80} is no time zone of the IANA database: write Europe/Berlin or Etc/UTC"
        ) from None


def times(expressions: Sequence[str], where: ZoneInfo, after: datetime) -> Iterator[datetime]:
    """Yields the times after `after` in UTC, ascending, each once."""
    newest = after
    for moment in heapq.merge(*(_times(expression, where, after) for expression in expressions)):
        if moment > newest:
            newest = moment
            yield moment


def _times(expression: str, where: ZoneInfo, after: datetime) -> Iterator[datetime]:
    try:
        for moment in CronSim(expression, (after - _BEFORE).astimezone(where)):
            time = moment.astimezone(UTC)
            if moment.year > _LAST_YEAR or time - after > _FARTHEST:
                return
            yield time
    except OverflowError:  # there is no year 10000
        return


@dataclass(frozen=True, slots=True)
class Plan:
    """The times of one schedule, as its spec has them."""

    expressions: tuple[str, ...]
    zone: ZoneInfo
    deadline: timedelta | None = None
    """How late jobs may be created; None: half the interval, at most LONGEST_DEADLINE."""

    def after(self, moment: datetime) -> Iterator[datetime]:
        """Yields the times after a moment in UTC, ascending, each once."""
        return times(self.expressions, self.zone, moment)

    def next(self, moment: datetime) -> datetime | None:
        """Returns the first time after a moment; None if there is none."""
        return next(self.after(moment), None)


def plan_of(spec: FournosScheduleSpec) -> Plan:
    """Returns the times of a schedule.  Raises ValueError, whose message names the field."""
    deadline = spec.starting_deadline_seconds
    return Plan(
        expressions=tuple(dict.fromkeys(map(cron, spec.schedules))),
        zone=zone(spec.time_zone),
        deadline=None if deadline is None else timedelta(seconds=deadline),
    )


def suspended(spec: FournosScheduleSpec, now: datetime) -> bool:
    """True if the schedule creates nothing now."""
    pause = spec.suspend
    return pause is not None and (pause.until is None or now < pause.until)


def floor(spec: FournosScheduleSpec, since: datetime, last: datetime | None, now: datetime) -> datetime:
    """Returns up to which time everything is dealt with.

    `since`: when the operator saw this generation of the spec; `last`: `status.lastScheduleTime`.
    """
    until = spec.suspend.until if spec.suspend and not suspended(spec, now) else None
    return max(moment for moment in (since, last, until) if moment is not None)


@dataclass(frozen=True, slots=True)
class Due:
    """What is due at one moment."""

    time: datetime | None = None
    """The time that is due."""
    dealt_with: datetime | None = None
    """The newest time that needs no other look: the one that is due, or a missed one."""
    missed: int = 0
    """Times that came too late to be due."""
    next: datetime | None = None
    """When the next time comes; None if there is none."""


def due(plan: Plan, *, floor: datetime, now: datetime) -> Due:
    """Returns what is due at `now`.  `floor`: times up to this one are dealt with."""
    coming = plan.next(max(floor, now))
    newest = _newest(plan, floor, now)
    if newest is None:
        return Due(next=coming)
    older = takewhile(lambda moment: moment < newest, plan.after(floor))
    missed = sum(1 for _ in islice(older, MOST_COUNTED))
    if now > newest + _deadline(plan, newest):
        return Due(None, newest, missed + 1, coming)
    return Due(newest, newest, missed, coming)


def _newest(plan: Plan, floor: datetime, now: datetime) -> datetime | None:
    """Returns the newest time in (floor, now], by search backwards in growing steps."""
    step = timedelta(hours=1)
    while True:
        begin = max(floor, now - step)
        newest = max(takewhile(lambda moment: moment <= now, plan.after(begin)), default=None)
        if newest is not None or begin <= floor:
            return newest
        step *= 8


def _deadline(plan: Plan, moment: datetime) -> timedelta:
    if plan.deadline is not None:
        return plan.deadline
    following = plan.next(moment)
    return LONGEST_DEADLINE if following is None else min(LONGEST_DEADLINE, (following - moment) / 2)
