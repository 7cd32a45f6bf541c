"""Change points of a series: E-divisive, the t-test that judges them, and what noise is.  Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist, median
from typing import Final

_TINY: Final = 1e-300
_EPSILON: Final = 1e-15
_MAX_STEPS: Final = 500


def t_test(first: Sequence[float], second: Sequence[float]) -> float:
    """Returns the two-sided p-value of the hypothesis that both samples have the same mean.

    The variances are those of the samples (divided by n), as in Apache Otava, so that both agree.  Equal
    samples without spread give 1, different ones 0.  Samples with fewer than 3 values together give 1.
    """
    n, m = len(first), len(second)
    if n + m < 3:
        return 1.0
    mean_1, variance_1 = mean_and_variance(first)
    mean_2, variance_2 = mean_and_variance(second)
    freedom = n + m - 2
    pooled = ((n - 1) * variance_1 + (m - 1) * variance_2) / freedom
    error = math.sqrt(pooled * (1 / n + 1 / m))
    gap = abs(mean_1 - mean_2)
    if error <= 1e-12 * max(abs(mean_1), abs(mean_2)):  # rounding errors are no spread
        return 1.0 if gap <= 1e-12 * max(abs(mean_1), abs(mean_2)) else 0.0
    return two_sided_p(gap / error, freedom)


def mean_and_variance(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and the variance divided by n."""
    mean = math.fsum(values) / len(values)
    return mean, math.fsum((value - mean) ** 2 for value in values) / len(values)


def two_sided_p(t: float, freedom: float) -> float:
    """Returns the probability of a value at least as far from 0 as `t`."""
    square = t * t
    return _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + square), square / (freedom + square))


def _incomplete_beta(a: float, b: float, x: float, rest: float) -> float:
    """Returns the regularized incomplete beta function.

    `rest` is 1 - x, exactly: near x = 1 the subtraction would lose digits.
    """
    if x <= 0 or rest <= 0:
        return 0.0 if x <= 0 else 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    front = math.exp(log_front)
    if x < (a + 1) / (a + b + 2):  # where the fraction converges fast
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, rest) / b


def _fraction(a: float, b: float, x: float) -> float:
    c, d = 1.0, 1 / _nonzero(1 - (a + b) * x / (a + 1))
    result = d
    for step in range(1, _MAX_STEPS):
        even = step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step))
        odd = -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1))
        for term in (even, odd):
            d = 1 / _nonzero(1 + term * d)
            c = _nonzero(1 + term / c)
            result *= d * c
        if abs(d * c - 1) < _EPSILON:
            break
    return result


def _nonzero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


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
    """The relative change; None from 0, where there is none, and from next to nothing."""
    if before == after:
        return 0.0
    change = (after - before) / abs(before) if before else math.inf
    return change if math.isfinite(change) else None


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


WINDOW: Final = 50
MAX_P: Final = 0.001
MIN_SEGMENT: Final = 3
"""A level lasts for at least so many points: one or two are a spike, not a change."""


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A point at which a new level begins."""

    index: int
    """The first point of the new level."""
    p: float
    before: float
    """The mean of the level before."""
    after: float

    @property
    def magnitude(self) -> float:
        """The relative change, by the smaller level; infinite from or to 0."""
        return magnitude(self.before, self.after)


def magnitude(before: float, after: float) -> float:
    if before == after:
        return 0.0
    if not before or not after:
        return math.inf
    return max(abs(after / before - 1), abs(before / after - 1))


def change_points(
    values: Sequence[float],
    *,
    max_p: float = MAX_P,
    min_effect: float = 0.0,
    min_segment: int = MIN_SEGMENT,
    window: int = WINDOW,
) -> list[ChangePoint]:
    """Returns the change points with p < `max_p` and a relative change > `min_effect`, in order."""
    weak = weak_points(values, max_p=max_p, window=window)
    return _merge(weak, values, max_p, min_effect, min_segment)


def weak_points(values: Sequence[float], *, max_p: float = MAX_P, window: int = WINDOW) -> list[int]:
    """The candidates for change points, in order."""
    first_pass = max_p * 10 if max_p < 0.05 else max_p
    weak: set[int] = set()
    start = 0
    while start < len(values):
        part = values[start : start + window]
        found = [start + index for index in _divide(part, first_pass)]
        weak.update(found)
        start = max([start + window // 2, *found])
    return sorted(weak)


def _divide(values: Sequence[float], max_p: float) -> list[int]:
    """Divides one window for as long as the best division is significant."""
    borders = [0, len(values)]
    within = _Within(values)
    best: dict[tuple[int, int], tuple[float, int]] = {}
    while True:
        intervals = list(pairwise(borders))
        for interval in intervals:
            if interval not in best:
                best[interval] = within.best_division(*interval)
        start, end = max(intervals, key=lambda interval: best[interval][0])
        distance, index = best[start, end]
        if distance <= 0 or t_test(values[start:index], values[index:end]) > max_p:
            return borders[1:-1]
        borders = sorted([*borders, index])


class _Within:
    """The sums of the distances within all parts of a window, from which those between parts follow."""

    def __init__(self, values: Sequence[float]) -> None:
        size = len(values)
        to_earlier = [[0.0] * size for _ in range(size)]
        """[a][b]: the distances of the value b to the values a to b - 1."""
        for b in range(size):
            total = 0.0
            for a in range(b - 1, -1, -1):
                total += abs(values[a] - values[b])
                to_earlier[a][b] = total
        self.sums = [[0.0] * (size + 1) for _ in range(size + 1)]
        """[a][b]: all distances between the values a to b - 1."""
        for a in range(size):
            total = 0.0
            for b in range(a + 1, size):
                total += to_earlier[a][b]
                self.sums[a][b + 1] = total

    def best_division(self, start: int, end: int) -> tuple[float, int]:
        """Returns the largest energy distance of two neighbouring parts, and where the second begins.

        The second part may end before `end`: a level that lasts only for a while is found, too.
        """
        best = (0.0, start)
        sums = self.sums
        for middle in range(start + 1, end):
            n, left = middle - start, sums[start][middle]
            left_mean = left / (n - 1) if n > 1 else 0.0
            for stop in range(middle + 1, end + 1):
                m, right = stop - middle, sums[middle][stop]
                between = sums[start][stop] - left - right
                right_mean = right / (m - 1) if m > 1 else 0.0
                distance = 2 / (n + m) * (between - m * left_mean - n * right_mean)
                if distance > best[0]:
                    best = (distance, middle)
        return best


def _merge(
    weak: list[int], values: Sequence[float], max_p: float, min_effect: float, min_segment: int
) -> list[ChangePoint]:
    """Removes the weakest point until all are significant, large enough and far enough apart.

    Levels that are too short go first.  They are found as what they are and then removed: a search that
    passes them over would count normal points to a spike until it is long enough.
    """
    while weak:
        points = _points(weak, values)
        worst = _too_close(points, len(values), min_segment) or _weakest(points, max_p, min_effect)
        if worst is None and min_segment > 1:
            worst = _spike(points, values, min_effect)
        if worst is None:
            return points
        weak = [index for index in weak if index != worst.index]
    return []


def _weakest(points: list[ChangePoint], max_p: float, min_effect: float) -> ChangePoint | None:
    """The least significant point, else the smallest one; None if all are significant and large enough."""
    worst = max(points, key=lambda point: point.p)
    if worst.p < max_p:
        worst = min(points, key=lambda point: point.magnitude)
        if worst.magnitude > min_effect:
            return None
    return worst


def _spike(points: list[ChangePoint], values: Sequence[float], min_effect: float) -> ChangePoint | None:
    """A point whose levels differ in their means, because of an outlier, and not in their medians."""
    borders = [0, *(point.index for point in points), len(values)]
    for point, start, end in zip(points, borders, borders[2:], strict=False):
        before, after = median(values[start : point.index]), median(values[point.index : end])
        same_direction = (after > before) == (point.after > point.before)
        if not same_direction or magnitude(before, after) <= min_effect:
            return point
    return None


def _points(indices: list[int], values: Sequence[float]) -> list[ChangePoint]:
    borders = [0, *indices, len(values)]
    points = []
    for start, index, end in zip(borders, borders[1:], borders[2:], strict=False):
        left, right = values[start:index], values[index:end]
        p = t_test(left, right)
        points.append(ChangePoint(index, p, mean_and_variance(left)[0], mean_and_variance(right)[0]))
    return points


def _too_close(points: list[ChangePoint], size: int, min_segment: int) -> ChangePoint | None:
    """The least significant point beside a level that is too short; None if there is no such level."""
    borders = [0, *(point.index for point in points), size]
    for place in range(len(borders) - 1):
        if borders[place + 1] - borders[place] < min_segment:
            return max(points[max(0, place - 1) : place + 1], key=lambda point: point.p)
    return None
