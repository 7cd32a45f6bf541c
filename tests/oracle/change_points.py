"""Writes tests/data/otava.json: series, and the change points that Apache Otava finds in them.

    VENV/bin/python tests/oracle/change_points.py tests/data/otava.json

It needs Otava and nothing of this repository: `make oracle` gives it a virtual environment of its own.
"""

from __future__ import annotations

import json
import random
import sys
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

from otava.analysis import TTestSignificanceTester, merge, split

WINDOW, MAX_P, MIN_EFFECT = 50, 0.001, 0.03


def made() -> dict[str, list[float]]:
    """Series of every sort, from a fixed seed."""
    source = random.Random(20260101)

    def noisy(*levels: tuple[int, float], cv: float = 0.03, outliers: float = 0.0) -> list[float]:
        values = []
        for count, mean in levels:
            for _ in range(count):
                spike = 0.85 if source.random() < outliers else 1.0
                values.append(round(mean * spike * (1 + source.gauss(0, cv)), 6))
        return values

    series: dict[str, list[float]] = {
        "constant": [5.0] * 40,
        "zero": [0.0] * 40,
        "step without noise": [5.0] * 20 + [6.0] * 20,
        "two": [1.0, 2.0],
        "one": [1.0],
        "negative": noisy((30, -50), (30, -60)),
        "tiny numbers": noisy((30, 1e-9), (30, 1.2e-9)),
        "drift": [round(100 + index * 0.3 + source.gauss(0, 1), 6) for index in range(80)],
        "saw": [float(index % 7) for index in range(60)],
        "hump": noisy((30, 100), (12, 120), (30, 100)),
        "stairs": noisy((30, 100), (30, 110), (30, 121), (30, 133)),
        "up and down": noisy((60, 100), (60, 80), (60, 100), cv=0.02),
    }
    for number in range(8):
        series[f"noise {number}"] = noisy((60, 100))
        series[f"outliers {number}"] = noisy((60, 100), outliers=0.05)
    for step in (5, 10, 20):
        for after in (3, 5, 10, 40):
            series[f"step {step} % {after} after"] = noisy((50, 100), (after, 100 - step))
            series[f"step {step} % {after} after, outliers"] = noisy(
                (50, 100), (after, 100 - step), outliers=0.05
            )
    for number in range(8):
        levels = [(source.randint(5, 60), source.choice((80.0, 90.0, 100.0, 115.0))) for _ in range(5)]
        series[f"random {number}"] = noisy(*levels)
    return series


class Observed(list[Any]):
    """A list of change points that notes whether the left neighbour of a removed one was left as it was."""

    stale = False

    def __delitem__(self, index: Any) -> None:
        self.stale |= index > 0
        super().__delitem__(index)


def answer(values: list[float]) -> dict[str, Any]:
    weak = split(values, WINDOW, MAX_P * 10)
    indices = [int(point.index) for point in weak]
    observed = Observed(weak)
    points = merge(observed, values, MAX_P, MIN_EFFECT)
    tester = TTestSignificanceTester(MAX_P)
    assert all(point.stats.pvalue < tester.max_pvalue for point in points)
    return {
        "values": values,
        "weak": indices,
        "stale": observed.stale,
        "points": [
            {
                "index": int(point.index),
                "p": float(point.stats.pvalue),
                "before": float(point.stats.mean_1),
                "after": float(point.stats.mean_2),
            }
            for point in points
        ],
    }


def main() -> None:
    warnings.simplefilter("ignore")  # numpy's, of series without spread
    found = {
        "otava": version("apache-otava"),
        "window": WINDOW,
        "max_p": MAX_P,
        "min_effect": MIN_EFFECT,
        "series": {name: answer(values) for name, values in made().items()},
    }
    text = json.dumps(found, separators=(",", ":")).replace('},"', '},\n"')
    Path(sys.argv[1]).write_text(text + "\n")


main()
