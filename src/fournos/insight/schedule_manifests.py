"""Builds and checks the manifest of a FournosSchedule, and the changes of one.  Pure."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from zoneinfo import ZoneInfo, available_timezones

from fournos.api.fournosschedule import FournosScheduleSpec
from fournos.api.kinds import FOURNOS_SCHEDULE
from fournos.engine.api.rules import Violation
from fournos.engine.api.values import format_time, parse_time, parse_ttl
from fournos.engine.kube.resource import Obj
from fournos.insight.errors import FournosError, ManifestError, refusal
from fournos.insight.manifests import field_path
from fournos.insight.schedules import ScheduleState, message, state
from fournos.insight.values import name_of, spec_of, status_of
from fournos.systems.schedules.build import Fire, children, job_violations, problem
from fournos.systems.schedules.names import TRIGGER_ANNOTATION
from fournos.systems.schedules.rules import check_manifest
from fournos.systems.schedules.times import DIALECT, cron, zone

_CORRECT: Final = "correct these fields and try again"
_EXAMPLE: Final = {"uid": "00000000-0000-0000-0000-000000000000", "namespace": "default"}
"""What the API server and the caller fill in, for a check of the jobs."""
_EXAMPLE_TIME: Final = datetime(2026, 1, 1, tzinfo=UTC)


def schedule_manifest(
    name: str,
    job: Mapping[str, Any],
    times: Sequence[str],
    time_zone: str,
    *,
    matrix: Mapping[str, Sequence[Any]] | None = None,
    fields: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Returns the checked manifest of a schedule of this job.  Raises ManifestError and FournosError.

    `matrix`: path of a field of the job's spec → its values; `fields`: further fields of the spec, by their
    JSON names.
    """
    meta = job.get("metadata") or {}
    template = {"spec": job.get("spec") or {}}
    if metadata := {part: meta[part] for part in ("labels", "annotations") if meta.get(part)}:
        template = {"metadata": metadata, **template}
    spec: dict[str, Any] = {"schedules": list(times), "timeZone": time_zone, "jobTemplate": template}
    if matrix:
        spec["matrix"] = {job_path(path): list(values) for path, values in matrix.items()}
    manifest = {
        "apiVersion": FOURNOS_SCHEDULE.api_version,
        "kind": FOURNOS_SCHEDULE.kind,
        "metadata": {"name": name},
        "spec": {**spec, **(fields or {})},
    }
    manifest = copy.deepcopy(manifest)
    accepted(manifest, name)
    return manifest


def job_path(path: str) -> str:
    """Returns the path within the job's spec.  Raises ManifestError."""
    parts = field_path(path)
    if parts[:1] != ["spec"] or len(parts) < 2 or any("." in part for part in parts):
        raise ManifestError(
            f"{path!r:.80} is no field of a job's spec that a schedule can vary",
            fix="write a path such as params.model or hardware.gpuCount",
        )
    return ".".join(parts[1:])


def accepted(manifest: Mapping[str, Any], source: str) -> None:
    """Checks times, schedule and each job of a fire, as the API server and the operator do.

    Raises FournosError for a time or a zone that does not exist, ManifestError with all other violations.
    """
    spec = manifest.get("spec")
    if isinstance(spec, Mapping):
        _check_times(spec.get("schedules"), spec.get("timeZone"))
    meta = manifest.get("metadata")
    broken = check_manifest(manifest)
    if not isinstance(meta, Mapping) or not meta.get("name"):
        broken = [Violation("metadata.name", "write a name", "schema"), *broken]
    if not broken:
        model = FournosScheduleSpec.model_validate(spec)
        text = problem(model)
        broken = [Violation("spec", text, "schedule")] if text else job_violations(jobs_of_fire(manifest))
    if broken:
        raise refusal(source, broken, fix=_CORRECT)


def _check_times(expressions: object, time_zone: object) -> None:
    """Raises FournosError for the first expression or time zone that does not exist."""
    for text in expressions if isinstance(expressions, list) else ():
        try:
            cron(str(text))
        except ValueError as error:
            message = str(error).removesuffix(f": {DIALECT}")
            raise FournosError(f"spec.schedules: {message}", fix=DIALECT) from None
    if isinstance(time_zone, str):
        try:
            zone(time_zone)
        except ValueError:
            raise FournosError(
                f"spec.timeZone: {time_zone!r:.80} is no time zone of the IANA database",
                fix=_zone_fix(time_zone),
            ) from None


def _zone_fix(text: str) -> str:
    zones = {name.lower(): name for name in available_timezones()}
    cities = {name.rpartition("/")[2]: name for name in zones}
    near = difflib.get_close_matches(text.lower(), zones, n=2) or difflib.get_close_matches(
        text.lower(), cities, n=2
    )
    names = [zones[cities.get(each, each)] for each in near]
    return f"write {' or '.join(names)}" if names else "write one such as Europe/Berlin or Etc/UTC"


def jobs_of_fire(manifest: Mapping[str, Any]) -> list[Obj]:
    """Returns the jobs of an example of a fire.  The manifest must fit the schema."""
    schedule = {**manifest, "metadata": {**_EXAMPLE, **manifest["metadata"]}}
    spec = FournosScheduleSpec.model_validate(manifest["spec"])
    return children(schedule, spec, Fire(_EXAMPLE_TIME, zone(spec.time_zone), None))


# --- the changes that can be requested -------------------------------------------------------------------


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


def trigger_change(schedule: Obj, trigger: str, now: datetime) -> Obj:
    """Returns the merge patch that asks for a fire now; `trigger` is an id that was not used before.

    Raises FournosError for a schedule that cannot be used.
    """
    name = name_of(schedule)
    if state(schedule, now) is ScheduleState.INVALID:
        raise FournosError(
            f"{name} cannot be used: {message(schedule, now)}",
            fix=f"correct it: kubectl edit fournosschedule {name}",
        )
    return {"metadata": {"annotations": {TRIGGER_ANNOTATION: trigger}}}


def taken_up(schedule: Obj, trigger: str) -> bool:
    """True if the jobs of a trigger are created, or it was refused."""
    status = status_of(schedule)
    creating = [fire.get("trigger") for fire in status.get("active") or () if not fire.get("created")]
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
