"""`make test`: the folders whose tests need clusters run side by side, and end as one command."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from dev import second_set
from dev.lanes import NOTHING_SELECTED, commands, exit_code, run


def sh(script: str) -> list[str]:
    return ["sh", "-c", script]


def test_each_lane_is_a_pytest_with_the_same_arguments() -> None:
    found = commands(["pods=tests/a/b,tests/c", "rest=tests/d", "--", "-k", "a or b", "--", "-x"])
    assert found == {
        "pods": [
            *(sys.executable, "-u", "-m", "pytest", "tests/a/b", "tests/c"),
            *("-k", "a or b", "--", "-x"),
        ],
        "rest": [sys.executable, "-u", "-m", "pytest", "tests/d", "-k", "a or b", "--", "-x"],
    }
    assert commands(["rest=tests/d", "--"]) == commands(["rest=tests/d"])


@pytest.mark.parametrize("named", [*second_set.WITHOUT_PODS, *second_set.WITH_PODS])
def test_each_test_of_the_second_set_exists(named: str) -> None:
    """`make test-versions` runs them, and nothing else looks at their names."""
    path, _, test = named.partition("::")
    assert f"def {test}" in (second_set.ROOT / path).read_text()


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ((0, 0), 0),
        ((0, 1), 1),
        ((2, 1), 2),
        ((0, NOTHING_SELECTED), 0),
        ((NOTHING_SELECTED, 3), 3),
        ((NOTHING_SELECTED, NOTHING_SELECTED), NOTHING_SELECTED),
    ],
)
def test_there_is_one_exit_code(codes: tuple[int, int], expected: int) -> None:
    assert exit_code(codes) == expected


def test_the_lanes_run_at_the_same_time_and_to_their_ends(tmp_path: Path) -> None:
    """Each waits for the other's file."""
    pair = {
        own: sh(f"touch {tmp_path}/{own}; until test -e {tmp_path}/{other}; do sleep 0.01; done; exit {code}")
        for own, other, code in (("a", "b", 0), ("b", "a", 3))
    }
    out = io.StringIO()
    assert run(pair, tmp_path / "logs", out) == 3
    assert "a: passed, 0 min" in out.getvalue()
    assert "b: failed with exit code 3, 0 min" in out.getvalue()


def test_a_command_that_was_killed_is_a_failure(tmp_path: Path) -> None:
    assert run({"a": sh("kill -9 $$"), "b": sh("true")}, tmp_path, io.StringIO()) == 137
