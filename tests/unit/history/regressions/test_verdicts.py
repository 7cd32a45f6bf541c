"""What people decided on findings: distances from a baseline, the run that is meant, and how it is shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fournos.history.regressions.benchmark import lines
from fournos.history.regressions.judge import judge
from fournos.history.regressions.review import Acknowledgement, baseline_values, covering, near
from fournos.history.regressions.series import Basis, Finding, group, runs_in_order
from fournos.history.results.models import Kpi, Test, series_id
from tests.unit.history.regressions.made import at, noisy, series

STEP = series(noisy((30, 100), (20, 80)))


def drift(length: int) -> Finding:
    slow = series([100 - index * 0.3 + index % 3 for index in range(length)])
    return next(one for one in judge([slow], {slow.id: 100.0}).findings if one.basis is Basis.BASELINE)


def test_a_distance_from_the_baseline_stays_acknowledged_while_it_grows() -> None:
    known = [Acknowledgement.of(drift(30), "cheaper", "me", at(50))]
    for length in range(30, 60):
        current = series([100 - index * 0.3 + index % 3 for index in range(length)])
        assert covering(drift(length), current, known), length
    assert covering(drift(59), current, known, at(50))
    assert not covering(drift(59), current, known, at(51)), "the baseline was pinned after that"
    earlier = [replace(known[0], at=at(58))]
    assert not covering(drift(40), current, earlier), "it was acknowledged of a later change"


@pytest.mark.parametrize(("number", "meant"), [(27, False), (28, True), (30, True), (32, True), (33, False)])
def test_the_run_that_a_person_names(number: int, meant: bool) -> None:
    findings = judge([STEP]).findings
    assert findings[0].run == "run-030"
    assert bool(near(findings, [STEP], f"run-{number:03}")) is meant
    assert near(findings, [STEP], "run-999") == []


def test_of_a_distance_from_the_baseline_any_of_the_newest_runs_is_meant() -> None:
    slow = series([100 - index * 0.3 + index % 3 for index in range(40)])
    assert near([drift(40)], [slow], "run-039")
    assert not near([drift(40)], [slow], "run-020")


def test_lines_name_the_run_and_who_acknowledged_it() -> None:
    other = series(noisy((30, 20), (20, 10), seed=3), "memory")
    findings = judge([STEP, other]).findings
    groups = group(findings, runs_in_order([STEP, other]))
    assert lines(groups) == [str(groups[0])]
    assert lines(groups, {"run-030": "nightly-7"})[0].endswith(" since nightly-7")
    made = {one.id: Acknowledgement.of(one, "wanted", "ann", at(60)) for one in findings}
    assert lines(groups, {}, made)[0].endswith("; acknowledged by ann: wanted")
    one = dict(list(made.items())[:1])
    assert lines(groups, {}, one)[0].endswith("; 1 of them acknowledged by ann: wanted")


def test_the_values_of_a_baseline_are_the_medians_of_its_tests() -> None:
    def test(value: float, **fields: object) -> Test:
        return Test.model_validate({"kpis": (Kpi(kpi_id="t", value=value),), **fields})

    curve = Test(kpis=(Kpi(kpi_id="c", values=((1.0, 2.0),)),))
    records = [test(1, run_id="a"), test(5, run_id="b"), test(6, run_id="c"), test(99, success=False), curve]
    name = series_id("f", records[0], records[0].kpis[0])
    assert baseline_values("f", records) == {name: 5}
