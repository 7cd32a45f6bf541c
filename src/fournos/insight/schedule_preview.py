"""The coming times of a schedule, with what clock changes and exclusions do to them.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import Final

from cronsim import CronSim

from fournos.insight.clock_changes import ClockChange, clock_changes, other_showing, shown_twice
from fournos.systems.schedules.dialect import times
from fournos.systems.schedules.due import Plan
from fournos.systems.schedules.exclusions import ExcludedTimes

MOST_TIMES: Final = 1000
"""Maximum number of times of one preview."""
_MOST_SKIPPED: Final = 4
"""Times that one clock change skips, and that are shown."""
_SECOND: Final = timedelta(seconds=1)
_MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class ScheduledTime:
    """A time that a schedule names."""

    clock: datetime
    """The time in the schedule's time zone; without one if a clock change skips this time."""
    starts: datetime | None
    """When its jobs are created, in UTC and with jitter; None if none are."""
    note: str
    """What is particular about it."""


def clock_text(clock: datetime, *, precise: bool = False) -> str:
    """Returns day, time and offset, such as Sun 2026-03-29 03:00+02:00; `precise`: to the second."""
    return f"{clock:%a} {clock.isoformat(' ', 'seconds' if precise else 'minutes')}"


@dataclass(frozen=True, slots=True)
class Pause:
    """A suspension."""

    until: datetime | None = None
    """None: no end is set."""

    def covers(self, moment: datetime) -> bool:
        """True for a time that has no jobs: after the end only later times have."""
        return self.until is None or moment <= self.until


def preview(
    plan: Plan,
    begin: datetime,
    number: int,
    *,
    last_start: datetime | None = None,
    pause: Pause | None = None,
) -> list[ScheduledTime]:
    """Returns the next `number` times from `begin` on, and those that clock changes between them skip.

    `last_start`: the time of the last fire, from which the minimum interval counts.
    """
    moments = list(islice(times(plan.expressions, plan.zone, begin - _SECOND), number))
    if not moments:
        return []
    changes = [change for change in clock_changes(plan.zone, begin - _SECOND, moments[-1]) if change.skips]
    skipped = {change.moment: _skipped(plan.expressions, change) for change in changes}
    rows: list[ScheduledTime] = []
    for moment in moments:
        while changes and changes[0].moment <= moment:
            change = changes.pop(0)
            rows += _skipped_rows(skipped[change.moment], change)
        row = _row(plan, moment, skipped, last_start, pause)
        last_start = moment if row.starts else last_start
        rows.append(row)
    return rows


def next_starts(
    plan: Plan,
    begin: datetime,
    number: int,
    *,
    last_start: datetime | None,
    pause: Pause | None,
    end: datetime | None = None,
) -> list[datetime]:
    """Returns when the next jobs are created, in the schedule's time zone: at most `number` before `end`."""
    # A time that has come may be one whose jobs start later, by jitter.
    after = begin - plan.jitter
    if pause is not None:
        if pause.until is None:
            return []
        after = max(after, pause.until)
    starts: list[datetime] = []
    for moment in islice(times(plan.expressions, plan.zone, after), MOST_TIMES):
        if len(starts) == number or (end is not None and moment + plan.jitter >= end):
            break
        if not _obstacle(plan, moment, last_start, None):
            starts.append((moment + plan.jitter).astimezone(plan.zone))
            last_start = moment
    return starts


@dataclass(frozen=True, slots=True)
class _Skipped:
    moved: tuple[datetime, ...]
    """Times on no clock whose jobs start at the change."""
    dropped: tuple[datetime, ...]
    """Times on no clock that follow the clock: they have no jobs."""


def _skipped(expressions: Sequence[str], change: ClockChange) -> _Skipped:
    moved: set[datetime] = set()
    dropped: set[datetime] = set()
    for expression in expressions:
        # Without a time zone the times are those of a clock that is never set.
        clock = CronSim(expression, change.before - _MINUTE)
        (moved if _fixed(expression) else dropped).update(takewhile(lambda time: time < change.after, clock))
    return _Skipped(tuple(sorted(moved)), tuple(sorted(dropped - moved)))


def _fixed(expression: str) -> bool:
    """True if a time that is skipped is moved: neither minute nor hour begins with a star."""
    minute, hour, *_ = expression.split()
    return not minute.startswith("*") and not hour.startswith("*")


def _skipped_rows(skipped: _Skipped, change: ClockChange) -> Iterator[ScheduledTime]:
    end = _end(change)
    for clocks, effect in ((skipped.moved, f"its jobs start at {end}"), (skipped.dropped, "no jobs")):
        for clock in clocks[:_MOST_SKIPPED]:
            note = f"skipped: the clock is set from {change.before:%H:%M} to {end}; {effect}"
            yield ScheduledTime(clock, None, note)
        if len(clocks) > _MOST_SKIPPED:
            rest = len(clocks) - _MOST_SKIPPED
            yield ScheduledTime(clocks[_MOST_SKIPPED], None, f"skipped: {rest} times from here on; {effect}")


def _end(change: ClockChange) -> str:
    same_day = change.after.date() == change.before.date()
    return f"{change.after:%H:%M}" if same_day else f"{change.after:%Y-%m-%d %H:%M}"


def _row(
    plan: Plan,
    moment: datetime,
    skipped: Mapping[datetime, _Skipped],
    last_start: datetime | None,
    pause: Pause | None,
) -> ScheduledTime:
    clock, starts = moment.astimezone(plan.zone), moment + plan.jitter
    notes = []
    if moment in skipped and skipped[moment].moved:
        notes.append(f"for {', '.join(f'{time:%H:%M}' for time in skipped[moment].moved[:_MOST_SKIPPED])}")
    if shown_twice(clock):
        notes.append(_of_two(plan, clock))
    obstacle = _obstacle(plan, moment, last_start, pause)
    return ScheduledTime(
        clock, None if obstacle else starts, "; ".join([*notes, *([obstacle] if obstacle else [])])
    )


def _of_two(plan: Plan, clock: datetime) -> str:
    other = other_showing(clock)
    if next(times(plan.expressions, plan.zone, other - _SECOND), None) != other:
        return "twice on the clock: only the first counts"
    return f"{'second' if clock.fold else 'first'} of two on the clock"


def _obstacle(plan: Plan, moment: datetime, last_start: datetime | None, pause: Pause | None) -> str:
    """Returns why no jobs are created; "" if they are."""
    starts = moment + plan.jitter
    if pause is not None and pause.covers(moment):
        return "suspended"
    if excluded := _exclusion(plan, moment, starts):
        return f"excluded: {excluded}"
    if last_start is not None and last_start <= moment < last_start + plan.minimum_interval:
        return "sooner than spec.minimumInterval"
    return ""


def _exclusion(plan: Plan, moment: datetime, starts: datetime) -> str:
    for day in sorted(plan.excluded.days):
        if ExcludedTimes(days=frozenset({day})).touch(moment, starts, plan.zone):
            return f"{day:%Y-%m-%d}"
    for begin, end in plan.excluded.windows:
        if ExcludedTimes(windows=((begin, end),)).touch(moment, starts, plan.zone):
            return f"{begin:%H:%M} to {end:%H:%M}"
    return ""
