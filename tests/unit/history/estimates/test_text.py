"""Estimates as people read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from fournos.history.estimates.simulate import Estimate, Range, WouldStart
from fournos.history.estimates.text import answer, sentence, when

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def within(median: float, p90: float) -> Range:
    return Range(NOW + timedelta(minutes=median), NOW + timedelta(minutes=p90))


def test_a_range_from_now_on() -> None:
    assert when(within(5, 90), NOW) == "in 5m (90%: 1h30m)"
    assert when(within(5, 5), NOW) == "in 5m"
    assert when(within(-5, 5), NOW) == "in 0s (90%: 5m)", "a cached estimate may be a little old"
    assert when(None, NOW) == "-"


def test_one_sentence() -> None:
    whole = Estimate(within(5, 9), within(60, 70), "12 runs of the same fingerprint")
    assert sentence(whole, NOW) == (
        "Starts in 5m (90%: 9m); ends in 1h (90%: 1h10m); from 12 runs of the same fingerprint."
    )
    assert sentence(Estimate(within(5, 9), None, reason="not enough history"), NOW) == (
        "Starts in 5m (90%: 9m); no estimate of the end: not enough history."
    )
    assert sentence(Estimate(None, None, reason="its queue is stopped"), NOW) == (
        "No estimate of the start: its queue is stopped."
    )


def test_a_job_that_is_not_submitted() -> None:
    assert answer(WouldStart(True, "c-1", Estimate(within(0, 0), None, reason="x")), NOW) == (
        "It would start now on c-1. No estimate of the end: x."
    )
    assert answer(WouldStart(False, "", Estimate(within(5, 9), None, reason="x")), NOW).startswith(
        "It would wait. Starts in 5m (90%: 9m)"
    )
