"""What there is to tell of a fingerprint, each cause once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from fournos.engine.runtime.metrics import RUNTIME, Metrics
from fournos.history import metrics as table
from fournos.history.regressions.judge import judge
from fournos.history.regressions.review import (
    CONFIRMING,
    Acknowledgement,
    SeriesReview,
    Standing,
    standing,
)
from fournos.history.regressions.series import Point, Series
from fournos.systems.schedules.names import SCHEDULE_LABEL
from tests.unit.cli.test_stored import run

NOW = datetime(2026, 1, 20, tzinfo=UTC)
QUIET = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 100.8, 99.2, 100.1, 99.9, 100.4, 99.6]


def series(*values: float, name: str = "tput", better: bool | None = True) -> Series:
    """The newest value is of an hour ago; there is one each hour."""
    points = tuple(
        Point(f"c/n/{index}", NOW - timedelta(hours=len(values) - index), value)
        for index, value in enumerate(values)
    )
    return Series(name, name, points, "s", better)


def of(
    *found: Series,
    known: tuple[Acknowledgement, ...] = (),
    under_way: frozenset[str] = frozenset(),
    now: datetime = NOW,
) -> Standing:
    return standing(SeriesReview(run("newest"), found, judge(found), known), under_way, now)


def test_a_suspicion_is_held_while_its_reruns_are_under_way() -> None:
    bad = series(*QUIET, 60.0)
    assert of(bad).groups == (("Regression", "Suspected"),)
    assert of(bad, under_way=frozenset({"c/n/12"})).groups == (("Regression", CONFIRMING),)
    assert of(bad, under_way=frozenset({"c/n/3"})).groups == (("Regression", "Suspected"),)


def test_one_cause_of_many_kpis_counts_once_and_improvements_count() -> None:
    both = (series(*QUIET, 60.0), series(*QUIET, 60.0, name="other"))
    assert of(*both).groups == (("Regression", "Suspected"),)
    assert of(series(*QUIET, 160.0)).groups == (("Improvement", "Suspected"),)
    assert of(series(*QUIET, 160.0, better=None)).groups == (("Change", "Suspected"),)


def test_what_is_acknowledged_is_quiet() -> None:
    bad = series(*QUIET, 60.0)
    (finding,) = judge([bad]).findings
    assert of(bad, known=(Acknowledgement.of(finding, "meant", "me", NOW),)).groups == ()


@pytest.mark.parametrize(("newest", "kind"), [(60.0, "Regression"), (160.0, "Improvement")])
def test_only_a_regression_stays_for_longer_than_two_weeks(newest: float, kind: str) -> None:
    changed = series(*QUIET, newest)
    assert of(changed).groups == ((kind, "Suspected"),)
    later = of(changed, now=NOW + timedelta(days=15)).groups
    assert later == (((kind, "Suspected"),) if kind == "Regression" else ())


def test_a_series_gone_silent() -> None:
    assert of(series(*QUIET), now=NOW + timedelta(days=3)).silent == 1


def test_the_schedule_is_that_of_the_newest_run() -> None:
    newest = replace(run("newest"), labels={SCHEDULE_LABEL: "nightly"})
    found = [series(*QUIET)]
    assert standing(SeriesReview(newest, found, judge(found), ()), frozenset(), NOW).schedule == "nightly"


def test_the_metrics_by_namespace_and_those_of_a_namespace_that_is_gone() -> None:
    metrics = Metrics((*RUNTIME, *table.METRICS))
    silent = [Standing(silent=1), Standing(silent=4, schedule="nightly"), Standing(schedule="weekly")]
    found = {"perf": [Standing((("Regression", "Confirmed"),), silent=2), *silent]}
    table.report_changes(metrics, found)
    assert metrics.value("fournos_history_changes", "perf", "Regression", "Confirmed") == 1
    assert metrics.value("fournos_history_changes", "perf", "Improvement", "Confirmed") == 0
    fed_by = ("", "nightly", "weekly")
    assert [metrics.value("fournos_history_silent_series", "perf", name) for name in fed_by] == [3, 4, 0]
    table.report_changes(metrics, {"other": []})
    assert b'job_namespace="perf"' not in metrics.render()
