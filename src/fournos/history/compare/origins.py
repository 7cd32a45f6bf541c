"""Which schedule created a run, and whether the schedule was changed between runs.  Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fournos.engine.kube.resource import Obj
from fournos.systems.schedules.names import GENERATION_ANNOTATION, SCHEDULE_LABEL, SCHEDULE_UID_LABEL


@dataclass(frozen=True, slots=True)
class ScheduleOrigin:
    """The FournosSchedule that created a run, as it was then."""

    name: str
    uid: str
    generation: str


def origin_of(job: Obj) -> ScheduleOrigin | None:
    """Returns the schedule of a recorded job; None if it is not known, or somebody submitted the job."""
    meta = job.get("metadata") or {}
    labels, generation = meta.get("labels") or {}, (meta.get("annotations") or {}).get(GENERATION_ANNOTATION)
    if not generation or SCHEDULE_UID_LABEL not in labels:
        return None
    return ScheduleOrigin(str(labels.get(SCHEDULE_LABEL)), str(labels[SCHEDULE_UID_LABEL]), str(generation))


def changed_schedules(origins: Sequence[ScheduleOrigin | None]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yields a sentence on each schedule that was changed between its runs, and its generation in each run.

    The generation is "" in runs that the schedule did not create.
    """
    for uid in dict.fromkeys(origin.uid for origin in origins if origin):
        own = [origin if origin and origin.uid == uid else None for origin in origins]
        generations = list(dict.fromkeys(origin.generation for origin in own if origin))
        if len(generations) > 1:
            name = next(origin.name for origin in own if origin)
            text = f"schedule {name} was changed (generation {' → '.join(generations)})"
            yield text, tuple(origin.generation if origin else "" for origin in own)
