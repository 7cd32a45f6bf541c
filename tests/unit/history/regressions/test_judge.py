"""The verdict on the newest run: suspected, confirmed, refuted, or not enough history."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fournos.history.regressions.change_points import noise
from fournos.history.regressions.judge import judge
from fournos.history.regressions.series import Basis, Kind, SeriesState
from tests.unit.history.regressions.made import noisy, repeated, series


def test_a_steady_series_has_no_finding() -> None:
    found = judge([series(noisy((40, 100)))])
    assert (found.findings, found.short) == ((), ())


@pytest.mark.parametrize(
    ("higher_is_better", "newest", "kind"),
    [
        (True, 80, Kind.REGRESSION),
        (True, 120, Kind.IMPROVEMENT),
        (False, 120, Kind.REGRESSION),
        (False, 80, Kind.IMPROVEMENT),
        (None, 80, Kind.CHANGE),
    ],
)
def test_the_newest_run_is_suspected(higher_is_better: bool | None, newest: float, kind: Kind) -> None:
    values = [*noisy((30, 100)), newest]
    (found,) = judge([series(values, higher_is_better=higher_is_better)]).findings
    assert (found.kind, found.state, found.basis) == (kind, SeriesState.SUSPECTED, Basis.NEWEST)
    assert found.run == "run-030"
    assert found.change == pytest.approx((newest - 100) / 100, abs=0.02)


def test_nine_comparable_runs_are_not_enough() -> None:
    found = judge([series([*noisy((9, 100)), 50])])
    assert found.findings == ()
    assert [str(short) for short in found.short] == ["not judged yet: 9 of 10 runs"]
    assert judge([series([*noisy((10, 100)), 50])]).findings


def test_small_changes_of_a_quiet_series_are_no_regression() -> None:
    quiet = noisy((30, 100), cv=0.0005)
    assert judge([series([*quiet, 97.5])]).findings == ()
    assert judge([series([*quiet, 96.5])]).findings


def test_zero_spread() -> None:
    assert judge([series([5.0] * 20)]).findings == ()
    (found,) = judge([series([5.0] * 20 + [5.5])]).findings
    assert found.kind is Kind.IMPROVEMENT
    (errors,) = judge([series([0.0] * 20 + [3.0], higher_is_better=False)]).findings
    assert (errors.kind, errors.change) == (Kind.REGRESSION, None)


def test_repeats_confirm_or_refute() -> None:
    base = series([*noisy((30, 100)), 80])
    (one,) = judge([repeated(base, 81)]).findings
    assert (one.state, one.basis) == (SeriesState.SUSPECTED, Basis.NEWEST)
    (refuted,) = judge([repeated(base, 99, 101)]).findings
    assert (refuted.state, refuted.basis) == (SeriesState.REFUTED, Basis.REPEATS)
    (other_side,) = judge([repeated(base, 120, 125)]).findings
    assert other_side.state is SeriesState.REFUTED
    confirmed = judge([repeated(base, 81, 79)]).findings
    assert SeriesState.CONFIRMED in {found.state for found in confirmed}
    assert {found.run for found in confirmed} == {"run-030"}


def test_repeats_confirm_what_is_too_noisy_for_a_change_point() -> None:
    base = series([*noisy((30, 100), cv=0.04), 82])
    (found,) = judge([repeated(base, 84, 83)]).findings
    assert (found.state, found.basis, found.after) == (SeriesState.CONFIRMED, Basis.REPEATS, 83) or (
        found.basis is Basis.CHANGE_POINT
    )


def test_later_runs_make_a_change_point() -> None:
    values = noisy((30, 100), (4, 85))
    found = judge([series(values)])
    (point,) = found.findings
    assert (point.state, point.basis, point.run) == (SeriesState.CONFIRMED, Basis.CHANGE_POINT, "run-030")
    assert point.p is not None
    assert point.p < 0.001
    assert [short.points for short in found.short] == [3], "the new level has a history of its own"


def test_the_history_begins_at_the_last_change() -> None:
    """Without that, the newest run would be compared with a level that is gone."""
    values = [*noisy((30, 100), (15, 80)), 100.0]
    newest, earlier = judge([series(values)]).findings
    assert (newest.kind, newest.basis) == (Kind.IMPROVEMENT, Basis.NEWEST)
    assert 78 < newest.before < 82
    assert (earlier.kind, earlier.basis) == (Kind.REGRESSION, Basis.CHANGE_POINT)


def test_many_kpis_are_judged_more_strictly() -> None:
    quiet = noisy((30, 100), seed=3)
    spread = noise(quiet)
    edge = series([*quiet, spread.centre - 4 * spread.sigma], "edge")
    assert judge([edge]).findings
    others = [series(noisy((31, 100), seed=seed), f"kpi-{seed}") for seed in range(100, 160)]
    assert not [found for found in judge([edge, *others]).findings if found.kpi_id == "edge"]
    clear = series([*quiet, 60], "clear")
    assert [found.kpi_id for found in judge([clear, *others]).findings] == ["clear"]


def test_false_alarms_of_a_run_with_many_kpis() -> None:
    """A run of 20 KPIs of pure noise alarms about as seldom as one of a single KPI."""
    alarms = 0
    for run in range(50):
        all_series = [series(noisy((31, 100), seed=run * 100 + kpi), f"k{kpi}") for kpi in range(20)]
        newest = [found for found in judge(all_series).findings if found.basis is Basis.NEWEST]
        alarms += bool(newest)
    assert alarms <= 4


def test_a_slow_change_is_found_by_the_pinned_baseline() -> None:
    """Each step is within noise, and a moving history moves with it."""
    values = [100 * 0.997**index * (1 + 0.01 * (-1) ** index) for index in range(40)]
    without = judge([series(values[:12])])
    assert without.findings == ()
    found = [
        one for one in judge([series(values)], {"throughput": 100.0}).findings if one.basis is Basis.BASELINE
    ]
    assert [(one.kind, one.state) for one in found] == [(Kind.REGRESSION, SeriesState.SUSPECTED)]
    assert found[0].before == 100
    assert not judge([series(noisy((30, 100)))], {"throughput": 100.0}).findings


def test_recalculation_gives_the_same() -> None:
    all_series = [series(noisy((30, 100), (5, 80), seed=seed), f"k{seed}") for seed in range(5)]
    assert judge(all_series) == judge([replace(one) for one in all_series])


def test_series_without_points_are_passed_over() -> None:
    assert judge([series([])]).findings == ()
    assert judge([]).short == ()
