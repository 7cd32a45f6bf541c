"""Series for tests: seeded noise with steps in it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from fournos.history.regressions.series import Point, Series

START = datetime(2026, 1, 1, tzinfo=UTC)


def noisy(*levels: tuple[int, float], seed: int = 1, cv: float = 0.02) -> list[float]:
    """Levels of (number of points, mean) one after the other."""
    source = random.Random(seed)
    return [mean * (1 + source.gauss(0, cv)) for count, mean in levels for _ in range(count)]


def at(index: int) -> datetime:
    return START + timedelta(days=index)


def series(values: Sequence[float], kpi_id: str = "throughput", **more: Any) -> Series:
    points = tuple(Point(f"run-{index:03}", at(index), value) for index, value in enumerate(values))
    return Series(**{"id": kpi_id, "kpi_id": kpi_id, "points": points, "higher_is_better": True, **more})


def repeated(base: Series, *values: float) -> Series:
    """Adds repeats of the newest run."""
    last = base.points[-1]
    start = len(base.points)
    more = tuple(
        Point(f"run-{start + index:03}", at(start + index), value, confirms=last.run)
        for index, value in enumerate(values)
    )
    return Series(base.id, base.kpi_id, (*base.points, *more), base.unit, base.higher_is_better, base.labels)
