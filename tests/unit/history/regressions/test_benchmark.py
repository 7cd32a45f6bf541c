"""How a benchmark stands: its state, what its newest values are compared with, and where it began."""

from __future__ import annotations

from datetime import timedelta

import pytest

from fournos.history.regressions.benchmark import SHOWN, Benchmark, BenchmarkState, benchmark_of, in_order
from fournos.history.regressions.judge import judge
from fournos.history.regressions.review import Acknowledgement, Baseline, SeriesReview
from fournos.history.regressions.series import Series
from tests.unit.cli.test_stored import run
from tests.unit.history.regressions.made import START, at, noisy, series

GOOD = noisy((30, 100.0))
WORSE = noisy((30, 100.0), (8, 80.0))


def of(
    *measured: Series, day: int = 40, pinned: float | None = None, acknowledged: bool = False
) -> Benchmark:
    values = {measured[0].id: pinned} if pinned is not None else {}
    report = judge(measured, values)
    notes = [Acknowledgement.of(finding, "meant", "me", START) for finding in report.findings]
    baseline = Baseline(run("pinned"), START, "me", "") if pinned is not None else None
    review = SeriesReview(run("newest"), measured, report, notes if acknowledged else [], baseline, values)
    return benchmark_of(review, {"run-030": "nightly-30"}, at(day))


@pytest.mark.parametrize(
    ("values", "day", "state"),
    [
        (GOOD, 31, BenchmarkState.STEADY),
        (WORSE, 40, BenchmarkState.REGRESSION),
        ([*GOOD, 60.0], 32, BenchmarkState.SUSPECTED),
        (GOOD, 90, BenchmarkState.SILENT),
        (GOOD[:4], 5, BenchmarkState.NOT_JUDGED),
        (noisy((30, 100.0), (6, 130.0)), 36, BenchmarkState.STEADY),
    ],
)
def test_states(values: list[float], day: int, state: BenchmarkState) -> None:
    assert of(series(values), day=day).state is state


def test_a_regression_names_where_it_began_and_the_run_before() -> None:
    row = of(series(WORSE), series(GOOD, "latency"))
    assert (row.since, row.since_name, row.before) == ("run-030", "nightly-30", "run-029")
    assert [kpi.kpi_id for kpi in row.kpis] == ["throughput", "latency"], "what is worse comes first"
    (kpi, _) = row.kpis
    assert kpi.reference is not None and abs(kpi.reference - 100) < 3
    assert kpi.change is not None and kpi.change < -0.15
    assert kpi.text.startswith("Regression confirmed -")


def test_what_is_acknowledged_asks_for_nobody() -> None:
    row = of(series(WORSE), acknowledged=True)
    assert (row.state, row.since, row.before) == (BenchmarkState.STEADY, "", "")


def test_the_pinned_baseline_is_the_reference() -> None:
    row = of(series([*GOOD[:12], 100.0]), day=13, pinned=50.0)
    assert (row.kpis[0].reference, row.kpis[0].change, row.baseline) == (50.0, 1.0, "pinned")


def test_a_first_run_is_compared_with_nothing() -> None:
    (kpi,) = of(series([3.0]), day=1).kpis
    assert (kpi.reference, kpi.change, kpi.values) == (None, None, (3.0,))


def test_without_a_scalar_it_is_not_judged() -> None:
    row = of(series([]))
    assert (row.state, row.kpis, row.runs) == (BenchmarkState.NOT_JUDGED, (), 0)


def test_the_newest_values_are_shown() -> None:
    values = noisy((60, 100.0))
    (kpi,) = of(series(values), day=61).kpis
    assert kpi.values == tuple(values[-SHOWN:])


def test_a_silent_benchmark_says_why() -> None:
    assert "no run for" in of(series(GOOD), day=90).silence
    assert of(series(GOOD), day=30).silence == ""


def test_what_asks_for_somebody_comes_first() -> None:
    quiet, bad = of(series(GOOD), day=30), of(series(WORSE))
    silent = of(series(GOOD, points=()), series(GOOD), day=int(timedelta(days=90).days))
    assert in_order([quiet, silent, bad]) == [bad, silent, quiet]


def test_the_noise_is_that_of_the_present_level() -> None:
    (steady,) = of(series(noisy((30, 100.0), cv=0.01)), day=30).kpis
    assert steady.noise is not None and 0.02 < steady.noise < 0.06
    (worse,) = of(series(noisy((30, 100.0), (20, 50.0), cv=0.01)), day=50).kpis
    assert worse.noise is not None and worse.noise < 0.06, "not that of both levels"
    (few,) = of(series([1.0, 2.0]), day=2).kpis
    assert few.noise is None
    (zero,) = of(series([0.0] * 20), day=20).kpis
    assert zero.noise is None
