"""What a pass over a FournosSchedule reads: the schedule, and the jobs that carry its UID."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from fournos.api.fournosschedule import FournosScheduleSpec
from fournos.api.kinds import FOURNOS_JOB, FOURNOS_SCHEDULE
from fournos.engine.kube.resource import Key, Obj, uid_of
from fournos.engine.runtime.controller import Caches, Watch
from fournos.engine.runtime.projection import metadata, of_label, own_key, pick, waking
from fournos.systems.schedules import names
from fournos.systems.schedules.settings import ScheduleSettings

BY_SCHEDULE: Final = "schedule"
"""The index of jobs by the UID of their schedule."""


@dataclass(frozen=True, slots=True)
class Observed:
    """A FournosSchedule and its jobs, as the caches hold them."""

    schedule: Obj
    spec: FournosScheduleSpec | None
    """None if the spec cannot be parsed."""
    unreadable: str
    """Why it cannot be parsed."""
    jobs: tuple[Obj, ...]


def observe(caches: Caches, key: Key) -> Observed | None:
    schedule = caches[FOURNOS_SCHEDULE].get(key)
    if schedule is None:
        return None
    spec, unreadable = None, ""
    try:
        spec = FournosScheduleSpec.model_validate(schedule.get("spec") or {})
    except ValidationError as error:
        first = error.errors()[0]
        unreadable = f"spec.{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return Observed(schedule, spec, unreadable, tuple(caches[FOURNOS_JOB].by(BY_SCHEDULE, uid_of(schedule))))


def project_job(job: Obj) -> Obj:
    return {
        "metadata": metadata(job),
        "spec": pick(job.get("spec"), ("shutdown",)),
        "status": pick(job.get("status"), ("phase", "message", "archivedAt")),
    }


def _schedule_uid(job: Obj) -> Iterable[str]:
    return ((job["metadata"].get("labels") or {}).get(names.SCHEDULE_UID_LABEL, ""),)


def watches(settings: ScheduleSettings) -> tuple[Watch, ...]:
    """Returns the watches: schedules, and the jobs of schedules alone."""
    return (
        Watch(FOURNOS_SCHEDULE, namespace=settings.namespace, wakes=own_key),
        Watch(
            FOURNOS_JOB,
            namespace=settings.namespace,
            selector=names.SCHEDULE_UID_LABEL,
            wakes=waking(lambda job: of_label(job, names.SCHEDULE_LABEL)),
            project=project_job,
            indexes={BY_SCHEDULE: _schedule_uid},
        ),
    )
