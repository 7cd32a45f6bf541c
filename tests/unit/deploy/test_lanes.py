"""`make test`: the folders whose tests need clusters run side by side, and end as one command."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dev.lanes import NOTHING_SELECTED, ROOT, commands, exit_code, run


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


LANE = """\
import os, pathlib, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
name, ready = map(pathlib.Path, sys.argv[1:])
with ready.open("w") as file:
    print(os.getpgid(0), file=file)
name.write_text(signal.Signals(signal.sigwait(signal.valid_signals())).name)
sys.exit(7)
"""
LANES = """\
import pathlib, sys
from dev.lanes import run
here = pathlib.Path(sys.argv[1])
words = [sys.executable, str(here / "lane.py")]
sys.exit(run({name: [*words, str(here / name), str(here / "ready")] for name in "ab"}, here, sys.stdout))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_passed_on_and_the_lanes_clean_up_is_awaited(
    number: signal.Signals, tmp_path: Path
) -> None:
    (tmp_path / "lane.py").write_text(LANE)
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    words = ["env", "--default-signal=INT,HUP", sys.executable, "-c", LANES, str(tmp_path)]
    with subprocess.Popen(words, cwd=ROOT, start_new_session=True, stdout=subprocess.DEVNULL) as process:
        keep = os.open(ready, os.O_RDWR)  # the second lane may open it after the first has closed it
        with os.fdopen(keep) as file:
            groups = {int(file.readline()) for _ in "ab"}
        # Ctrl-C interrupts the foreground, which the lanes are not part of: they get one signal, not two.
        assert process.pid not in groups and len(groups) == 2
        process.send_signal(number)
        assert process.wait(timeout=30) == 7
    assert [(tmp_path / name).read_text() for name in "ab"] == [number.name] * 2
