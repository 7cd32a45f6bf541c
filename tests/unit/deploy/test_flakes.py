"""`make flakes`: which runs there are, what is read of them, what is kept, and that the load ends."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dev import flakes, load
from dev.flakes import Batch, Result, Rig, parse_junit, plan, repeated, results_of, shown, table
from dev.lanes import NOTHING_SELECTED, ROOT
from dev.load import Load, available

FILES = [f"tests/{folder}/test_{name}.py" for folder in ("a", "b", "c") for name in "123456"]
LIGHT, HEAVY = Load(busy=1), Load(busy=2, disk=True)


def files(run: flakes.Run) -> list[str]:
    return [file for batch in run.batches for file in batch.words]


def test_the_order_changes_with_each_run_and_is_repeatable() -> None:
    runs = plan(FILES, runs=4, order=7, loads=[LIGHT, HEAVY])
    assert runs == plan(FILES[::-1], runs=4, order=7, loads=[LIGHT, HEAVY])
    assert runs[:2] == plan(FILES, runs=2, order=7, loads=[LIGHT, HEAVY])
    assert all(sorted(files(run)) == FILES for run in runs)
    assert len({tuple(files(run)) for run in runs}) == 4
    assert [files(run) for run in plan(FILES, runs=4, order=8, loads=[LIGHT])] != [files(run) for run in runs]
    assert [run.load for run in runs] == [LIGHT, HEAVY, LIGHT, HEAVY]


def test_files_of_a_folder_stay_together() -> None:
    for run in plan(FILES, runs=5, order=1, loads=[LIGHT]):
        assert sorted(batch.name for batch in run.batches) == ["tests/a", "tests/b", "tests/c"]
        assert all(Path(file).parent == Path(batch.name) for batch in run.batches for file in batch.words)


def test_test_files_of_files_and_folders() -> None:
    found = flakes.test_files(["tests/unit/deploy", "tests/unit/test_docs.py"])
    assert {"tests/unit/deploy/test_flakes.py", "tests/unit/test_docs.py"} < set(found)
    with pytest.raises(ValueError, match="tests/none: no test file"):
        flakes.test_files(["tests/none"])


TESTS = """\
import pytest

def test_passes(): pass

@pytest.mark.parametrize("n", [1])
def test_fails(n): assert n == 2

@pytest.fixture
def broken():
    yield
    raise OSError

def test_broken(broken): assert False

def test_skipped(): pytest.skip()

class TestX:
    def test_inside(self): pass
"""


def test_the_report_of_pytest_is_read(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    report = tmp_path / "report.xml"
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", "test_some.py"]
    done = subprocess.run([sys.executable, *words], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 1
    assert {result.test: result.failed for result in parse_junit(report.read_text())} == {
        "test_some::test_passes": False,
        "test_some::test_fails[1]": True,
        "test_some::test_broken": True,
        "test_some.TestX::test_inside": False,
    }


PASSED = '<testsuites><testsuite><testcase classname="a" name="b" time="0.5"/></testsuite></testsuites>'
FAILED = PASSED.replace("/></testsuite>", "><failure/></testcase></testsuite>")


@pytest.mark.parametrize(
    ("junit", "code", "report", "expected"),
    [
        (True, 0, PASSED, [Result("a::b", 0.5, False)]),
        (True, 1, FAILED, [Result("a::b", 0.5, True)]),
        (True, NOTHING_SELECTED, "", []),
        # What no test explains: a warning at the end, pytest killed.
        (True, 1, PASSED, [Result("a::b", 0.5, False), Result("batch", 9, True)]),
        (True, -9, "", [Result("batch", 9, True)]),
        (False, 0, "", [Result("batch", 9, False)]),
        (False, NOTHING_SELECTED, "", [Result("batch", 9, True)]),
    ],
)
def test_results_of_a_process(junit: bool, code: int, report: str, expected: list[Result]) -> None:
    assert results_of(Batch("batch", (), junit=junit), code, report, 9) == expected


def test_the_table_has_failures_first() -> None:
    rows = table([Result("a", 1, False), Result("b", 1, True), Result("b", 2, False), Result("c", 5, False)])
    assert rows == [("b", 2, 1, 1.5), ("c", 1, 0, 5), ("a", 1, 0, 1)]
    assert shown(rows).splitlines()[:2] == [
        " runs  failures   mean s  test",
        "    2         1      1.5  b",
    ]


def test_only_failures_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = f"echo shown; ! test -e {tmp_path}/first"
    rig = Rig(
        tmp_path / "kept",
        limit=60,
        before=f"test -e {tmp_path}/0 && touch {tmp_path}/first; touch {tmp_path}/0",
    )
    assert rig.run(repeated(command, runs=2, loads=[Load()])) == 1
    assert table(rig.results)[0][:3] == (command, 2, 1)
    (kept,) = (tmp_path / "kept").iterdir()
    assert kept.name == "02-01"
    assert (kept / "output.log").read_text() == "shown\n"
    assert (kept / "command").read_text().startswith("sh -c ")
    first, second = capsys.readouterr().out.splitlines()
    assert "1 passed" in first
    assert f"1 of 1 failed: {kept}" in second


def test_a_process_that_does_not_end_is_a_failure(tmp_path: Path) -> None:
    rig = Rig(tmp_path, limit=0.1)
    assert rig.run(repeated("echo begun; exec sleep 1000", runs=1, loads=[Load()])) == 1
    assert "ended after 0.1 s" in (tmp_path / "01-01" / "output.log").read_text()


def test_what_prepares_a_run_must_succeed(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="`false` failed"):
        Rig(tmp_path, limit=60, before="false").run(repeated("true", runs=1, loads=[Load()]))


RIG = """\
import os, pathlib, sys
from dev.flakes import Load, Rig, repeated
here = pathlib.Path(sys.argv[1])
command = f"echo $$ > {here}/started; exec sleep 1000"
load = Load(busy=1, disk=True)
sys.exit(Rig(here / "kept", limit=1000).run(repeated(command, runs=1, loads=[load])))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_load_ends_with_the_rig(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    os.mkfifo(tmp_path / "started")
    with subprocess.Popen(
        [sys.executable, "-c", RIG, str(tmp_path)], cwd=ROOT, stdout=subprocess.DEVNULL
    ) as rig:
        command = int((tmp_path / "started").read_text())
        children = Path(f"/proc/{rig.pid}/task/{rig.pid}/children").read_text().split()
        beside = {os.pidfd_open(int(pid)) for pid in children if int(pid) != command}
        assert len(beside) == (os.cpu_count() or 1) + 1
        rig.send_signal(number)
        assert rig.wait(timeout=60) == {signal.SIGTERM: 128 + signal.SIGTERM}.get(number, -number)
        if number == signal.SIGKILL:
            os.kill(command, signal.SIGKILL)
        for descriptor in beside:  # readable when the process has ended
            assert select.select([descriptor], [], [], 60)[0]
            os.close(descriptor)


def test_memory_is_that_of_the_cgroup_if_it_is_less(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:  900 kB\nMemAvailable:  500 kB\n")
    assert available(tmp_path) == 500 * 1024
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (group / "memory.current").write_text("1000\n")
    (group / "memory.max").write_text("max\n")
    assert available(tmp_path) == 500 * 1024
    (group / "memory.max").write_text("3000\n")
    assert available(tmp_path) == 2000


def test_memory_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = 64 * 2**20
    monkeypatch.setattr(load, "available", lambda root: 2**30 + size)
    with Load(memory=1).beside(tmp_path):
        (child,) = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
        resident = int(Path(f"/proc/{child}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        assert resident > size / 2
