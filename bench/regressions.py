"""How often noise raises an alarm, and how often a change is found: `python -m bench.regressions [SERIES]`.

Prints the tables of docs/results.md.  Series are made from fixed seeds, with a noise of 3 % (coefficient of
variation) around 100; a change is a drop by 5, 10 or 20 %.  "Outliers": 5 % of the points are 15 % lower.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from fournos.history.regressions.edivisive import change_points
from fournos.history.regressions.judge import judge
from fournos.history.regressions.robust import MIN_EFFECT
from fournos.history.regressions.series import Basis, Point, Series, SeriesState

STEPS: Final = (0, 5, 10, 20)
_START: Final = datetime(2026, 1, 1, tzinfo=UTC)


def noise(count: int, mean: float, source: random.Random, outliers: float = 0.0) -> list[float]:
    return [
        mean * (0.85 if source.random() < outliers else 1.0) * (1 + source.gauss(0, 0.03))
        for _ in range(count)
    ]


def series(values: Sequence[float], name: str = "kpi", repeats: int = 0) -> Series:
    """The last `repeats` values repeat the run before them."""
    run = len(values) - repeats - 1
    points = tuple(
        Point(f"{i:04}", _START + timedelta(days=i), value, confirms=f"{run:04}" if i > run else "")
        for i, value in enumerate(values)
    )
    return Series(name, name, points, higher_is_better=True)


def share(count: int, hit: Callable[[random.Random], bool]) -> float:
    """Percent of the seeds for which `hit` is true."""
    sources = (random.Random(seed) for seed in range(count))  # noqa: S311  reproducible on purpose
    return 100 * sum(map(hit, sources)) / count


def newest(step: int, earlier: int, outliers: float, kpis: int = 1) -> Callable[[random.Random], bool]:
    """Is the newest run suspected?  With several KPIs: any of them."""

    def hit(source: random.Random) -> bool:
        made = [
            series([*noise(earlier, 100, source, outliers), *noise(1, 100 - step, source)], f"kpi-{kpi}")
            for kpi in range(kpis)
        ]
        return any(found.basis is Basis.NEWEST for found in judge(made).findings)

    return hit


def confirmed(step: int, spike: bool) -> Callable[[random.Random], bool]:
    """Is a newest run confirmed by two repeats?  `spike`: only the newest run is lower, by 15 %."""

    def hit(source: random.Random) -> bool:
        newest = noise(1, 85 if spike else 100 - step, source)
        values = [*noise(30, 100, source), *newest, *noise(2, 100 - step, source)]
        judged = series(values, repeats=2)
        found = judge([judged]).findings
        return any(one.state is SeriesState.CONFIRMED and one.run == judged.points[30].run for one in found)

    return hit


def step_found(step: int, after: int, outliers: float) -> Callable[[random.Random], bool]:
    """Is a change point found within two runs of the step?  Without a step: is there any?"""

    def hit(source: random.Random) -> bool:
        values = [*noise(50, 100, source, outliers), *noise(after, 100 - step, source, outliers)]
        found = change_points(values, min_effect=MIN_EFFECT)
        return any(not step or abs(point.index - 50) <= 2 for point in found)

    return hit


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    print("|".join(["", *header, ""]))
    print("|".join(["", *["---"] * len(header), ""]))
    for row in rows:
        cells = [f"{cell:.1f}" if isinstance(cell, float) else str(cell) for cell in row]
        print("|".join(["", *cells, ""]))
    print()


def main(count: int) -> None:
    print(f"{count} series each\n")
    cases = (("10 earlier runs", 10, 0.0, 1), ("30", 30, 0.0, 1), ("30, outliers", 30, 0.05, 1))
    header = ("newest run", "false alarms %", "5 % found", "10 %", "20 %")
    rows = [
        [name, *(share(count, newest(step, earlier, outliers, kpis)) for step in STEPS)]
        for name, earlier, outliers, kpis in cases
    ]
    table(header, rows)
    fewer = max(20, count // 4)
    many = [[str(kpis), share(fewer, newest(0, 30, 0.0, kpis))] for kpis in (1, 10, 50)]
    table(("KPIs of a run", "runs with any false alarm %"), many)
    table(
        ("two repeats of the newest run", "noise", "5 %", "10 %", "20 %", "spike of one run"),
        [
            [
                "confirmed %",
                *(share(count, confirmed(s, False)) for s in STEPS),
                share(count, confirmed(0, True)),
            ]
        ],
    )
    for outliers in (0.0, 0.05):
        title = "change points, outliers" if outliers else "change points"
        rows = [
            [f"{after} runs after", *(share(count, step_found(step, after, outliers)) for step in STEPS)]
            for after in (3, 5, 10)
        ]
        table((title, "noise only %", "5 % found", "10 %", "20 %"), rows)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
