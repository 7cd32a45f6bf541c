"""fournos results list, on answers of the history."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from fournos.cli.results import _inert
from fournos.history.artifacts import Artifact
from fournos.history.records import Page, body
from fournos.history.results.models import Kpi, Test
from tests.unit.cli.api import Api, Program
from tests.unit.cli.test_stored import RUNS, run

RECORDS = (
    Test(labels={"model": "llama"}, kpis=(Kpi(kpi_id="tput", value=7.5, unit="tok/s"),)),
    Test(success=False, kpis=(Kpi(kpi_id="curve", values=((1.0, 2.0),)),)),
)


def served(problems: list[str] | None = None) -> Api:
    api = Api()
    api.stored[f"{RUNS}/a/results"] = body(RECORDS, tuple[Test, ...])
    if problems is not None:
        api.stored[f"{RUNS}/a/documents/problems"] = json.dumps(problems).encode()
    return api


def test_the_results_of_a_job() -> None:
    result = Program(served())("results", "list", "a")
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines == [
        ["TEST", "KPI", "VALUE", "UNIT", "STATE"],
        ["model=llama", "tput", "7.5", "tok/s", "ok"],
        ["-", "curve", "1", "points", "-", "failed"],
    ]
    assert result.stderr == ""


def test_what_could_not_be_stored_is_shown_beside_them() -> None:
    result = Program(served(["task run: not JSON"]))("results", "list", "a")
    assert "Warning: not stored: task run: not JSON" in result.stderr
    assert "tput" in result.stdout


def test_the_job_may_be_named_by_labels_or_be_the_last_one() -> None:
    api = served()
    newest = run("a")
    uid = newest.identity.uid
    for query in ("owner=me&limit=200", "label=team%3Dx&limit=1"):
        api.stored[f"{RUNS}?kind=FournosJob&phase=Succeeded&{query}"] = body(Page((newest,)), Page)
    api.stored[f"{RUNS}/{uid}/results"] = body(RECORDS, tuple[Test, ...])
    api.stored[f"{RUNS}/{uid}/artifacts"] = body([], list[Artifact])
    program = Program(api, env={"FOURNOS_OWNER": "me"})
    for name in ("@last", "team=x"):
        assert "tput" in program("results", "list", name).stdout
        assert "has no artifacts" in program("artifacts", "list", name).stderr


async def test_an_artifact_steers_no_terminal() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b"ok \xc3", b"\xbc\n\x1b]0;OWNED\x07", b"\xff\xe2\x80\xae"):
            yield piece

    shown = b"".join([piece async for piece in _inert(pieces())])
    assert shown.decode() == "ok ü\n\\x1b]0;OWNED\\x07\ufffd\\u202e"
