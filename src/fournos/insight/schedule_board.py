"""All schedules of a namespace beside each other: their last fires, and the times of the coming week."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import groupby
from typing import Final

from fournos.api.kinds import FOURNOS_JOB, FOURNOS_SCHEDULE
from fournos.api.phase import Phase
from fournos.engine.kube.resource import Obj, uid_of
from fournos.insight.children import label_of
from fournos.insight.errors import FournosError
from fournos.insight.schedules import ScheduleState, message, next_times, state, times_text
from fournos.insight.source import Source
from fournos.insight.values import is_terminal, moment, name_of, phase_of, spec_of, status_of
from fournos.systems.schedules.names import SCHEDULE_UID_LABEL, TIME_LABEL

KINDS: Final = (FOURNOS_SCHEDULE, FOURNOS_JOB)
"""The kinds that are read."""
FIRES_SHOWN: Final = 10
DAYS: Final = 7
_MOST_TIMES: Final = 500
"""Times of the week that are looked at; a schedule of every minute has more."""
_WORST_FIRST: Final = (Phase.FAILED, Phase.STOPPED, Phase.SUCCEEDED)


@dataclass(frozen=True, slots=True)
class FireMark:
    """One fire, by its jobs that still exist."""

    time: str
    """The scheduled time as in the label of its jobs."""
    phase: str
    """The worst end of its jobs; the phase of one that has not ended, if there is one."""
    jobs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScheduleLine:
    """One schedule in the list."""

    name: str
    times: str
    zone: str
    state: ScheduleState
    message: str
    next: datetime | None
    missed: int
    marks: tuple[FireMark, ...]
    """The newest fires, oldest first."""


@dataclass(frozen=True, slots=True)
class DayEntry:
    """The times of one schedule on one day."""

    name: str
    first: datetime
    """In the schedule's time zone."""
    more: int


@dataclass(frozen=True, slots=True)
class Day:
    day: date
    entries: tuple[DayEntry, ...]


@dataclass(frozen=True, slots=True)
class ScheduleBoard:
    lines: tuple[ScheduleLine, ...]
    week: tuple[Day, ...]


async def read(source: Source, namespace: str, now: datetime) -> ScheduleBoard:
    """Raises the errors of `fournos.engine.kube.errors`; NoSuchResourceError without the CRD."""
    schedules = (await source.list(FOURNOS_SCHEDULE, namespace=namespace)).items
    jobs = (await source.list(FOURNOS_JOB, namespace=namespace, selector=SCHEDULE_UID_LABEL)).items
    return board(schedules, jobs, now)


def board(schedules: Iterable[Obj], jobs: Iterable[Obj], now: datetime) -> ScheduleBoard:
    by_schedule: dict[str, list[Obj]] = {}
    for job in jobs:
        by_schedule.setdefault(label_of(job, SCHEDULE_UID_LABEL), []).append(job)
    ordered = sorted(schedules, key=name_of)
    lines = tuple(line(schedule, by_schedule.get(uid_of(schedule), ()), now) for schedule in ordered)
    return ScheduleBoard(lines, week(ordered, now))


def line(schedule: Obj, jobs: Iterable[Obj], now: datetime) -> ScheduleLine:
    """`jobs`: those of the schedule."""
    spec, status = spec_of(schedule), status_of(schedule)
    return ScheduleLine(
        name_of(schedule),
        times_text(schedule),
        str(spec.get("timeZone") or ""),
        state(schedule, now),
        message(schedule, now),
        moment(status.get("nextTime")),
        int((status.get("missed") or {}).get("count") or 0),
        marks(jobs),
    )


def marks(jobs: Iterable[Obj]) -> tuple[FireMark, ...]:
    """Returns the newest fires, oldest first."""
    fires: dict[str, list[Obj]] = {}
    for job in jobs:
        fires.setdefault(label_of(job, TIME_LABEL), []).append(job)
    return tuple(_mark(time, fires[time]) for time in sorted(fires)[-FIRES_SHOWN:])


def _mark(time: str, jobs: Sequence[Obj]) -> FireMark:
    under_way = [phase_of(job) for job in jobs if not is_terminal(job)]
    ends = {phase_of(job) for job in jobs}
    worst = next((phase for phase in _WORST_FIRST if phase in ends), Phase.SUCCEEDED)
    return FireMark(time, under_way[0] if under_way else worst, tuple(sorted(map(name_of, jobs))))


def week(schedules: Iterable[Obj], now: datetime) -> tuple[Day, ...]:
    """Returns the coming seven days, each with the times of the schedules on it, by their own clocks."""
    end = now + timedelta(days=DAYS)
    entries: dict[date, list[DayEntry]] = {}
    for schedule in schedules:
        for day, of_day in groupby(_times_until(schedule, now, end), key=datetime.date):
            times = list(of_day)
            entries.setdefault(day, []).append(DayEntry(name_of(schedule), times[0], len(times) - 1))
    days = (now.date() + timedelta(days=number) for number in range(DAYS))
    return tuple(Day(day, tuple(sorted(entries.get(day, ()), key=_clock))) for day in days)


def _times_until(schedule: Obj, now: datetime, end: datetime) -> list[datetime]:
    try:
        return next_times(schedule, _MOST_TIMES, now, end)
    except FournosError:
        return []  # its state says that it has no times


def _clock(entry: DayEntry) -> tuple[str, str]:
    return f"{entry.first:%H:%M}", entry.name
