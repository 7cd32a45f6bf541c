"""The KPIs of a run beside the run before it and the baseline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fournos.history.api.comparisons import Trends
from fournos.history.regressions.judge import judge
from fournos.history.regressions.review import Baseline
from fournos.history.regressions.series import Point, Series
from fournos.history.results.models import Kpi, Test, series_id
from fournos.web.runs.results import NOTHING, KpiCourse, courses, shown_results
from tests.history import a_run, at

NS = "bench"
KPI = Kpi(kpi_id="tput", value=1, unit="tok/s", higher_is_better=True)
RECORD = Test(labels={"m": "x"}, kpis=(KPI,))


def of(number: int) -> str:
    return f"here/{NS}/u{number}"


def trends(*values: float, **fields: Any) -> Trends:
    points = tuple(Point(of(number), at(number * 3600), value) for number, value in enumerate(values))
    newest, uid = a_run(len(values) - 1, fingerprint="f"), f"u{len(values) - 1}"
    series = (Series(series_id("f", RECORD, KPI), "tput", points, "tok/s", True, {"m": "x"}),)
    run = replace(newest, identity=replace(newest.identity, cluster="here", namespace=NS, uid=uid))
    return Trends(run, series, judge(series), (), **fields)


STEP = [100.0 + number % 3 for number in range(20)] + [80.0 + number % 3 for number in range(8)]


def course(found: Trends, number: int) -> KpiCourse:
    shown = courses(found, of(number), NS).of(RECORD, KPI)
    assert shown is not None
    return shown


def test_a_run_is_compared_with_the_one_before_it() -> None:
    found = courses(trends(*STEP), of(20), NS)
    assert found.compare_before == "/compare?job=bench/u19&job=bench/u20"
    assert course(trends(*STEP), 20).before == "-20.8% from 101 tok/s"
    assert course(trends(*STEP), 20).state == "Regression confirmed", "it began with this run"
    assert course(trends(*STEP), 22).state == "", "the newest run has the state of the series"
    assert course(trends(*STEP), 27).state.startswith("Regression confirmed -19")
    assert course(trends(*STEP), 27).trend == "/trends/bench/u27?kpi=tput"


def test_and_with_the_baseline() -> None:
    plain = trends(*STEP)
    pinned = replace(plain.run, identity=replace(plain.run.identity, uid="u3"))
    values = {plain.series[0].id: 50.0}
    found = replace(plain, baseline=Baseline(pinned, at(0), "ann", ""), baseline_values=values)
    assert course(found, 0).baseline == "+100.0% from 50 tok/s"
    assert courses(found, of(0), NS).compare_baseline == "/compare?job=bench/u3&job=bench/u0"
    assert course(found, 3).baseline == "" and courses(found, of(3), NS).compare_baseline == ""


def test_a_first_run_and_one_that_is_no_point() -> None:
    assert course(trends(5.0), 0).before == ""
    assert courses(trends(5.0), of(0), NS).compare_before == ""
    assert courses(trends(5.0), of(7), NS).of(RECORD, KPI) is None
    assert courses(None, of(0), NS) == NOTHING


def test_the_results_have_the_course_of_each_kpi() -> None:
    found = shown_results([RECORD], courses(trends(4.0, 5.0), of(1), NS))
    (scalar,) = found.tests[0].scalars
    assert scalar.course is not None and scalar.course.before == "+25.0% from 4 tok/s"
