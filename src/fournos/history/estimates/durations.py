"""How long comparable runs took.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from fournos.history.records import Run

MIN_RUNS: Final = 5
"""With fewer runs there is no estimate."""
MAX_RUNS: Final = 50
"""Only the newest runs count: benchmarks change."""


@dataclass(frozen=True, slots=True)
class WorkProfile:
    """What a job is, as far as its duration may depend on it."""

    fingerprint: str = ""
    pipeline: str = ""
    project: str = ""
    gpu_type: str = ""
    gpu_count: int = 0

    @classmethod
    def of(cls, run: Run) -> WorkProfile:
        return cls(run.fingerprint, run.pipeline, run.project, run.gpu_type, run.gpu_count)


@dataclass(frozen=True, slots=True)
class Past:
    """A run that is over, and how long it held its quota."""

    work: WorkProfile
    seconds: float


@dataclass(frozen=True, slots=True)
class Durations:
    """The durations of comparable runs."""

    seconds: tuple[float, ...]
    """In ascending order."""
    basis: str
    """What made the runs comparable, for people."""
    level: int = 0
    """How comparable they are: 0 is the closest."""


def past_of(run: Run) -> Past | None:
    """Returns how long a run held its quota; None if it has not ended, or never started.

    Failed runs count: they occupy a cluster, too.  Clocks of several clusters may differ, so that a duration
    can be negative; such a run does not count.
    """
    begun = run.started_at or run.admitted_at
    if begun is None or run.ended_at is None or run.ended_at < begun:
        return None
    return Past(WorkProfile.of(run), (run.ended_at - begun).total_seconds())


_LEVELS: Final[Sequence[tuple[str, Callable[[WorkProfile], object]]]] = (
    ("the same fingerprint", lambda work: work.fingerprint or None),
    (
        "the same pipeline, project and GPUs",
        lambda work: (work.pipeline, work.project, work.gpu_type, work.gpu_count) if work.project else None,
    ),
    ("the same pipeline", lambda work: work.pipeline or None),
)
"""What makes runs comparable, the closest first."""


def durations(work: WorkProfile, past: Iterable[Past]) -> Durations | None:
    """Returns the durations of the most comparable runs of which there are enough; None if there are none.

    `past` has the newest runs first.
    """
    runs = list(past)
    for level, (basis, key) in enumerate(_LEVELS):
        work_key = key(work)
        if work_key is None:
            continue
        seconds = [one.seconds for one in runs if key(one.work) == work_key][:MAX_RUNS]
        if len(seconds) >= MIN_RUNS:
            return Durations(tuple(sorted(seconds)), f"{len(seconds)} runs of {basis}", level)
    return None


def closest(works: Iterable[WorkProfile], past: Sequence[Past]) -> Durations | None:
    """Returns the durations of the most comparable runs for a job that may become any of `works`.

    A waiting job has no cluster yet, and each class of clusters makes another fingerprint of it.
    """
    found = [known for work in works if (known := durations(work, past)) is not None]
    return min(found, key=lambda known: known.level, default=None)


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which this share of the ordered values lies, interpolated."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
