"""Statistics, verdicts and messages of every number that the history accepts."""

from __future__ import annotations

import json
import math
import sys
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fournos.history.alerts.news import NewsContext, body, due, note
from fournos.history.api.comparisons import Trends
from fournos.history.compare.comparison import compare
from fournos.history.compare.differences import ComparedRun
from fournos.history.compare.formats import FORMATS
from fournos.history.fingerprint import Fingerprint
from fournos.history.records import body as as_body
from fournos.history.regressions.benchmark import Benchmark, benchmark_of
from fournos.history.regressions.judge import judge
from fournos.history.regressions.review import SeriesReview
from fournos.history.regressions.series import Point, Series
from fournos.history.results.models import MAX_VALUE
from fournos.history.results.read import read_value
from tests.history import a_run, by_series, measured_value

NOW = datetime(2026, 1, 20, tzinfo=UTC)
TINY = sys.float_info.min
EXTREMES = (MAX_VALUE, -MAX_VALUE, MAX_VALUE / 3, TINY, -TINY, 1e-200, 0.0, 1.0, 100.0, 100.1, 1e16, 1e16 + 2)

accepted = st.floats(-MAX_VALUE, MAX_VALUE, allow_subnormal=False)
values = st.lists(st.one_of(st.sampled_from(EXTREMES), accepted), min_size=1, max_size=60)
steps = st.tuples(st.sampled_from(EXTREMES), st.sampled_from(EXTREMES)).map(
    lambda pair: [pair[0]] * 15 + [pair[1]] * 8
)


def series(found: list[float], better: bool | None) -> Series:
    points = tuple(
        Point(f"c/n/{index}", NOW - timedelta(hours=len(found) - index), value)
        for index, value in enumerate(found)
    )
    return Series("s", "kpi", points, "s", better)


@settings(max_examples=150, deadline=None)
@given(st.one_of(values, steps), st.sampled_from([True, False, None]), st.one_of(st.none(), accepted))
@example([1.0, MAX_VALUE, 1.0], False, None)
@example([TINY] * 15 + [MAX_VALUE] * 8, True, TINY)
def test_any_accepted_numbers_are_judged_and_told(
    found: list[float], better: bool | None, pinned: float | None
) -> None:
    one = series(found, better)
    report = judge([one], {} if pinned is None else {"s": pinned})
    for finding in report.findings:
        assert math.isfinite(finding.before) and math.isfinite(finding.after)
        assert finding.change is None or math.isfinite(finding.change)
        assert finding.p is None or 0 <= finding.p <= 1
    review = SeriesReview(a_run(), [one], report)
    row = benchmark_of(review, {}, NOW)
    json.loads(as_body(row, Benchmark))
    json.loads(as_body(Trends(a_run(), (one,), report, ()), Trends))
    assert all(kpi.noise is None or math.isfinite(kpi.noise) for kpi in row.kpis)
    for news in due(review, [], NOW):
        json.loads(body(news, NewsContext(a_run())))
        assert note(news, NewsContext(a_run()))


@settings(max_examples=80, deadline=None)
@given(accepted, st.one_of(st.sampled_from(EXTREMES), accepted), values)
@example(TINY, MAX_VALUE, [TINY] * 12)
def test_any_accepted_numbers_are_compared(first: float, second: float, earlier: list[float]) -> None:
    runs = [
        ComparedRun(f"r{place}", Fingerprint(), (measured_value("kpi", value),))
        for place, value in enumerate((first, second))
    ]
    past = by_series({}) | {next(iter(_series(first))): earlier}
    found = compare(runs, past)
    for form in FORMATS.values():
        assert form(found)


def _series(value: float) -> dict[str, list[float]]:
    from fournos.history.compare.comparison import RowKey

    return by_series({RowKey("kpi"): measured_value("kpi", value).kpis})


@pytest.mark.parametrize(
    ("given_", "taken"), [(5e-324, 0.0), (-1e-310, 0.0), (1e100, 1e100), (TINY, TINY), (1.0, 1.0)]
)
def test_denormal_numbers_are_zero(given_: float, taken: float) -> None:
    (test,) = read_value({"kpis": [{"kpi_id": "a", "value": given_}]}).tests
    assert test.kpis[0].value == taken


@pytest.mark.parametrize("value", [1.0001e100, -1e155, sys.float_info.max])
def test_numbers_beyond_the_bound_are_refused(value: float) -> None:
    for kpi in ({"value": value}, {"values": [[1.0, value]]}):
        (problem,) = read_value({"kpis": [{"kpi_id": "a", **kpi}]}).problems
        assert "must be from -1e+100 to 1e+100" in str(problem)
