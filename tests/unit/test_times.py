"""The plugin that measures files and fixtures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dev.lanes import ROOT
from tests.times import Cost, folder_of, write

TESTS = """\
import os, subprocess, sys, time
import pytest

@pytest.fixture(scope="module")
def slow():
    end = time.process_time() + 0.2
    while time.process_time() < end: pass

def test_a(slow): pass
def test_b(slow): pass
def test_c(): subprocess.run([sys.executable, "-c", "import time\\nwhile time.process_time() < 0.3: pass"])
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_files_and_fixtures_are_measured_where_they_run(workers: str, tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").touch()
    for name in ("x", "y"):
        (tmp_path / f"test_{name}.py").write_text(TESTS)
    words = ["-m", "pytest", "-p", "tests.times", "-p", "no:cacheprovider", "-n", workers, "--dist=loadfile"]
    environment = {"PYTHONPATH": str(ROOT)}
    shown = subprocess.check_output([sys.executable, *words], cwd=tmp_path, env=environment, text=True)
    assert "test_x.py::slow" in shown.partition("dearest fixtures")[2]
    times = json.loads((tmp_path / "build/times.json").read_text())
    for name in ("x", "y"):
        fixture, file = times["fixtures"][f"test_{name}.py::slow"], times["files"][f"test_{name}.py"]
        assert fixture["count"] == 1 and min(fixture["setup"], fixture["cpu"]) >= 0.19
        assert file["count"] == 3 and file["setup"] >= 0.19 and file["call"] >= 0.3
        assert file["cpu"] >= 0.48, "that of the process that it started, too"


def test_what_was_measured_replaces_its_earlier_entry_alone(tmp_path: Path) -> None:
    path = tmp_path / "build" / "times.json"
    write(path, {"files": {"a": Cost(1, 2, 3, 4), "b": Cost(1)}, "fixtures": {}})
    write(path, {"files": {"a": Cost(5, 6.001, 7, 8)}, "fixtures": {"f": Cost(1)}})
    times = json.loads(path.read_text())
    assert times["files"]["a"] == {"count": 5, "setup": 6.0, "call": 7, "cpu": 8}
    assert set(times["files"]) == {"a", "b"} and set(times["fixtures"]) == {"f"}


def test_what_a_killed_run_left_half_written_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "times.json"
    path.write_text('{"files": {"a": {"cou')
    write(path, {"files": {"b": Cost(1)}, "fixtures": {}})
    assert set(json.loads(path.read_text())["files"]) == {"b"}


def test_a_folder_is_named_by_its_first_parts() -> None:
    assert folder_of("tests/e2e/jobs/more/test_queue.py") == "tests/e2e/jobs"
    assert folder_of("tests/unit/test_times.py") == "tests/unit"
