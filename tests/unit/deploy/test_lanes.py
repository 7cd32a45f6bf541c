"""`make test`: the folders whose tests need clusters run side by side, and end as one command."""

from __future__ import annotations

import ast
import importlib
import io
import itertools
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dev import lanes
from dev.lane_progress import LaneProgress
from dev.lanes import NOTHING_SELECTED, ROOT, commands, exit_code, run

CLUSTER = re.compile(r"fournos-(test|mk)(-[a-z0-9]+)*-?")


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


def test_a_lanes_tests_find_its_name(tmp_path: Path) -> None:
    pair = {name: sh(f"test $FOURNOS_LANE = {name}") for name in ("one", "other")}
    assert run(pair, tmp_path / "logs", io.StringIO()) == 0


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


SHOWN = """\
==== test session starts ====
collected 2 items

a/test_ä.py .F [100%]

==== FAILURES ====
____ test_x ____
1 == 2
==== 1 failed, 1 passed ====
last"""


def test_progress_is_marked_and_the_report_is_whole(tmp_path: Path) -> None:
    (tmp_path / "shown").write_text(SHOWN)
    out = io.StringIO()
    run({"long": sh(f"cat {tmp_path}/shown; exit 1"), "b": sh("echo quick >&2")}, tmp_path / "logs", out)
    lines = out.getvalue().splitlines()
    assert [line for line in lines if " | " in line and line.startswith("long")] == [
        f"long | {line}" for line in SHOWN.splitlines()[:5]
    ]
    assert "b    | quick" in lines
    (ended, _) = (number for number, line in enumerate(lines) if line.startswith("==> long: failed"))
    report = SHOWN.splitlines()[5:]
    assert lines[ended + 1 : ended + 1 + len(report)] == report
    assert out.getvalue().count("==== FAILURES") == 1
    assert [re.sub(r"0 min \d+ s", "0 min", line) for line in lines[-2:]] == [
        f"==> long: failed with exit code 1, 0 min, whole output in {tmp_path}/logs/long.log",
        f"==> b: passed, 0 min, whole output in {tmp_path}/logs/b.log",
    ]
    assert (tmp_path / "logs" / "long.log").read_text() == SHOWN


def test_an_unfinished_line_is_shown_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "_REPEAT", 0.0)
    shown = tmp_path / "shown"

    class Out(io.StringIO):
        def write(self, text: str) -> int:
            shown.touch()  # the command goes on
            return super().write(text)

    out = Out()
    run({"a": sh(f"printf ..; until test -e {shown}; do sleep 0.01; done; echo .")}, tmp_path / "logs", out)
    lines = out.getvalue().splitlines()
    assert lines[0] == "a | .."
    assert "a | ..." in lines


def test_what_is_done_and_left_is_told_from_the_second_run_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "_TELL", 0.0)
    goes_on = tmp_path / "goes-on"
    script = sh(f"printf 'tests/test_x.py .. [ 40%%]\\n'; until test -e {goes_on}; do sleep 0.01; done")

    class Out(io.StringIO):
        def write(self, text: str) -> int:
            if "40 % of the tests" in text:
                goes_on.touch()
            return super().write(text)

    for told in ("a 40 % of the tests\n", "a 40 % of the tests, about 1 min left\n"):
        goes_on.unlink(missing_ok=True)
        assert run({"a": script}, tmp_path / "logs", out := Out()) == 0
        assert f"==> 0 min: {told}" in out.getvalue()


def test_the_rest_is_what_the_last_run_took(tmp_path: Path) -> None:
    record = tmp_path / "a.json"
    first = LaneProgress(record, 100)
    assert first.left(100) is None and first.describe(100) == "0 % of the tests"
    for now, line in (
        (110, "a.py .."),
        (120, "...   [ 20%]"),
        (140, "b.py .   [ 30%]"),
        (200, "c.py ."),
        (205, "b.py ."),
    ):
        first.see(line, now)
    first.end(215, whole=True)
    assert json.loads(record.read_text()) == {"a.py": 30, "b.py": 70, "c.py": 5}
    second = LaneProgress(record, 0)
    assert second.left(3) == 105
    second.see("b.py ", 10)
    assert second.left(30) == 30 + 5 + 50
    assert second.left(300) == 30 + 5, "it takes longer than before"
    second.see("a.py .. [ 99%]", 301)
    assert second.describe(301) == "99 % of the tests, about 1 min left"
    second.end(302, whole=False)
    assert LaneProgress(record, 0).left(0) == 105


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


def strings(folder: str) -> set[str]:
    """The names of clusters in the sources of a folder."""
    trees = [ast.parse(path.read_text()) for path in (ROOT / folder).rglob("*.py")]
    values = [node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    return {value for value in values if isinstance(value, str) and CLUSTER.fullmatch(value)}


def imported(folder: str, package: str) -> set[str]:
    """The strings that modules of a folder import from another."""
    found = set()
    for path in (ROOT / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(package):
                module = importlib.import_module(node.module or "")
                values = [getattr(module, alias.name) for alias in node.names]
                found |= {value for value in values if isinstance(value, str)}
    return found


def lanes_of(variable: str) -> dict[str, list[str]]:
    """Lane → folders, of a variable of the Makefile."""
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    (words,) = re.findall(rf"^{variable} = (.*)$", text, re.MULTILINE)
    named = (word.partition("=") for word in words.split())
    return {name: paths.split(",") for name, _, paths in named}


def clusters_of(lane: str, folders: list[str]) -> set[str]:
    """The names of clusters in the lane's sources, with that of its full cluster."""
    return {f"fournos-test-{lane}"} | set.union(*map(strings, folders))


def test_the_lanes_of_make_test_share_no_cluster() -> None:
    named = {lane: clusters_of(lane, folders) for lane, folders in lanes_of("LANES").items()}
    assert "fournos-test-cp" in named["integration"] and len(named) == 3
    for (_, own), (_, foreign) in itertools.permutations(named.items(), 2):
        openings = tuple(name for name in foreign if name.endswith("-"))
        assert own & foreign == set() and not [name for name in own if name.startswith(openings)]
    assert strings("tests/integration") & imported("tests/e2e", "tests.integration") == set()


def test_the_lanes_of_make_test_have_all_its_folders() -> None:
    listed = [folder for folders in lanes_of("LANES").values() for folder in folders]
    e2e = {path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "tests/e2e").glob("*/test_*.py")}
    setup = {folder for folders in lanes_of("SETUP_LANES").values() for folder in folders}
    assert sorted(listed) == sorted({"tests/integration"} | e2e - setup)


def test_the_lanes_of_make_test_setup_have_all_tests_of_the_set_up_and_share_no_cluster() -> None:
    folders = lanes_of("SETUP_LANES")
    marked = {
        path.parent.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("*.py")
        if "pytest.mark.setup" in path.read_text() and path != Path(__file__)
    }
    assert marked == {folder for lane in folders.values() for folder in lane}
    named = [clusters_of(lane, paths) for lane, paths in folders.items()]
    assert len(named) == 3
    assert all(first & second == set() for first, second in itertools.combinations(named, 2))
