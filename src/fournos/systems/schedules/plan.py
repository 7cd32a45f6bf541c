"""Reads the times of a schedule from its spec.  Pure."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta

from fournos.api.fournosschedule import Exclusions, FournosScheduleSpec
from fournos.engine.api.durations import parse_ttl
from fournos.systems.schedules.children import matrix_problem
from fournos.systems.schedules.dialect import cron, zone
from fournos.systems.schedules.due import Plan
from fournos.systems.schedules.exclusions import ExcludedTimes
from fournos.systems.schedules.names import jitter


def plan_of(spec: FournosScheduleSpec, uid: str) -> Plan:
    """Returns the times of a schedule.  Raises ValueError, whose message names the field."""
    deadline = spec.starting_deadline_seconds
    return Plan(
        expressions=tuple(dict.fromkeys(map(cron, spec.schedules))),
        zone=zone(spec.time_zone),
        deadline=None if deadline is None else timedelta(seconds=deadline),
        jitter=timedelta(seconds=jitter(uid, spec.jitter_seconds)),
        excluded=_excluded(spec.exclusions or Exclusions()),
        minimum_interval=parse_ttl(spec.minimum_interval) if spec.minimum_interval else timedelta(),
    )


def problem(spec: FournosScheduleSpec) -> str:
    """Returns why a schedule cannot work; "" if it can."""
    try:
        plan_of(spec, "")
    except ValueError as error:
        return str(error)
    return matrix_problem(spec) or _fields_problem(spec)


def _fields_problem(spec: FournosScheduleSpec) -> str:
    fields = spec.skip_unchanged.fields if spec.skip_unchanged else ()
    wrong = next((path for path in fields if not all(path.split("."))), None)
    return "" if wrong is None else f"spec.skipUnchanged.fields: {wrong!r:.80} is no path of a field"


def _excluded(exclusions: Exclusions) -> ExcludedTimes:
    windows = [
        (time.fromisoformat(window.from_), time.fromisoformat(window.to)) for window in exclusions.windows
    ]
    return ExcludedTimes(frozenset(map(date.fromisoformat, exclusions.dates)), tuple(windows))


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
