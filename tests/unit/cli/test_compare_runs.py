"""fournos compare and fournos trend, on answers of the history."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from fournos.cli.output import sparkline
from fournos.history.api.comparisons import Trends
from fournos.history.compare.comparison import Comparison, compare
from fournos.history.compare.differences import ComparedRun
from fournos.history.fingerprint import fingerprint
from fournos.history.records import body
from fournos.history.regressions.judge import judge
from fournos.history.regressions.series import Point, Series
from fournos.history.results.models import Kpi, Test
from tests.history import by_series
from tests.unit.cli.api import Api, Program
from tests.unit.cli.test_stored import BEGAN, RUNS, run

WHAT = fingerprint({"pipeline": "p"})


def subject(name: str, value: float) -> ComparedRun:
    kpi = Kpi(kpi_id="tput", value=value, unit="tok/s", higher_is_better=True)
    return ComparedRun(name, WHAT, (Test(kpis=(kpi,)),))


def compared(value: float) -> Api:
    first, second = subject("a", 100), subject("b", value)
    (key,) = (row.key for row in compare([first, second], {}).rows)
    noise = [Kpi(kpi_id="tput", value=100 + n % 3, unit="tok/s", higher_is_better=True) for n in range(12)]
    api = Api()
    found = compare([first, second], by_series({key: noise}))
    api.stored = {f"{RUNS}/a/results/comparison?with=b&across=false": body(found, Comparison)}
    return api


def test_a_comparison_in_each_form() -> None:
    api = compared(50)
    assert "worse" in Program(api)("compare", "a", "b").stdout
    assert json.loads(Program(api)("compare", "a", "b", "-o", "json").stdout)["runs"] == ["a", "b"]
    assert "runs:\n- a\n- b" in Program(api)("compare", "a", "b", "-o", "yaml").stdout
    assert "|KPI|unit|" in Program(api)("compare", "a", "b", "-o", "md").stdout
    assert Program(api)("compare", "a", "b", "-o", "csv").stdout.startswith("run,kpi_id,")


def test_other_commands_refuse_the_formats_of_a_comparison() -> None:
    for command, form, commands in (
        ("list", "csv", "compare, usage alone"),
        ("usage", "md", "compare alone"),
    ):
        result = Program(Api())(command, "-o", form)
        assert result.exit_code == 2
        assert commands in result.stderr


def test_a_regression_fails_only_if_asked() -> None:
    assert Program(compared(50))("compare", "a", "b").exit_code == 0
    assert Program(compared(50))("compare", "a", "b", "--fail-on", "regression").exit_code == 1
    assert Program(compared(101))("compare", "a", "b", "--fail-on", "regression").exit_code == 0


def test_one_job_is_no_comparison() -> None:
    result = Program(Api())("compare", "a")
    assert result.exit_code == 2
    assert "two jobs" in result.stderr


def trends(*values: float, measured: bool = True) -> Api:
    """`measured`: the newest point is of the job that is asked for."""
    points = tuple(Point(f"run-{n}", BEGAN + timedelta(hours=n), value) for n, value in enumerate(values))
    series = (Series("s", "tput", points, "tok/s", True, {"model": "llama"}),) if points else ()
    asked = run("a")
    if points and measured:
        points = (*points[:-1], replace(points[-1], run=asked.identity.text))
        series = (replace(series[0], points=points),)
    found = Trends(asked, series, judge(series), ())
    api = Api()
    api.stored = {f"{RUNS}/a/results/trends?kpi=": body(found, Trends)}
    return api


def test_a_trend() -> None:
    flat = [100.0 + n % 3 for n in range(12)]
    lines = Program(trends(*flat))("trend", "a").stdout.splitlines()
    assert lines[0].split() == ["KPI", "TEST", "RUNS", "NEWEST", "STATE", "TREND"]
    assert lines[1].split()[:6] == ["tput", "model=llama", "12", "102", "tok/s", "steady"]
    assert Program(trends(*flat))("trend", "a", "--fail-on", "regression").exit_code == 0
    assert Program(trends(*flat, 50.0))("trend", "a", "--fail-on", "regression").exit_code == 1
    assert "not judged yet: 1 of 10 runs" in Program(trends(1.0, 2.0))("trend", "a").stdout
    assert (
        json.loads(Program(trends(1.0))("trend", "a", "-o", "json").stdout)["series"][0]["kpi_id"] == "tput"
    )
    assert "no results" in Program(trends())("trend", "a").stderr


def test_a_gate_is_red_while_a_regression_is_open() -> None:
    api = trends(*(100.0 + n % 3 for n in range(20)), *(80.0 + n % 3 for n in range(8)))
    result = Program(api)("trend", "a", "--fail-on", "regression")
    assert result.exit_code == 1
    assert "Regression confirmed -19.9%, 7 of 10 runs since" in result.stdout
    assert Program(api)("trend", "a", "--fail-on", "new-regression").exit_code == 0


@pytest.mark.parametrize("fail_on", ["regression", "new-regression"])
def test_a_gate_is_not_green_for_a_run_that_was_not_judged(fail_on: str) -> None:
    """All of its results were refused, while those of earlier runs are steady."""
    steady = [100.0 + n % 3 for n in range(12)]
    for api in (trends(), trends(*steady, measured=False)):
        result = Program(api)("trend", "a", "--fail-on", fail_on)
        assert result.exit_code == 2
        assert "not judged: a has no results" in result.stderr
    assert Program(trends(*steady))("trend", "a", "--fail-on", fail_on).exit_code == 0


def test_a_comparison_is_not_green_for_a_run_without_values() -> None:
    first, second = subject("a", 100), ComparedRun("b", WHAT, ())
    other = ComparedRun("b", fingerprint({"pipeline": "another"}), subject("b", 100).tests)
    for found in (compare([first, second], {}), compare([first, other], {})):
        api = Api()
        api.stored = {f"{RUNS}/a/results/comparison?with=b&across=false": body(found, Comparison)}
        assert Program(api)("compare", "a", "b").exit_code == 0
        result = Program(api)("compare", "a", "b", "--fail-on", "regression")
        assert result.exit_code == 2 and "not judged: b has no results" in result.stderr


def test_a_sparkline() -> None:
    assert sparkline([]) == ""
    assert sparkline([5, 5]) == "▄▄"
    assert sparkline([0, 1, 7]) == "▁▂█"
