"""Schedules from the CronJobs of the published dashboard, which submit a FournosJob from a script.  Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fournos.engine.kube.kinds import CONFIG_MAP
from fournos.engine.kube.kinds import CRON_JOB as CRON_JOB
from fournos.engine.kube.resource import Obj
from fournos.insight.errors import FournosError
from fournos.insight.schedule_manifests import schedule_manifest
from fournos.insight.values import name_of, spec_of

MANAGED_SELECTOR: Final = "fournos-launcher/managed-by=fournos-dashboard"
"""The label of the CronJobs that the dashboard has made."""
_RESOLVER: Final = "fournos-launcher/resolver-configmap"
"""Annotation: the ConfigMap of a script that runs before each submission."""
_JOB_VARIABLE: Final = "FJOB_JSON"
"""Variable of the container that submits: the whole FournosJob."""
_OTHER_NAMES: Final = {"@midnight": "@daily", "@annually": "@yearly"}
"""Names of times that CronJobs have beside ours."""


@dataclass(frozen=True, slots=True)
class ImportedSchedule:
    """What becomes of a CronJob."""

    name: str
    manifest: Obj | None
    """None if it cannot be a schedule."""
    notes: tuple[str, ...]
    """What is not taken over, or why it cannot be."""


def imported(cron_job: Obj, time_zone: str) -> ImportedSchedule:
    """Returns the schedule with the times and the job of a CronJob.

    `time_zone` is for a CronJob without one; "": such a CronJob cannot be imported.
    """
    name, spec = name_of(cron_job), spec_of(cron_job)
    zone = str(spec.get("timeZone") or time_zone)
    if not zone:
        return ImportedSchedule(
            name, None, ("it has no time zone: name that of its times, --time-zone Etc/UTC",)
        )
    times = str(spec.get("schedule") or "")
    try:
        job = _job(cron_job)
        manifest = schedule_manifest(name, job, [_OTHER_NAMES.get(times, times)], zone, fields=_fields(spec))
    except FournosError as error:
        return ImportedSchedule(name, None, (str(error),))
    return ImportedSchedule(name, manifest, tuple(_notes(cron_job)))


def _job(cron_job: Obj) -> Mapping[str, Any]:
    """Returns the FournosJob that the CronJob submits.  Raises FournosError."""
    for container in _pod(cron_job).get("containers") or ():
        for variable in container.get("env") or ():
            if variable.get("name") == _JOB_VARIABLE:
                return _parsed(str(variable.get("value") or ""))
    raise FournosError(
        f"no container has the variable {_JOB_VARIABLE}: it submits no FournosJob of the dashboard",
        fix="write the job to a file: fournos schedule create -f job.yaml",
    )


def _parsed(text: str) -> Mapping[str, Any]:
    try:
        job = json.loads(text)
    except ValueError:
        job = None
    if not isinstance(job, dict) or not isinstance(job.get("spec"), dict):
        raise FournosError(f"{_JOB_VARIABLE} is no FournosJob in JSON", fix="correct the CronJob")
    return job


def _pod(cron_job: Obj) -> Mapping[str, Any]:
    job_spec = (spec_of(cron_job).get("jobTemplate") or {}).get("spec") or {}
    pod: Mapping[str, Any] = (job_spec.get("template") or {}).get("spec") or {}
    return pod


def _fields(spec: Mapping[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {"concurrencyPolicy": str(spec.get("concurrencyPolicy") or "Allow")}
    if spec.get("startingDeadlineSeconds"):
        fields["startingDeadlineSeconds"] = spec["startingDeadlineSeconds"]
    if spec.get("suspend"):
        fields["suspend"] = {"reason": "its CronJob was suspended"}
    return fields


def _notes(cron_job: Obj) -> Iterator[str]:
    script = (cron_job["metadata"].get("annotations") or {}).get(_RESOLVER)
    if script or _pod(cron_job).get("initContainers"):
        where = f" ({CONFIG_MAP.kind} {script})" if script else ""
        yield f"its resolver script{where} is not taken over: the job has the values of its last edit"
    if (spec_of(cron_job).get("concurrencyPolicy") or "Allow") != "Allow":
        yield "its concurrency policy spoke of submissions; that of the schedule is about running jobs"
