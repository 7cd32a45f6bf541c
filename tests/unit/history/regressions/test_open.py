"""Which changes are open, over the life of a regression."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from fournos.history.api.comparisons import Trends
from fournos.history.regressions.benchmark import FAILING, benchmark_of
from fournos.history.regressions.judge import judge
from fournos.history.regressions.review import Acknowledgement, SeriesReview, standing
from tests.unit.cli.test_stored import run
from tests.unit.history.regressions.made import at, noisy, series

GOOD = (30, 100.0)
LATER = datetime(2027, 1, 1, tzinfo=UTC)


def reviewed(
    levels: Sequence[tuple[int, float]], *, acknowledges: str = "", better: bool = True
) -> SeriesReview:
    """What is known of a series with these levels; the changes that began near a run are acknowledged."""
    values = [100 + (100 - value if not better else value - 100) for value in noisy(*levels)]
    tput = series(values, higher_is_better=better)
    report = judge([tput])
    acknowledgements = [
        Acknowledgement.of(finding, "meant", "me", LATER)
        for finding in report.findings
        if finding.run == acknowledges
    ]
    return SeriesReview(run("a"), (tput,), report, acknowledgements)


def trends(levels: Sequence[tuple[int, float]], *, acknowledges: str = "", better: bool = True) -> Trends:
    review = reviewed(levels, acknowledges=acknowledges, better=better)
    return Trends(review.run, tuple(review.series), review.report, (), {}, review.covered)


@pytest.mark.parametrize("better", [True, False])
@pytest.mark.parametrize(
    ("levels", "acknowledges", "is_open", "is_new", "state"),
    [
        ((GOOD,), "", False, False, "steady"),
        ((GOOD, (1, 80)), "", True, True, "Regression suspected"),
        ((GOOD, (2, 80)), "", True, True, "Regression suspected"),
        ((GOOD, (5, 80)), "", True, False, "Regression confirmed"),
        ((GOOD, (10, 80)), "", True, False, "Regression confirmed"),
        ((GOOD, (40, 80)), "", True, False, "Regression confirmed"),
        ((GOOD, (10, 80)), "run-030", False, False, "not judged yet: 9 of 10 runs since the change"),
        ((GOOD, (20, 80)), "run-030", False, False, "steady"),
        ((GOOD, (10, 80), (2, 100)), "", True, False, "Improvement suspected"),
        ((GOOD, (10, 80), (6, 100)), "", False, False, "Improvement confirmed"),
        ((GOOD, (10, 80), (6, 90)), "", True, False, "Improvement confirmed"),
        ((GOOD, (10, 80), (12, 100), (6, 80)), "", True, False, "Regression confirmed"),
        ((GOOD, (10, 80), (12, 100), (1, 80)), "", True, True, "Regression suspected"),
        ((GOOD, (10, 80), (12, 60)), "run-040", True, False, "Regression confirmed"),
        ((GOOD, (6, 120)), "", False, False, "Improvement confirmed"),
    ],
)  # fmt: skip
def test_the_life_of_a_regression(
    levels: Sequence[tuple[int, float]],
    acknowledges: str,
    is_open: bool,
    is_new: bool,
    state: str,
    better: bool,
) -> None:
    found = trends(levels, acknowledges=acknowledges, better=better)
    assert (found.regressed, found.newly_regressed) == (is_open, is_new)
    assert found.state_of(found.series[0]).startswith(state)
    review = reviewed(levels, acknowledges=acknowledges, better=better)
    counted = standing(review, frozenset(), at(100))
    assert ("Regression" in {kind for kind, _ in counted.groups}) == is_open, "metrics go by the same"
    row = benchmark_of(review, {}, at(100))
    assert (row.state in FAILING) == is_open, "the page of benchmarks goes by the same"


def test_an_acknowledgement_that_is_withdrawn_opens_it_again() -> None:
    levels = (GOOD, (10, 80))
    assert not trends(levels, acknowledges="run-030").regressed
    assert trends(levels).regressed


def test_a_recovery_names_its_run() -> None:
    worse, better = sorted(trends((GOOD, (10, 80), (6, 100))).report.findings, key=lambda found: found.at)
    assert (worse.recovered, better.recovered) == (better.run, "")
