"""fournos export, on answers of the history."""

from __future__ import annotations

import json
from pathlib import Path

from fournos.history.api.models import RunDetail
from fournos.history.api.wire import body
from fournos.history.artifacts.rules import Artifact
from fournos.history.logs.models import LogPage, LogPart, StoredLine
from fournos.history.results.models import Kpi, ResultRecord
from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import job
from tests.unit.cli.test_stored import BEGAN, RUNS, run


def served() -> Api:
    api = Api()
    records = (ResultRecord(kpis=(Kpi(kpi_id="tput", value=7.5),)),)
    api.stored = {
        f"{RUNS}/gone": body(RunDetail(run()), RunDetail),
        f"{RUNS}/uid-gone/documents/object": json.dumps(job("gone", "Failed")).encode(),
        f"{RUNS}/uid-gone/results": body(records, tuple[ResultRecord, ...]),
        f"{RUNS}/uid-gone/artifacts": body([Artifact("a.svg", 3, "ab", BEGAN)], list[Artifact]),
    }
    return api


def test_a_job_as_a_page(tmp_path: Path) -> None:
    file = tmp_path / "gone.html"
    result = Program(served())("export", "gone", "--html", "--to", str(file))
    assert result.exit_code == 0 and result.stdout == ""
    page = file.read_text()
    assert page.startswith("<!DOCTYPE html>") and "tput" in page and "a.svg" in page
    shown = Program(served())("export", "gone", "--html").stdout
    assert shown.startswith("<!DOCTYPE html>") and shown.endswith("</html>\n")


def test_a_job_as_data() -> None:
    found = json.loads(Program(served())("export", "gone", "-o", "json").stdout)
    assert found["run"]["name"] == "gone"
    assert found["results"][0]["kpis"][0]["value"] == 7.5
    assert list(found["documents"]) == ["object"], "what the run does not have is left out"


def test_the_last_lines_of_its_log_are_in_it() -> None:
    part = LogPart(1, "run", "step-main", "pod", 1, 5000, 9, True, False, BEGAN, None, 0)
    api = served()
    for first, limit in ((1, 1), (3001, 1000), (4001, 1000)):
        lines = tuple(StoredLine(one, 0, "", f"line {one}") for one in range(first, first + limit))
        page = LogPage((part,), lines, 5000, None, None, True)
        api.stored[f"{RUNS}/uid-gone/logs?from={first}&limit={limit}"] = body(page, LogPage)
    found = json.loads(Program(api)("export", "gone", "-o", "json").stdout)
    (log,) = found["logs"]
    assert (log["name"], log["text"].splitlines()) == ("run", [f"line {one}" for one in range(3001, 5001)])
    assert log["cut"] == "The last 2000 of 5000 lines of the run."
    page = Program(api)("export", "gone", "--html").stdout
    assert "line 5000" in page and "The last 2000 of 5000 lines" in page


def test_the_format_is_required() -> None:
    for words in ((), ("--html", "-o", "json"), ("-o", "json", "--to", "x")):
        result = Program(served())("export", "gone", *words)
        assert result.exit_code == 2 and "Fix" in result.stderr
    assert Program(served())("export", "nothing", "--html").exit_code == 5
