"""The committed ranges, and what is said of a number outside of its range."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.__main__ import PARTS
from bench.check import Range, main, outside, ranges

RATE: dict[str, Range] = {"fournosjobs.rate": {"at_least": 0.35}}


def test_a_number_outside_its_range_is_named_with_the_range() -> None:
    assert outside("ceiling", {"fournosjobs.rate": 0.3}, RATE) == [
        "ceiling: fournosjobs.rate is 0.3, its range is at least 0.35."
    ]
    both: dict[str, Range] = {"kill.gap": {"at_least": 0.5, "at_most": 1.2}}
    assert outside("failover", {"kill.gap": 1.3}, both) == [
        "failover: kill.gap is 1.3, its range is at least 0.5 and at most 1.2."
    ]
    assert outside("ceiling", {"fournosjobs.rate": 0.35}, RATE) == []


def test_what_was_not_measured_and_what_has_no_range_is_said() -> None:
    assert outside("ceiling", {"appwrappers.rate": 0.5}, RATE) == [
        "ceiling: fournosjobs.rate was not measured, its range is at least 0.35.",
        "ceiling: appwrappers.rate is 0.5 and has no range in ranges.yaml.",
    ]


def test_the_committed_ranges_are_of_parts_and_limits_that_exist() -> None:
    committed = ranges()
    assert committed and committed.keys() <= PARTS.keys()
    limits = [limit for each in committed.values() for limit in each.values()]
    assert all(limit and limit.keys() <= {"at_least", "at_most"} for limit in limits)


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


def test_a_file_without_ratios_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "idle.json"
    file.write_text(json.dumps({"idle": {}}))
    assert main([file]) == 1
    assert "has a range" in capsys.readouterr().err
