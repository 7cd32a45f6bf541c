"""The noise of a series, and how far a value may be from it.  Pure.

Median and MAD (the median of the distances from the median) are used, as outliers barely move them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, median
from typing import Final

MIN_HISTORY: Final = 10
"""With fewer comparable points there is no verdict."""
MIN_EFFECT: Final = 0.03
"""Smaller relative changes are never reported."""
LIMIT: Final = 3.5
"""Standard deviations from the median, for one KPI."""
_NORMAL: Final = NormalDist()
_MAD_TO_SIGMA: Final = 1 / _NORMAL.inv_cdf(0.75)
_MEAN_TO_SIGMA: Final = math.sqrt(math.pi / 2)


@dataclass(frozen=True, slots=True)
class Noise:
    """The level and the spread of comparable points."""

    centre: float
    sigma: float
    """The standard deviation, as estimated by MAD.  0: all points are equal."""


@dataclass(frozen=True, slots=True)
class NoiseBand:
    """Values within the band are within noise."""

    low: float
    centre: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


def noise(values: Sequence[float]) -> Noise:
    """The noise of at least one value.

    Where more than half of the values are equal MAD is 0; the mean distance from the median takes its place.
    """
    centre = median(values)
    distances = [abs(value - centre) for value in values]
    sigma = median(distances) * _MAD_TO_SIGMA or math.fsum(distances) / len(distances) * _MEAN_TO_SIGMA
    return Noise(centre, sigma)


def limit(kpis: int) -> float:
    """The limit in standard deviations at which `kpis` KPIs together have the false alarms of one."""
    tail = _NORMAL.cdf(-LIMIT) / max(1, kpis)
    return -_NORMAL.inv_cdf(tail)


def band(values: Sequence[float], *, kpis: int = 1) -> NoiseBand | None:
    """The band of a series for its next value; None if there is not enough history.

    Points that are all equal have a band of the minimum effect alone; if they are all 0, any other value is
    outside.
    """
    if len(values) < MIN_HISTORY:
        return None
    found = noise(values)
    width = max(limit(kpis) * found.sigma, MIN_EFFECT * abs(found.centre))
    return NoiseBand(found.centre - width, found.centre, found.centre + width)


def relative(before: float, after: float) -> float | None:
    """The relative change; None from 0, where there is none."""
    if before == after:
        return 0.0
    return (after - before) / abs(before) if before else None


def holm(p_values: Mapping[str, float], alpha: float) -> set[str]:
    """The names that are significant when all are tested together, by the method of Holm.

    The probability that any of them is a false alarm stays below `alpha`, however many there are.
    """
    accepted: set[str] = set()
    ordered = sorted(p_values.items(), key=lambda item: (item[1], item[0]))
    for place, (name, p) in enumerate(ordered):
        if p > alpha / (len(ordered) - place):
            break
        accepted.add(name)
    return accepted
