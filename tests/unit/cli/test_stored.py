"""Jobs that are gone, as the commands show them from the history."""

from __future__ import annotations

import json
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from fournos.history.records import Detail, Ending, Identity, Page, Run, body
from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import NOW, NS, job

SPACE = f"/apis/history.fournos.dev/v1/namespaces/{NS}"
RUNS = f"{SPACE}/runs"
BEGAN = NOW - timedelta(days=30)


def run(name: str = "gone", **fields: object) -> Run:
    found = {
        "phase": "Failed",
        "owner": "perf-team",
        "target": "cluster-1",
        "gpu_type": "a100",
        "gpu_count": 2,
        "message": "no room",
        "started_at": BEGAN + timedelta(minutes=5),
        "ended_at": BEGAN + timedelta(minutes=9),
        "ending": Ending.OBSERVED,
        **fields,
    }
    return Run(Identity("c", NS, f"uid-{name}"), "FournosJob", name, "n", BEGAN, BEGAN, 7, **found)  # type: ignore[arg-type]


def stored() -> Api:
    api = Api(job("other"))
    api.stored = {
        f"{RUNS}/gone?kind=FournosJob": body(
            Detail(run(waited_for="Lock", waited_for_text="held by nightly")), Detail
        ),
        f"{RUNS}/uid-gone/documents/object": json.dumps(job("gone", "Failed")).encode(),
    }
    return api


def test_a_job_that_is_gone_is_shown_from_the_history() -> None:
    result = Program(stored())("get", "gone")
    assert result.exit_code == 0
    assert "gone is gone from the cluster; this is from the history." in result.stderr
    assert "Failed" in result.stdout
    assert "5m" in result.stdout and "Lock" in result.stdout and "held by nightly" in result.stdout


@pytest.mark.parametrize(
    "typed", ["fournosjob.fournos.dev/gone", "fournosjob/gone", "FournosJob/gone", "fj/gone"]
)
def test_every_command_of_the_history_takes_what_a_list_prints(typed: str) -> None:
    """`list -o name` prints fournosjob.fournos.dev/NAME."""
    wanted = [
        (("get", typed), "runs/gone"),
        (("logs", typed), "runs/gone"),
        (("trend", typed), "runs/gone/results/trends"),
        (("compare", typed, typed), "runs/gone/results/comparison?with=gone"),
        (("results", "list", typed), "runs/gone/results"),
        (("artifacts", "list", typed), "runs/gone/artifacts"),
        (("baseline", "pin", typed), "runs/gone"),
        (("acknowledge", "list", typed), "runs/gone/acknowledgements"),
    ]
    for words, asked in wanted:
        api = stored()
        Program(api)(*words)
        assert any(f"/{asked}" in path for _, path in api.raw_requests), (words, api.raw_requests)
        assert not any("fournos.dev/gone" in path or "%2F" in path for _, path in api.raw_requests)


def test_and_as_it_was() -> None:
    found = json.loads(Program(stored())("get", "gone", "-o", "json").stdout)
    assert found["metadata"]["name"] == "gone"


def test_a_job_that_neither_has_is_missing_as_before() -> None:
    for api in (stored(), Api(job("other"))):
        result = Program(api)("get", "nothing")
        assert result.exit_code == 5
        assert "nothing" in result.stderr


def test_a_list_of_all_time() -> None:
    api = Api()
    path = f"{RUNS}?kind=FournosJob&phase=Failed&owner=me&label=team%3Dx&limit=50"
    api.stored = {path: body(Page((run(), run("second", started_at=None, gpu_count=0))), Page)}
    words = ("list", "--all-time", "--phase", "failed", "--owner", "me", "-l", "team=x")
    lines = Program(api)(*words).stdout.splitlines()
    assert lines[0].split() == ["NAME", "PHASE", "CLUSTER", "GPUS", "OWNER", "AGE", "RAN", "MESSAGE"]
    assert lines[1].split() == [
        "gone",
        "Failed",
        "cluster-1",
        "2",
        "x",
        "a100",
        "perf-team",
        "30d",
        "4m",
        "no",
        "room",
    ]
    assert lines[2].split()[3] == "-"
    found = json.loads(Program(api)(*words, "-o", "json").stdout)
    assert [one["name"] for one in found] == ["gone", "second"]


@pytest.mark.parametrize("selector", ["team!=x", "team in (x, y)", "team", "!team", "=x"])
def test_labels_of_all_time_are_equal_or_refused(selector: str) -> None:
    result = Program(Api())("list", "--all-time", "-l", selector)
    assert result.exit_code == 2
    assert "name=value" in result.stderr


@pytest.mark.parametrize(
    ("selector", "asked"),
    [
        ("team==x", {"team=x"}),
        ("team=x, model=y", {"team=x", "model=y"}),
        (" team = x,", {"team=x"}),
        ("a.b/c=", {"a.b/c="}),
    ],
)
def test_labels_of_all_time_are_read_as_the_api_server_reads_them(selector: str, asked: set[str]) -> None:
    api = Api()
    Program(api)("list", "--all-time", "-l", selector)
    (path,) = (path for _, path in api.raw_requests if "/runs?" in path)
    assert set(parse_qs(urlsplit(path).query, keep_blank_values=True)["label"]) == asked


def test_without_a_history_it_says_so() -> None:
    result = Program(Api())("list", "--all-time")
    assert result.exit_code == 6
    assert "deploy/history" in result.stderr
