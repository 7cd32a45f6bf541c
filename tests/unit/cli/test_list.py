"""fournos list: what it shows, in which order, and what it leaves out."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterable
from typing import Any

import pytest
import yaml
from rich.text import Text

from fournos.api.kinds import FOURNOS_JOB
from fournos.cli.list import AskedList, _changes
from fournos.cli.output import Output
from fournos.engine.kube.api import Listing
from fournos.engine.kube.errors import ConnectionLostError, KubeError
from fournos.engine.kube.resource import Resource
from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import NOW, ago, job


def some_jobs() -> Api:
    return Api(
        job(
            "old",
            "Succeeded",
            created=ago(days=2),
            status={
                "cluster": "cluster-2",
                "message": "Pipeline completed successfully",
                "phaseTimes": {"running": ago(hours=40), "finished": ago(hours=38, minutes=30)},
            },
        ),
        job(
            "young",
            "Pending",
            created=ago(seconds=30),
            spec={"owner": None, "priority": "high", "displayName": "Night run"},
            status={"message": "Waiting\nfor a cluster"},
        ),
        job(
            "busy",
            created=ago(minutes=10),
            labels={"team": "a"},
            status={"cluster": "cluster-1", "attempt": 2, "phaseTimes": {"running": ago(minutes=3)}},
        ),
        job("fresh", None, created=ago(seconds=1), spec={"hardware": None, "cluster": None}),
        job("away", "Running", namespace="other", created=ago(hours=1)),
    )


def test_the_table_is_newest_first() -> None:
    result = Program(some_jobs())("list")
    assert result.exit_code == 0
    assert result.stdout == (
        "NAME   PHASE      CLUSTER    GPUS      OWNER      AGE  RAN    MESSAGE\n"
        "fresh  New        -          -         perf-team  1s   -\n"
        "young  Pending    cluster-1  2 x a100  -          30s  -      Waiting for a cluster\n"
        "busy   Running    cluster-1  2 x a100  perf-team  10m  3m\n"
        "old    Succeeded  cluster-2  2 x a100  perf-team  2d   1h30m  Pipeline completed successfully\n"
    )


def test_wide_of_all_namespaces() -> None:
    result = Program(some_jobs(), env={"COLUMNS": "170"})("ls", "-A", "-o", "wide", "--phase", "active")
    lines = result.stdout.splitlines()
    header = (
        "NAMESPACE NAME PHASE CLUSTER GPUS OWNER AGE RAN "
        "PIPELINE EXCLUSIVE PRIORITY ATTEMPT DISPLAY NAME MESSAGE"
    )
    assert " ".join(lines[0].split()) == header
    assert [line.split()[:2] for line in lines[1:]] == [
        ["bench", "fresh"],
        ["bench", "young"],
        ["bench", "busy"],
        ["other", "away"],
    ]
    assert "high" in lines[2] and "Night run" in lines[2]
    assert lines[3].split().count("busy") == 2, "its name is its display name, too"


def test_labels_are_columns_of_their_own() -> None:
    result = Program(some_jobs())("list", "-L", "fournos.dev/matrix,team", "--phase", "Running,New")
    assert [line.split()[-2:] for line in result.stdout.splitlines()] == [
        ["TEAM", "MESSAGE"],
        ["-", "-"],
        ["-", "a"],
    ]
    assert " RAN  MATRIX  TEAM  MESSAGE" in result.stdout


@pytest.mark.parametrize(
    ("order", "sorted_names"),
    [
        ("name", ["busy", "fresh", "old", "young"]),
        ("ran", ["old", "busy", "fresh", "young"]),
        ("cluster", ["fresh", "young", "busy", "old"]),
    ],
)
def test_a_list_is_sorted_in_every_format(order: str, sorted_names: list[str]) -> None:
    program = Program(some_jobs())
    assert names(program, "--sort-by", order) == sorted_names
    lines = program("list", "--sort-by", order).stdout.splitlines()[1:]
    assert [line.split()[0] for line in lines] == sorted_names


def test_a_narrow_terminal_drops_columns_before_it_cuts_words() -> None:
    def lines(columns: int) -> list[str]:
        shown: list[str] = Program(some_jobs(), env={"COLUMNS": str(columns)})("list").stdout.splitlines()
        assert all(len(line) <= columns for line in shown)
        return shown

    head, _, young, *_ = lines(80)
    assert "GPUS" not in head and "OWNER" in head and young.endswith("Waiting for a cluster")
    head, _, young, *_ = lines(36)
    assert head.split() == ["NAME", "PHASE", "AGE", "MESSAGE"] and young.endswith("…")


def test_a_pipe_gets_the_whole_message() -> None:
    program = Program(some_jobs())
    program.env["COLUMNS"] = None
    assert "Pipeline completed successfully" in program("list").stdout


def names(program: Program, *arguments: str) -> list[str]:
    result = program("list", "-o", "name", *arguments)
    assert result.exit_code == 0, result.stderr
    return [line.removeprefix("fournosjob.fournos.dev/") for line in result.stdout.split()]


def test_filters() -> None:
    program = Program(some_jobs())
    assert names(program, "--phase", "running,Pending") == ["young", "busy"]
    assert names(program, "--phase", "New", "--phase", "Succeeded") == ["fresh", "old"]
    assert names(program, "--owner", "perf-team") == ["fresh", "busy", "old"]
    assert names(program, "--cluster", "cluster-2") == ["old"]
    assert names(program, "-l", "team=a") == ["busy"]
    assert names(program, "-n", "other") == ["away"]


def test_an_unknown_phase_is_reported() -> None:
    result = Program(some_jobs())("list", "--phase", "Runing")
    assert result.exit_code == 2
    assert "Runing is not a phase" in result.stderr
    assert "Running" in result.stderr


def test_json_and_yaml_are_lists_without_bookkeeping() -> None:
    program = Program(some_jobs())
    found = json.loads(program("list", "-o", "json").stdout)
    assert [item["metadata"]["name"] for item in found["items"]] == ["fresh", "young", "busy", "old"]
    assert "managedFields" not in found["items"][0]["metadata"]
    assert yaml.safe_load(program("list", "-o", "yaml").stdout) == found


def test_no_jobs_is_no_failure_and_no_output() -> None:
    result = Program(Api())("list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "No jobs in namespace bench." in result.stderr
    assert json.loads(Program(Api())("list", "-o", "json").stdout)["items"] == []


def test_watching_prints_the_row_of_each_job_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    api = some_jobs()
    for found in api.objects[FOURNOS_JOB].values():
        found["metadata"]["resourceVersion"] = "1"
    api.script = [("MODIFIED", job("busy", "Succeeded", created=ago(minutes=10), labels={"team": "a"}))]
    write = Output.lines

    def lines(output: Output, rows: Iterable[Text | str]) -> None:
        """Interrupts once the changed row is written."""
        written = [*rows]
        write(output, written)
        if any("Succeeded" in str(row) for row in written):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Output, "lines", lines)
    # A shell starts what runs in the background with SIGINT ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        result = Program(api)("list", "-w", "-l", "team=a")
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.exit_code == 130
    rows = [line.split()[:2] for line in result.stdout.splitlines()]
    assert rows == [["NAME", "PHASE"], ["busy", "Running"], ["busy", "Succeeded"]]


def test_the_history_is_not_watched() -> None:
    result = Program(some_jobs())("list", "-w", "--all-time")
    assert result.exit_code == 2 and "leave out --all-time" in result.stderr


async def test_a_watch_that_breaks_is_reported_once_and_so_is_its_return() -> None:
    class Caches:
        def __init__(self) -> None:
            lost = ConnectionLostError("refused")
            self.errors: list[KubeError | None] = [None, lost, lost, None]
            self.watch_error: KubeError | None = None

        async def list(self, _: Resource, **__: str) -> Listing:
            return Listing([], "")

        async def change(self) -> None:
            self.watch_error = self.errors.pop(0)

    every = AskedList(frozenset(), None, None, "", everywhere=False, order=None, labels=())
    said: list[str] = []
    caches: Any = Caches()
    with pytest.raises(IndexError):
        await anext(_changes(caches, "bench", every, (), said.append, lambda: NOW))
    assert said == ["connection lost, trying again: refused", "connected again"]
