"""How long runs waited, by cause, as counts that add up over namespaces and times.  Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from fournos.history.records import api_row

MINUTE: Final = 60
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
EDGES: Final = (
    *(1, 2, 5, 10, 20, 30),
    *(MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 20 * MINUTE, 30 * MINUTE),
    *(HOUR, 2 * HOUR, 4 * HOUR, 8 * HOUR, 16 * HOUR),
    *(DAY, 2 * DAY, 4 * DAY, 8 * DAY),
)
"""The upper ends of the classes of waiting times, in seconds; one more class has what is longer."""
ALL: Final = ""
"""The cause that stands for all causes together."""


@api_row
@dataclass(frozen=True, slots=True)
class Waited:
    """How long the runs that were submitted in a period waited for one cause, those that did not left out."""

    cause: str
    """As in the waiting ledger; "" for all causes together."""
    counts: tuple[int, ...]
    """The runs in each class of EDGES, and in the one above."""

    @property
    def runs(self) -> int:
        return sum(self.counts)

    def within(self, share: float) -> float:
        """Returns the seconds within which this share of the runs waited no longer.

        Within a class the runs are taken as spread evenly, so that the result is exact to the class only.
        """
        totals = list(accumulate(self.counts))
        rank = share * totals[-1]
        place = bisect_left(totals, rank)
        if place >= len(EDGES):
            return float(EDGES[-1])
        low = EDGES[place - 1] if place else 0
        before = totals[place - 1] if place else 0
        inside = (rank - before) / self.counts[place] if self.counts[place] else 0.0
        return low + inside * (EDGES[place] - low)


def added_waits(waits: Iterable[Waited]) -> tuple[Waited, ...]:
    """Adds up the counts of each cause; the cause with the longest waits comes first, after all together."""
    totals: dict[str, tuple[int, ...]] = {}
    for waited in waits:
        before = totals.get(waited.cause, (0,) * len(waited.counts))
        totals[waited.cause] = tuple(map(sum, zip(before, waited.counts, strict=True)))
    causes = (Waited(cause, counts) for cause, counts in totals.items() if any(counts))
    return tuple(sorted(causes, key=lambda one: (one.cause != ALL, -one.within(0.9), one.cause)))
