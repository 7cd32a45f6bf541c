"""What a FournosSchedule does: its state, its times and its jobs."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum

from fournos.api.fournosschedule import FournosScheduleSpec, FournosScheduleStatus
from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.resource import Obj, key_of, uid_of
from fournos.insight.errors import FournosError
from fournos.insight.schedule_preview import Pause, ScheduledTime, next_starts, preview
from fournos.insight.selection import newest_first
from fournos.insight.source import Source
from fournos.insight.values import is_terminal, moment, name_of, one_line, spec_of, status_of
from fournos.systems.schedules.author import author_of
from fournos.systems.schedules.due import Plan
from fournos.systems.schedules.names import SCHEDULE_UID_LABEL, TRIGGER_ANNOTATION
from fournos.systems.schedules.plan import plan_of
from fournos.systems.schedules.status import ACCEPTED, OVERLAPPING


class ScheduleState(StrEnum):
    """What a schedule does now."""

    INVALID = "Invalid"
    SUSPENDED = "Suspended"
    OVERLAPPING = "Overlapping"
    """A fire is skipped or waits, because of one before it."""
    ACTIVE = "Active"
    IDLE = "Idle"


def spec(schedule: Obj) -> FournosScheduleSpec:
    return FournosScheduleSpec.model_validate(spec_of(schedule))


def status(schedule: Obj) -> FournosScheduleStatus:
    return FournosScheduleStatus.model_validate(status_of(schedule))


def state(schedule: Obj, now: datetime) -> ScheduleState:
    if (condition(schedule, ACCEPTED) or {}).get("status") == "False":
        return ScheduleState.INVALID
    if pause_of(schedule, now) is not None:
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


def pause_of(schedule: Obj, now: datetime) -> Pause | None:
    """Returns the suspension that is in force; None if there is none."""
    pause = spec_of(schedule).get("suspend")
    if pause is None:
        return None
    until = moment(pause.get("until"))
    return Pause(until) if until is None or now < until else None


def plan(schedule: Obj) -> Plan:
    """Returns the times of a schedule.  Raises FournosError if it has none that exist.

    Without a UID, as in a manifest, there is no jitter: it follows from the UID.
    """
    uid = schedule["metadata"].get("uid")
    try:
        times = plan_of(spec(schedule), uid or "")
    except ValueError as error:
        raise FournosError(
            f"{name_of(schedule)} has no times: {error}",
            fix=f"correct it: kubectl edit fournosschedule {name_of(schedule)}",
        ) from None
    return times if uid else replace(times, jitter=timedelta())


def preview_of(schedule: Obj, begin: datetime, number: int, now: datetime) -> list[ScheduledTime]:
    """Returns the next times of a schedule from `begin` on; see `schedule_preview.preview`."""
    last_start = status(schedule).last_start_time
    return preview(plan(schedule), begin, number, last_start=last_start, pause=pause_of(schedule, now))


def next_times(schedule: Obj, number: int, now: datetime, end: datetime | None = None) -> list[datetime]:
    """Returns when the next jobs are created, at most `number` before `end`, in its time zone."""
    last_start, pause = status(schedule).last_start_time, pause_of(schedule, now)
    return next_starts(plan(schedule), now, number, last_start=last_start, pause=pause, end=end)


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
        ("Author", author_name(schedule)),
        ("Last fire", f"{last.get('time')} {last.get('outcome')}" if last else ""),
        ("Last success", str(status.get("lastSuccessTime") or "")),
        ("Failures", f"{status['failures']} in a row" if status.get("failures") else ""),
        ("Missed", "{count}, the last one {time}: {reason}".format_map(missed) if missed else ""),
    ]


def author_name(schedule: Obj) -> str:
    """Returns for whom the jobs are created; "" if that is not stored."""
    author = author_of(schedule)
    return author.name if author else ""


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
    return sorted((job for job in jobs if _annotation(job, TRIGGER_ANNOTATION) == trigger), key=name_of)


def _annotation(obj: Obj, name: str) -> str:
    return str((obj["metadata"].get("annotations") or {}).get(name) or "")


def under_way(jobs: list[Obj]) -> list[Obj]:
    """Returns the jobs that have not ended, waiting ones included."""
    return [job for job in jobs if not is_terminal(job)]
