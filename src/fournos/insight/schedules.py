"""What a FournosSchedule does: its state, its times, its last fires and its jobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import Final

from fournos.api.fournosschedule import FournosScheduleSpec, FournosScheduleStatus
from fournos.api.kinds import FOURNOS_JOB, FOURNOS_SCHEDULE
from fournos.api.phase import Phase
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.resource import Obj, key_of, uid_of
from fournos.insight.children import label_of
from fournos.insight.errors import FournosError
from fournos.insight.jobs import newest_first
from fournos.insight.source import Source
from fournos.insight.values import (
    is_terminal,
    judged,
    moment,
    name_of,
    one_line,
    phase_of,
    spec_of,
    status_of,
)
from fournos.systems.schedules.names import (
    ACCEPTED,
    OVERLAPPING,
    SCHEDULE_UID_LABEL,
    TRIGGER_ANNOTATION,
)
from fournos.systems.schedules.names import CONFIRMS_LABEL as CONFIRMS_LABEL
from fournos.systems.schedules.names import SCHEDULE_LABEL as SCHEDULE_LABEL
from fournos.systems.schedules.names import TIME_LABEL as TIME_LABEL
from fournos.systems.schedules.times import Plan, plan_of

KINDS: Final = (FOURNOS_SCHEDULE, FOURNOS_JOB)
"""The kinds that are read."""
TIMES_SHOWN: Final = 10
"""Coming times of one schedule."""
FIRES_SHOWN: Final = 10
_WORST_FIRST: Final = (Phase.FAILED, Phase.STOPPED, Phase.SUCCEEDED)


class ScheduleState(StrEnum):
    """What a schedule does now."""

    INVALID = "Invalid"
    SUSPENDED = "Suspended"
    OVERLAPPING = "Overlapping"
    """The newest fire was skipped, because of one before it."""
    ACTIVE = "Active"
    IDLE = "Idle"


def spec(schedule: Obj) -> FournosScheduleSpec:
    return FournosScheduleSpec.model_validate(spec_of(schedule))


def status(schedule: Obj) -> FournosScheduleStatus:
    return FournosScheduleStatus.model_validate(status_of(schedule))


def state(schedule: Obj, now: datetime) -> ScheduleState:
    if (condition(schedule, ACCEPTED) or {}).get("status") == "False":
        return ScheduleState.INVALID
    if is_suspended(schedule, now):
        return ScheduleState.SUSPENDED
    if is_true(schedule, OVERLAPPING):
        return ScheduleState.OVERLAPPING
    return ScheduleState.ACTIVE if status_of(schedule).get("active") else ScheduleState.IDLE


def message(schedule: Obj, now: datetime) -> str:
    """Returns why the schedule is in its state, else how its last fire failed; "" if there is nothing."""
    match state(schedule, now):
        case ScheduleState.INVALID:
            return one_line((condition(schedule, ACCEPTED) or {}).get("message"))
        case ScheduleState.SUSPENDED:
            pause = spec_of(schedule).get("suspend") or {}
            until = f"until {pause['until']}" if pause.get("until") else ""
            return ": ".join(filter(None, (until, one_line(pause.get("reason")))))
        case ScheduleState.OVERLAPPING:
            return one_line((condition(schedule, OVERLAPPING) or {}).get("message"))
        case _:
            return one_line((status_of(schedule).get("lastFire") or {}).get("message"))


def is_suspended(schedule: Obj, now: datetime) -> bool:
    """True while a suspension is in force."""
    pause = spec_of(schedule).get("suspend")
    if pause is None:
        return False
    until = moment(pause.get("until"))
    return until is None or now < until


def plan(schedule: Obj) -> Plan:
    """Returns the times of a schedule.  Raises FournosError if it has none that exist."""
    try:
        return plan_of(spec(schedule))
    except ValueError as error:
        raise FournosError(
            f"{name_of(schedule)} has no times: {error}",
            fix=f"correct it: kubectl edit fournosschedule {name_of(schedule)}",
        ) from None


def next_times(schedule: Obj, number: int, now: datetime) -> list[datetime]:
    """Returns when the next jobs are created, in the schedule's time zone.

    None of a suspended schedule without an end.  Raises FournosError if it has no times that exist.
    """
    times, begin = plan(schedule), now
    if is_suspended(schedule, now):
        until = moment(spec_of(schedule)["suspend"].get("until"))
        if until is None:
            return []
        begin = until
    return [time.astimezone(times.zone) for time in islice(times.after(begin), number)]


def clock_text(clock: datetime) -> str:
    """Returns day, time and offset, such as Sun 2026-03-29 03:00+02:00."""
    return f"{clock:%a} {clock.isoformat(' ', 'minutes')}"


def times_text(schedule: Obj) -> str:
    return ", ".join(map(str, spec_of(schedule).get("schedules") or ()))


def facts(schedule: Obj) -> list[tuple[str, str]]:
    """Returns the facts of a schedule with their names; empty texts are of what it does not have."""
    spec, status = spec_of(schedule), status_of(schedule)
    axes = [f"{path} ({len(values)})" for path, values in (spec.get("matrix") or {}).items()]
    last, missed = status.get("lastFire") or {}, status.get("missed") or {}
    return [
        ("Times", times_text(schedule)),
        ("Time zone", str(spec.get("timeZone") or "")),
        ("Matrix", " x ".join(axes)),
        ("Concurrency", str(spec.get("concurrencyPolicy") or "")),
        ("Last fire", f"{last.get('time')} {last.get('outcome')}" if last else ""),
        ("Last success", str(status.get("lastSuccessTime") or "")),
        ("Failures", f"{status['failures']} in a row" if status.get("failures") else ""),
        ("Missed", "{count}, the last one {time}: {reason}".format_map(missed) if missed else ""),
    ]


# --- its jobs --------------------------------------------------------------------------------------------


def jobs_selector(schedule: Obj) -> str:
    """Returns the selector of its jobs."""
    return f"{SCHEDULE_UID_LABEL}={uid_of(schedule)}"


async def jobs_of(source: Source, schedule: Obj) -> list[Obj]:
    """Returns the jobs of a schedule, newest first."""
    namespace = key_of(schedule).namespace
    listed = await source.list(FOURNOS_JOB, namespace=namespace, selector=jobs_selector(schedule))
    return newest_first(listed.items)


async def jobs_of_trigger(source: Source, schedule: Obj, trigger: str) -> list[Obj]:
    """Returns the jobs of one trigger, by name."""
    jobs = await jobs_of(source, schedule)
    return sorted((job for job in jobs if _trigger_of(job) == trigger), key=name_of)


def _trigger_of(job: Obj) -> str:
    return str((job["metadata"].get("annotations") or {}).get(TRIGGER_ANNOTATION) or "")


def under_way(jobs: list[Obj]) -> list[Obj]:
    """Returns the jobs that have not ended, waiting ones included."""
    return [job for job in jobs if not is_terminal(job)]


# --- schedules in a list ---------------------------------------------------------------------------------


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


async def read_lines(source: Source, namespace: str, now: datetime) -> tuple[ScheduleLine, ...]:
    """Returns the schedules of a namespace by name.

    Raises the errors of `fournos.engine.kube.errors`; NoSuchResourceError without the CRD.
    """
    schedules = (await source.list(FOURNOS_SCHEDULE, namespace=namespace)).items
    jobs = (await source.list(FOURNOS_JOB, namespace=namespace, selector=SCHEDULE_UID_LABEL)).items
    by_schedule: dict[str, list[Obj]] = {}
    for job in jobs:
        by_schedule.setdefault(label_of(job, SCHEDULE_UID_LABEL), []).append(job)

    def line_of(schedule: Obj) -> ScheduleLine:
        return line(schedule, by_schedule.get(uid_of(schedule), ()), now)

    return tuple(judged(line_of, one, partial(_broken, one)) for one in sorted(schedules, key=name_of))


def _broken(schedule: Obj, problem: str) -> ScheduleLine:
    return ScheduleLine(name_of(schedule), "", "", ScheduleState.INVALID, problem, None, 0, ())


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
        _marks(jobs),
    )


def _marks(jobs: Iterable[Obj]) -> tuple[FireMark, ...]:
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
