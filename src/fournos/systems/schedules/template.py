"""What the API server would refuse of a schedule's jobs, before the first of them is created.  Pure."""

from __future__ import annotations

from collections.abc import Iterable

from fournos.api.fournosschedule import FournosScheduleSpec
from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.api.rules import Violation
from fournos.engine.kube.resource import Obj
from fournos.systems.jobs.rules import check_manifest
from fournos.systems.schedules.children import job_specs


def template_violations(schedule: Obj, spec: FournosScheduleSpec) -> list[Violation]:
    """Returns the violations of all jobs of a fire, of any name: those of a schedule have a good one."""
    return job_violations(
        {
            "apiVersion": FOURNOS_JOB.api_version,
            "kind": FOURNOS_JOB.kind,
            "metadata": {"name": "job"},
            "spec": job_spec,
        }
        for job_spec in job_specs(schedule, spec)
    )


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
