"""Builds and checks the manifest of a FournosSchedule.  Pure."""

from __future__ import annotations

import copy
import difflib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final
from zoneinfo import available_timezones

from fournos.api.fournosschedule import FournosScheduleSpec
from fournos.api.kinds import FOURNOS_SCHEDULE
from fournos.engine.api.rules import Violation
from fournos.engine.kube.resource import Obj
from fournos.insight.errors import FournosError, ManifestError, refusal
from fournos.insight.manifests import documents, field_path
from fournos.systems.schedules.children import Fire, changed, children
from fournos.systems.schedules.dialect import DIALECT, cron, zone
from fournos.systems.schedules.plan import problem
from fournos.systems.schedules.rules import check_manifest
from fournos.systems.schedules.template import job_violations

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


def read_schedule(text: str, source: str) -> dict[str, Any]:
    """Returns the only FournosSchedule of a YAML or JSON text, checked.  Raises ManifestError."""
    manifests = documents(text, source)
    schedules = [manifest for manifest in manifests if manifest.get("kind") == FOURNOS_SCHEDULE.kind]
    if len(schedules) != 1:
        there = ", ".join(str(manifest.get("kind")) for manifest in manifests) or "nothing"
        raise ManifestError(
            f"{source} holds {there}",
            fix="name a file with one FournosSchedule; fournos schedule create --dry-run client prints one",
        )
    accepted(schedules[0], source)
    return schedules[0]


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


def check_jobs(manifest: Mapping[str, Any], changes: Mapping[str, Any], source: str) -> None:
    """Checks the jobs of a fire with changed fields.  Raises ManifestError."""
    if broken := job_violations(jobs_of_fire(manifest, changes)):
        raise refusal(source, broken, fix=_CORRECT)


def jobs_of_fire(manifest: Mapping[str, Any], changes: Mapping[str, Any] = MappingProxyType({})) -> list[Obj]:
    """Returns the jobs of an example of a fire.  The manifest must fit the schema."""
    schedule = {**manifest, "metadata": {**_EXAMPLE, **manifest["metadata"]}}
    spec = FournosScheduleSpec.model_validate(manifest["spec"])
    return children(*changed(schedule, spec, changes), Fire(_EXAMPLE_TIME, zone(spec.time_zone), None))
