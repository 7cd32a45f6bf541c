"""How long a job will take: the median of comparable runs, as one sentence.  Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from fournos.history.records import api_row
from fournos.insight.values import short

MIN_RUNS: Final = 3
"""With fewer runs there is no estimate."""
MAX_RUNS: Final = 50
"""Only the newest runs count: benchmarks change."""


@api_row
@dataclass(frozen=True, slots=True)
class Typical:
    """A job that waits or runs, and how long runs of its kind took."""

    name: str
    namespace: str
    uid: str
    running_since: datetime | None
    """None: it waits."""
    seconds: float | None = None
    """The median from begin to end; None: fewer than three comparable runs have ended."""
    runs: int = 0
    """The runs of which that is the median."""

    def starts_in(self, place: int) -> timedelta | None:
        """Returns how long it waits at this place of its queue if each job before it takes as long as it."""
        return None if self.seconds is None else timedelta(seconds=place * self.seconds)


def sentence(job: Typical, now: datetime, place: int | None = None, kept: str = "") -> str:
    """How long the job has run, or where it waits, and how long its kind takes.

    `place`: its place in the queue, from 1; None: not known.  `kept`: what keeps it whatever its place.
    """
    if job.seconds is None:
        kind = "too few runs of its kind have ended to say how long it takes"
    else:
        kind = f"its kind takes {short(timedelta(seconds=job.seconds))} (median of {job.runs})"
    if job.running_since is not None:
        return f"{job.name} has run {short(max(timedelta(0), now - job.running_since))}, {kind}."
    if place is None or kept:
        return f"{kept or f'{job.name} waits'}, {kind}."
    wait = job.starts_in(place)
    about = "" if wait is None else f": it starts in about {short(wait)} if those before it take as long"
    return f"{job.name} has place {place} in its queue, {kind}{about}."
