"""Change points of a series: E-divisive with a t-test, as in Hunter and Apache Otava.  Pure, deterministic.

The series is divided at the point that separates it best by energy distance, as long as a t-test finds the
two parts different (at ten times the p-value that is asked for), in overlapping windows.  The weak points
found so are then removed one after the other, until all that are left are significant and large enough.  The
t-test takes the place of the permutations of the original method: it needs no random numbers, and the same
series always has the same change points.

Otava 0.8 keeps the old p-value of the left neighbour of a point that it removes; here all p-values are those
of the levels as they are.  Apart from that both agree.

Fleming et al., "Hunter: Using Change Point Detection to Hunt for Performance Regressions", 2023;
Matteson and James, "A Nonparametric Approach for Multiple Change Point Analysis of Multivariate Data", 2014.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

from fournos.history.regressions.student import mean_and_variance, t_test

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
