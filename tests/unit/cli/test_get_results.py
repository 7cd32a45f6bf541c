"""fournos get of a job that has ended, with what it measured."""

from __future__ import annotations

from fournos.history.api.wire import body
from fournos.history.results.models import Kpi, ResultRecord
from tests.unit.cli.api import Api, Program
from tests.unit.cli.objects import job
from tests.unit.cli.test_stored import RUNS, stored


def served(*records: ResultRecord, phase: str = "Succeeded") -> Api:
    found = job("a", phase)
    api = Api(found)
    api.stored = {f"{RUNS}/{found['metadata']['uid']}/results": body(records, tuple[ResultRecord, ...])}
    return api


def test_its_results_are_shown_when_the_history_has_them() -> None:
    record = ResultRecord(kpis=(Kpi(kpi_id="tput", value=7.5, unit="tok/s"),))
    lines = Program(served(record))("get", "a").stdout.splitlines()
    place = lines.index("Results")
    assert lines[place + 1].split() == ["TEST", "KPI", "VALUE", "UNIT", "STATE"]
    assert lines[place + 2].split() == ["-", "tput", "7.5", "tok/s", "ok"]


def test_of_a_job_that_is_gone_too() -> None:
    gone = job("gone", "Failed")
    api = stored()
    record = ResultRecord(kpis=(Kpi(kpi_id="tput", value=7.5),))
    path = f"{RUNS}/{gone['metadata']['uid']}/results"
    api.stored[path] = body((record,), tuple[ResultRecord, ...])
    assert "tput" in Program(api)("get", "gone").stdout


def test_of_many_the_first_are_shown() -> None:
    record = ResultRecord(kpis=tuple(Kpi(kpi_id=f"k{n}", value=1.0) for n in range(20)))
    shown = Program(served(record))("get", "a").stdout
    assert "k11" in shown and "k12" not in shown
    assert "and 8 more: fournos results list" in shown


def test_without_results_or_history_or_before_the_end_there_is_no_section() -> None:
    assert "Results" not in Program(served())("get", "a").stdout
    assert "Results" not in Program(Api(job("a", "Succeeded")))("get", "a").stdout
    api = served(phase="Running")
    Program(api)("get", "a")
    assert not [path for _, path in api.raw_requests if path.endswith("/results")]
