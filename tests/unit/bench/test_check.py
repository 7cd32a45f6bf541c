"""The committed ranges, and what is said of a number outside of its range."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from bench import scale
from bench.check import RANGES, Range, main, outside, ranges

RATE = {"fournosjobs.rate": Range(at_least=0.35)}


def test_a_number_outside_its_range_is_named_with_the_range() -> None:
    assert outside("ceiling", {"fournosjobs.rate": 0.3}, RATE) == [
        "ceiling: fournosjobs.rate is 0.3, its range is at least 0.35."
    ]
    both = {"kill.gap": Range(at_least=0.5, at_most=1.2)}
    assert outside("failover", {"kill.gap": 1.3}, both) == [
        "failover: kill.gap is 1.3, its range is at least 0.5 and at most 1.2."
    ]


@pytest.mark.parametrize("value", [0.35, 2.0])
def test_a_limit_is_within_the_range(value: float) -> None:
    assert outside("ceiling", {"fournosjobs.rate": value}, RATE) == []


@pytest.mark.parametrize(("value", "held"), [(0.0, True), (1.0, False)])
def test_a_range_of_0_is_for_what_must_not_happen(value: float, held: bool) -> None:
    assert Range(at_most=0).holds(value) is held


def test_what_was_not_measured_and_what_has_no_range_is_said() -> None:
    assert outside("ceiling", {"appwrappers.rate": 0.5}, RATE) == [
        "ceiling: fournosjobs.rate was not measured, its range is at least 0.35.",
        "ceiling: appwrappers.rate is 0.5 and has no range in ranges.yaml.",
    ]


@pytest.mark.parametrize("limits", [{}, None, {"atmost": 3}])
def test_a_range_needs_a_limit_that_exists(limits: dict[str, float] | None) -> None:
    with pytest.raises(ValueError, match=r"ceiling: rate needs at_least, at_most or both"):
        ranges({"ceiling": {"rate": limits}})


def test_the_committed_ranges_are_of_parts_that_exist() -> None:
    committed = ranges(yaml.safe_load(RANGES.read_text(encoding="utf-8")))
    assert committed
    assert committed.keys() <= scale.PARTS.keys()
    assert all(committed.values())


def test_a_file_is_compared_with_the_committed_ranges(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "failover.json"
    within = {"kill.gap": 1.0, "graceful.gap": 0.01, "doubles": 0.0, "failed": 0.0, "late": 0.0}
    file.write_text(json.dumps({"surroundings": {}, "failover": {"ratios": within}}))
    assert main([file]) == 0
    assert capsys.readouterr().out == "5 ratios are within their ranges.\n"
    file.write_text(json.dumps({"failover": {"ratios": {**within, "doubles": 1.0}}}))
    assert main([file]) == 1
    assert capsys.readouterr().err == "failover: doubles is 1, its range is at most 0.\n"


def test_the_published_runs_are_within_the_committed_ranges(capsys: pytest.CaptureFixture[str]) -> None:
    published = sorted((RANGES.parent / "published").glob("*.json"))
    assert list(dict.fromkeys(file.name.partition("-")[0] for file in published)) == [
        "ceiling",
        "failover",
        "outage",
        "soak",
        "start",
        "upstream",
    ]
    assert main(published) == 0, capsys.readouterr().err


def test_a_file_without_ratios_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "idle.json"
    file.write_text(json.dumps({"idle": {}}))
    assert main([file]) == 1
    assert "has a range" in capsys.readouterr().err
