"""Compares curves on their common x.  Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from statistics import fmean, median
from typing import TypeAlias

Curve: TypeAlias = Sequence[tuple[float, float]]
"""Points (x, y) by ascending x."""


@dataclass(frozen=True, slots=True)
class CommonCurves:
    """Curves brought to the same x."""

    x: tuple[float, ...]
    """All x of the curves within the range that each of them covers."""
    y: tuple[tuple[float, ...], ...]
    """The values of each curve there; between two points they lie on a line."""

    @property
    def heights(self) -> tuple[float, ...]:
        """The mean height of each curve: its area over the common range, divided by the range."""
        return tuple(_height(self.x, one) for one in self.y)

    def largest_gap(self, first: int, second: int) -> tuple[float, float | None]:
        """Where two curves are furthest apart: x, and the relative change there (None from 0)."""
        place = max(range(len(self.x)), key=lambda i: abs(self.y[second][i] - self.y[first][i]))
        before, after = self.y[first][place], self.y[second][place]
        return self.x[place], (after - before) / abs(before) if before else None


def single_valued(curve: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Replaces points of the same x by one of their mean."""
    ordered = sorted(curve)
    return [(x, fmean(y for _, y in points)) for x, points in groupby(ordered, key=lambda point: point[0])]


def common(curves: Sequence[Curve]) -> CommonCurves | None:
    """Returns the curves on their common x; None if they have no range in common."""
    clean = [single_valued(curve) for curve in curves]
    if not all(clean):
        return None
    low, high = max(curve[0][0] for curve in clean), min(curve[-1][0] for curve in clean)
    xs = sorted({x for curve in clean for x, _ in curve if low <= x <= high})
    if not xs:
        return None
    return CommonCurves(tuple(xs), tuple(tuple(_at(curve, x) for x in xs) for curve in clean))


def heights_over(curves: Iterable[Curve], low: float, high: float) -> list[float]:
    """The mean heights between low and high of the curves that cover this range."""
    heights = []
    for curve in map(single_valued, curves):
        if curve and curve[0][0] <= low and curve[-1][0] >= high:
            xs = sorted({low, high, *(x for x, _ in curve if low < x < high)})
            heights.append(_height(xs, [_at(curve, x) for x in xs]))
    return heights


def typical(curves: Sequence[Curve]) -> list[tuple[float, float]]:
    """The median curve of repeats, on their common x; the first curve if they have none."""
    shared = common(curves)
    if shared is None:
        return single_valued(curves[0])
    return [(x, median(one[i] for one in shared.y)) for i, x in enumerate(shared.x)]


def _height(xs: Sequence[float], ys: Sequence[float]) -> float:
    width = xs[-1] - xs[0]
    if not width:
        return fmean(ys)
    points = pairwise(zip(xs, ys, strict=True))
    return sum((right - left) / width * (a + b) / 2 for (left, a), (right, b) in points)


def _at(curve: Curve, x: float) -> float:
    """The value at x, which is within the curve's range."""
    place = bisect_right(curve, x, key=lambda point: point[0])
    left, a = curve[place - 1]
    if left == x:
        return a
    right, b = curve[place]
    return a + (b - a) * ((x - left) / (right - left))
