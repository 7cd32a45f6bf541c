"""Our change points, held against those of Apache Otava (tests/data/otava.json, made by `make oracle`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fournos.history.regressions.change_points import change_points, weak_points

DATA = json.loads((Path(__file__).parents[3] / "data" / "otava.json").read_text())
SERIES: dict[str, Any] = DATA["series"]
EXACT = [name for name, answer in SERIES.items() if not answer["stale"]]
STALE = [name for name, answer in SERIES.items() if answer["stale"]]
"""Otava removed a point here whose left neighbour kept the p-value of a level that was no more."""


@pytest.mark.parametrize("name", SERIES)
def test_candidates_are_the_same(name: str) -> None:
    answer = SERIES[name]
    assert weak_points(answer["values"], max_p=DATA["max_p"], window=DATA["window"]) == answer["weak"]


@pytest.mark.parametrize("name", EXACT)
def test_change_points_are_the_same(name: str) -> None:
    answer = SERIES[name]
    found = change_points(
        answer["values"],
        max_p=DATA["max_p"],
        min_effect=DATA["min_effect"],
        window=DATA["window"],
        min_segment=1,
    )
    assert [point.index for point in found] == [point["index"] for point in answer["points"]]
    for ours, theirs in zip(found, answer["points"], strict=True):
        assert ours.p == pytest.approx(theirs["p"], rel=1e-6, abs=1e-14)
        assert (ours.before, ours.after) == pytest.approx((theirs["before"], theirs["after"]), rel=1e-9)


@pytest.mark.parametrize("name", STALE)
def test_where_otava_decides_by_old_p_values(name: str) -> None:
    """The candidates are the same; most decisions are, and none of ours is without significance."""
    answer = SERIES[name]
    found = change_points(answer["values"], max_p=DATA["max_p"], min_effect=DATA["min_effect"], min_segment=1)
    indices = {point.index for point in found}
    assert indices <= set(answer["weak"])
    assert all(point.p < DATA["max_p"] and point.magnitude > DATA["min_effect"] for point in found)
    different = indices ^ {point["index"] for point in answer["points"]}
    assert len(different) <= (4 if name == "drift" else 2), "a ramp has no step, so that any place will do"


def test_the_comparison_is_worth_something() -> None:
    assert len(EXACT) >= 40
    assert sum(len(SERIES[name]["points"]) for name in EXACT) >= 30


@pytest.mark.parametrize("name", [name for name in SERIES if name.startswith("noise")])
def test_shorter_levels_and_spikes_only_ever_take_points_away(name: str) -> None:
    values = SERIES[name]["values"]
    assert len(change_points(values, min_effect=0.03)) <= len(change_points(values, min_segment=1))
