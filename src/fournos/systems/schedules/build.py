"""The jobs of one fire: the template, once for each combination of the matrix; and its checks.  Pure."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import product
from math import prod
from typing import Any, Final
from zoneinfo import ZoneInfo

from fournos.api.fournosschedule import MAX_JOBS, FournosScheduleSpec
from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.api.rules import Violation
from fournos.engine.api.values import format_duration, format_time
from fournos.engine.kube.resource import Obj, key_of, uid_of
from fournos.engine.runtime.decision import Create, NameTaken
from fournos.systems.jobs.rules import check_manifest
from fournos.systems.schedules import names
from fournos.systems.schedules.times import plan_of

_RESERVED: Final = frozenset({names.CONFIRMS_LABEL})
"""Labels that only the operator may set, for another purpose: a template must not borrow that right."""


@dataclass(frozen=True, slots=True)
class Fire:
    """One time of a schedule, and how long it is until the next one."""

    time: datetime
    zone: ZoneInfo
    period: timedelta | None
    trigger: str = ""
    """Id of the trigger that asked for it; "": its time came."""


def problem(spec: FournosScheduleSpec) -> str:
    """Returns why a schedule cannot work; "" if it can."""
    try:
        plan_of(spec)
    except ValueError as error:
        return str(error)
    if not 1 <= count(spec) <= MAX_JOBS:
        return f"spec.matrix has {count(spec)} combinations: write 1 to {MAX_JOBS}"
    for path in spec.matrix:
        if not all(path.split(".")):
            return f"spec.matrix: {path!r:.80} is no path of a field: write one such as params.model"
    return ""


def template_violations(schedule: Obj, spec: FournosScheduleSpec) -> list[Violation]:
    """Returns what the API server would refuse of the jobs of a fire.

    Of any name: those of a schedule have a good one.
    """
    kind = {"apiVersion": FOURNOS_JOB.api_version, "kind": FOURNOS_JOB.kind, "metadata": {"name": "job"}}
    return job_violations({**kind, "spec": job_spec} for job_spec in job_specs(schedule, spec))


def job_violations(jobs: Iterable[Obj]) -> list[Violation]:
    """Returns what the API server would refuse of the jobs, each once, by the field of the schedule."""
    broken = {
        (violation.field, violation.message): Violation(
            f"spec.jobTemplate.{violation.field}", violation.message, violation.rule
        )
        for job in jobs
        for violation in check_manifest(job)
    }
    return list(broken.values())


def count(spec: FournosScheduleSpec) -> int:
    """Returns how many jobs a fire has."""
    return prod(map(len, spec.matrix.values()))


def job_specs(schedule: Obj, spec: FournosScheduleSpec) -> list[dict[str, Any]]:
    """Returns the specs of a fire's jobs, in the order of the matrix, with the placeholders of the time."""
    specs: list[dict[str, Any]] = []
    for values in product(*spec.matrix.values()):
        job_spec = copy.deepcopy(dict(schedule["spec"]["jobTemplate"].get("spec") or {}))
        for path, value in zip(spec.matrix, values, strict=True):
            _assign(job_spec, path.split("."), value)
        specs.append(job_spec)
    return specs


def children(schedule: Obj, spec: FournosScheduleSpec, fire: Fire) -> list[Obj]:
    """Returns the jobs of a fire, in the order of the matrix."""
    meta = schedule["metadata"]
    job_names = names.job_names(meta["name"], uid_of(schedule), fire.time, count(spec))
    jobs: list[Obj] = []
    for name, job_spec in zip(job_names, job_specs(schedule, spec), strict=True):
        _complete(job_spec, fire)
        jobs.append(
            {
                "apiVersion": FOURNOS_JOB.api_version,
                "kind": FOURNOS_JOB.kind,
                "metadata": {**_metadata(schedule, fire), "name": name, "namespace": meta["namespace"]},
                "spec": job_spec,
            }
        )
    return jobs


def _metadata(schedule: Obj, fire: Fire) -> dict[str, Any]:
    """Returns the template's labels and annotations, and the provenance."""
    meta = schedule["metadata"]
    given: Mapping[str, Any] = schedule["spec"]["jobTemplate"].get("metadata") or {}
    labels = {name: text for name, text in (given.get("labels") or {}).items() if name not in _RESERVED}
    provenance = {
        names.SCHEDULE_LABEL: meta["name"],
        names.SCHEDULE_UID_LABEL: uid_of(schedule),
        names.TIME_LABEL: names.stamp(fire.time),
    }
    annotations = {
        names.GENERATION_ANNOTATION: str(meta.get("generation", "")),
        names.TIME_ANNOTATION: format_time(fire.time),
        **({names.TRIGGER_ANNOTATION: fire.trigger} if fire.trigger else {}),
    }
    return {
        "labels": labels | provenance,
        "annotations": dict(given.get("annotations") or {}) | annotations,
    }


def _assign(spec: dict[str, Any], path: list[str], value: Any) -> None:
    for part in path[:-1]:
        inner = spec.get(part)
        # What is no object is replaced: the API server refuses a job that this makes wrong.
        spec[part] = inner if isinstance(inner, dict) else {}
        spec = spec[part]
    if value is None:
        spec.pop(path[-1], None)
    else:
        spec[path[-1]] = copy.deepcopy(value)


def _complete(spec: dict[str, Any], fire: Fire) -> None:
    """Fills in the time, and the limit of the wait: one period, unless the template has a limit."""
    texts = {
        "{{time}}": format_time(fire.time),
        "{{date}}": fire.time.astimezone(fire.zone).strftime("%Y-%m-%d"),
    }
    params, timeouts = spec.get("params"), spec.get("timeouts") or {}
    # What is no object came from a matrix: the API server refuses such a job.
    if isinstance(params, dict):
        spec["params"] = {name: _filled(value, texts) for name, value in params.items()}
    if fire.period is not None and isinstance(timeouts, dict) and not timeouts.get("pending"):
        spec["timeouts"] = {**timeouts, "pending": format_duration(fire.period)}


def _filled(value: Any, texts: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_filled(item, texts) for item in value]
    if isinstance(value, str):
        for placeholder, text in texts.items():
            value = value.replace(placeholder, text)
    return value


def creation(job: Obj) -> Create:
    """Returns the step that creates a job, once."""
    return Create(FOURNOS_JOB, job, name_taken=name_taken)


def name_taken(step: Create, live: Obj) -> NameTaken | None:
    """Returns None if the job with this name is of the same schedule.

    It may be terminating: then somebody deletes it, and it is not created again.
    """
    owner = (live["metadata"].get("labels") or {}).get(names.SCHEDULE_UID_LABEL)
    if owner == step.body["metadata"]["labels"][names.SCHEDULE_UID_LABEL]:
        return None
    return NameTaken(f"FournosJob {key_of(live)} exists already and is not of this schedule")
