"""One alert a cause; acknowledgements that survive; series gone silent."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from fournos.history.regressions.judge import judge
from fournos.history.regressions.review import Acknowledgement, covering
from fournos.history.regressions.series import Kind, Series, SeriesState, group, runs_in_order, silences
from tests.unit.history.regressions.made import at, noisy, series


def test_findings_of_one_run_make_one_group() -> None:
    all_series = [
        series(noisy((30, 100), (8, 90), seed=1), "throughput"),
        series(noisy((30, 20), (8, 26), seed=2), "latency", higher_is_better=False),
        series(noisy((30, 5), (8, 6), seed=3), "memory", higher_is_better=None),
        series(noisy((15, 5), (23, 6), seed=4), "cache"),
    ]
    findings = judge(all_series).findings
    groups = group(findings, runs_in_order(all_series))
    assert [[found.kpi_id for found in one.findings] for one in groups] == [
        ["latency", "throughput", "memory"],
        ["cache"],
    ]
    first, second = groups
    assert (first.kind, first.state, first.run) == (Kind.REGRESSION, SeriesState.CONFIRMED, "run-030")
    assert str(first).startswith("Regression confirmed: latency +29.")
    assert str(first).endswith(" and 2 more KPIs")
    assert second.kind is Kind.IMPROVEMENT


def test_changes_of_neighbouring_runs_make_one_group() -> None:
    one = series(noisy((30, 100), (8, 80), seed=1), "a")
    two = series(noisy((31, 100), (7, 80), seed=2), "b")
    findings = judge([one, two]).findings
    (joined,) = group(findings, runs_in_order([one, two]))
    assert (joined.run, len(joined.findings)) == ("run-030", 2)


def test_a_change_from_zero_is_reported() -> None:
    errors = series([0.0] * 20 + [3.0], "errors", higher_is_better=False)
    (found,) = group(judge([errors]).findings, runs_in_order([errors]))
    assert str(found) == "Regression suspected: errors from 0"


def grown(values: list[float], length: int) -> Series:
    return series(values[:length])


def test_an_acknowledgement_survives_every_recalculation() -> None:
    """From the first suspicion on: whatever the later runs make of it, it stays acknowledged."""
    for seed in range(12):
        values = noisy((30, 100), (30, 88), seed=seed, cv=0.025)
        length = next(n for n in range(31, 60) if judge([grown(values, n)]).findings)
        start = grown(values, length)
        (first,) = judge([start]).findings
        known = [Acknowledgement.of(first, "wanted: safer defaults", "me", at(99))]
        for now in range(length, 61):
            current = grown(values, now)
            for finding in judge([current]).findings:
                if abs(int(finding.run[4:]) - 30) <= 2:
                    assert covering(finding, current, known), (seed, now, finding)
        assert any(abs(int(one.run[4:]) - 30) <= 2 for one in judge([current]).findings), seed


def test_it_covers_neither_another_direction_nor_another_time_nor_another_series() -> None:
    current = series(noisy((30, 100), (20, 80), (20, 100)))
    back, down = judge([current]).findings
    known = [Acknowledgement.of(down, "known", "me", at(99))]
    assert covering(down, current, known)
    assert not covering(back, current, known)
    later = replace(down, run="run-035", at=at(35))
    assert not covering(later, current, known)
    assert not covering(replace(down, series="other"), current, known)


def test_it_survives_the_deletion_of_old_runs() -> None:
    current = series(noisy((30, 100), (20, 80)))
    (down,) = judge([current]).findings
    known = [Acknowledgement.of(down, "known", "me", at(99))]
    kept = replace(current, points=current.points[20:])
    (again,) = judge([kept]).findings
    assert covering(again, kept, known)


def test_the_newest_reason_counts_and_there_must_be_one() -> None:
    current = series(noisy((30, 100), (20, 80)))
    (down,) = judge([current]).findings
    known = [Acknowledgement.of(down, text, "me", at(day)) for text, day in (("b", 99), ("a", 90))]
    found = covering(down, current, known)
    assert found
    assert found.reason == "b"
    with pytest.raises(ValueError, match="needs a reason"):
        Acknowledgement.of(down, "  ", "me", at(1))


def test_a_series_gone_silent() -> None:
    daily = series(noisy((20, 100)))
    last = daily.points[-1].at
    assert silences([daily], last + timedelta(days=3)) == {}
    late = silences([daily], last + timedelta(days=3, minutes=1))
    assert late == {daily.id: "no run for 3d; there was one every 1d or sooner"}


def test_irregular_and_frequent_series() -> None:
    days = [0, 1, 2, 9, 10, 11, 20, 21, 22, 30]
    points = tuple(replace(series([1.0]).points[0], run=f"r{day}", at=at(day)) for day in days)
    weekly = replace(series([]), points=points)
    assert silences([weekly], at(30 + 20)) == {}
    assert silences([weekly], at(30 + 30))
    minutes = tuple(replace(point, at=at(0) + timedelta(minutes=i)) for i, point in enumerate(points))
    often = replace(weekly, points=minutes)
    assert silences([often], at(0) + timedelta(hours=20)) == {}, "a night is not a silence"
    assert silences([series(noisy((4, 100)))], at(900)) == {}, "too few runs to know an interval"


def test_a_kpi_that_the_newest_run_lacks() -> None:
    full = series(noisy((20, 100)), "throughput")
    part = series(noisy((19, 100)), "latency")
    assert silences([full, part], at(20)) == {part.id: "the newest run has no latency"}
    often_missing = replace(part, points=(*part.points[:17], part.points[18]))
    assert silences([full, often_missing], at(20)) == {}
