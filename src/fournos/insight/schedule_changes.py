"""The changes that can be requested of a FournosSchedule.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from fournos.engine.api.durations import parse_ttl
from fournos.engine.api.times import format_time, parse_time
from fournos.engine.kube.resource import Obj
from fournos.insight.errors import FournosError
from fournos.insight.schedule_manifests import check_jobs, job_path
from fournos.insight.schedules import ScheduleState, message, state
from fournos.insight.values import name_of, spec_of, status_of
from fournos.systems.schedules.names import TRIGGER_ANNOTATION
from fournos.systems.schedules.trigger import Trigger, parsed


def suspend_change(*, reason: str, until: datetime | None, now: datetime) -> Obj:
    """Returns the merge patch that suspends a schedule.  Raises FournosError for a time that has passed."""
    if until is not None and until <= now:
        raise FournosError(
            f"{format_time(until)} has passed already",
            fix="name a later time, or leave it out to suspend the schedule until it is resumed",
        )
    pause: dict[str, Any] = {"reason": reason or None, "until": format_time(until) if until else None}
    return {"spec": {"suspend": pause}}


def resume_change(schedule: Obj) -> Obj:
    """Returns the merge patch that ends the suspension.  Raises FournosError if there is none."""
    if spec_of(schedule).get("suspend") is None:
        raise FournosError(
            f"{name_of(schedule)} is not suspended", fix=f"see it: fournos schedule get {name_of(schedule)}"
        )
    return {"spec": {"suspend": None}}


def trigger_change(schedule: Obj, trigger: str, changes: Mapping[str, Any], now: datetime) -> Obj:
    """Returns the merge patch that asks for a fire now; `trigger` is an id that was not used before.

    `changes`: path → value of fields of the job, None to remove one.  Raises FournosError for a schedule
    that cannot be used, and ManifestError for a job that would be refused.
    """
    name = name_of(schedule)
    if state(schedule, now) is ScheduleState.INVALID:
        raise FournosError(
            f"{name} cannot be used: {message(schedule, now)}",
            fix=f"correct it: kubectl edit fournosschedule {name}",
        )
    by_path = {job_path(path): value for path, value in changes.items()}
    check_jobs(schedule, by_path, name)
    text = Trigger(trigger, by_path).text()
    if parsed(text) is None:
        raise FournosError(f"the changes are too long: {len(text)} characters", fix="set fewer fields")
    return {"metadata": {"annotations": {TRIGGER_ANNOTATION: text}}}


def taken_up(schedule: Obj, trigger: str) -> bool:
    """True if the jobs of a trigger are created, or it was refused."""
    status = status_of(schedule)
    claimed = [parsed(fire.get("trigger")) for fire in status.get("active") or () if not fire.get("created")]
    creating = {request.id for request in claimed if request is not None}
    return status.get("lastTrigger") == trigger and trigger not in creating


def moment_of(text: str, zone: ZoneInfo, now: datetime) -> datetime:
    """Reads 2026-12-24, 2026-12-24T08:00, a time with an offset, or a length from now such as 12h or 7d.

    A text without an offset is a time of `zone`.  Raises FournosError.
    """
    try:
        return now + parse_ttl(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise FournosError(
            f"{text!r:.80} is no time", fix="write 2026-12-24, 2026-12-24T08:00, 2026-12-24T08:00:00Z or 7d"
        ) from None
    return parse_time((moment if moment.tzinfo else moment.replace(tzinfo=zone)).isoformat())
