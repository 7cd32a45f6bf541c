"""The waiting ledger: every second between submission and run has a reason, whatever is observed and when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fournos.api.phase import Cause
from fournos.history.recorder.ledger import (
    INTERVALS_MAX,
    Observation,
    WaitReason,
    Waits,
    advance,
    observe,
    reason_of,
    unobserved,
)
from fournos.history.records import Interval
from fournos.insight.explanation import Explanation

T0 = datetime(2030, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def look(now: float, cause: Cause | None = Cause.QUOTA, text: str = "", **fields: object) -> Observation:
    reason = WaitReason(cause, text) if cause is not None else None
    return Observation(at(now), T0, reason, **fields)  # type: ignore[arg-type]


def told(waits: Waits) -> list[tuple[float, float | None, Cause]]:
    return [
        (
            (one.start - T0).total_seconds(),
            (one.end - T0).total_seconds() if one.end is not None else None,
            one.cause,
        )
        for one in waits
    ]


def through(*looks: Observation) -> Waits:
    waits: Waits = ()
    for one in looks:
        waits = advance(waits, one, ran_before=False)
    return waits


def test_the_ledger_of_a_life() -> None:
    waits = through(
        look(0.4, Cause.OPERATOR),
        look(2, Cause.RESOLVER),
        look(9, Cause.LOCK, "j2 has locked c1"),
        look(10, Cause.LOCK, "j2 has locked c1"),
        look(60, Cause.LOCK, "j3 has locked c1"),
        look(90, Cause.DISPATCH),
        look(92, None, started_at=at(91)),
    )
    assert told(waits) == [
        (0, 2, Cause.OPERATOR),
        (2, 9, Cause.RESOLVER),
        (9, 60, Cause.LOCK),
        (60, 90, Cause.LOCK),
        (90, 91, Cause.DISPATCH),
    ]
    assert waits[3].text == "j3 has locked c1"


def test_what_is_seen_after_the_start_is_cut_off() -> None:
    """The start has the node's clock and whole seconds: it may lie before the look that saw the wait."""
    waits = through(look(1, Cause.QUOTA), look(10.7, Cause.IMAGE_PULL), look(11, None, started_at=at(10)))
    assert told(waits) == [(0, 10, Cause.QUOTA)]


def test_a_start_before_the_submission_leaves_no_negative_wait() -> None:
    assert through(look(1), look(2, None, started_at=at(-5))) == ()


def test_a_run_that_is_stopped_waited_to_its_end() -> None:
    waits = through(look(1, Cause.QUOTA), look(5, None), look(9, None, ended_at=at(8)))
    assert told(waits) == [(0, 8, Cause.QUOTA)]


def test_the_time_without_a_recorder_is_unknown_but_for_what_the_object_shows() -> None:
    times = {"resolving": "2030-01-01T00:00:02Z", "pending": "2030-01-01T00:00:05Z"}
    first = through(look(1, Cause.OPERATOR))
    waits = advance(first, look(30, Cause.QUOTA, gap=(at(1.5), at(30)), times=times), ran_before=False)
    assert told(waits) == [
        (0, 1.5, Cause.OPERATOR),
        (1.5, 2, Cause.OPERATOR),
        (2, 5, Cause.RESOLVER),
        (5, 30, Cause.UNKNOWN),
        (30, None, Cause.QUOTA),
    ]
    assert "The recorder did not run" in waits[3].text


def test_a_job_that_ran_unseen_has_a_ledger_too() -> None:
    times = {"pending": "2030-01-01T00:00:05Z", "running": "2030-01-01T00:00:20Z"}
    (waits,) = [advance((), look(90, None, started_at=at(22), times=times), ran_before=False)]
    assert told(waits) == [(0, 5, Cause.OPERATOR), (5, 20, Cause.UNKNOWN), (20, 22, Cause.UNKNOWN)]


def test_after_a_first_start_later_waits_are_added() -> None:
    waits = through(look(1), look(11, None, started_at=at(10)))
    waits = advance(waits, look(100, Cause.RETRY, started_at=at(10)), ran_before=True)
    waits = advance(waits, look(130, None, started_at=at(10)), ran_before=True)
    assert told(waits) == [(0, 10, Cause.QUOTA), (100, 130, Cause.RETRY)]


def test_a_text_that_never_rests_makes_no_endless_ledger() -> None:
    waits: Waits = ()
    for number in range(3 * INTERVALS_MAX):
        waits = observe(waits, WaitReason(Cause.PRIORITY, f"{number} come first"), at(number), begin=T0)
    assert len(waits) == INTERVALS_MAX
    assert waits[-1].text == f"{3 * INTERVALS_MAX - 1} come first"


def test_the_reason_is_that_of_explain() -> None:
    assert reason_of(Explanation("one runs")) is None
    aged = Explanation("is resolving (5s).", cause=Cause.RESOLVER, ageless="is resolving.")
    assert reason_of(aged) == WaitReason(Cause.RESOLVER, "is resolving.")
    checks = Explanation("waits for checks.", ("check x: not\nyet",), cause=Cause.ADMISSION_CHECK)
    assert reason_of(checks) == WaitReason(Cause.ADMISSION_CHECK, "waits for checks. check x: not yet")


MOMENTS = st.floats(min_value=-100, max_value=400, allow_nan=False).map(lambda x: at(round(x, 1)))
TIMES = st.dictionaries(
    st.sampled_from(["resolving", "pending", "admitted", "running"]),
    st.integers(-100, 400).map(lambda x: at(x).strftime("%Y-%m-%dT%H:%M:%SZ")),
)
REASONS = st.none() | st.builds(WaitReason, st.sampled_from(Cause), st.sampled_from(["", "a", "b"]))
GAPS = st.none() | st.tuples(MOMENTS, MOMENTS)
LOOKS = st.builds(Observation, MOMENTS, st.just(T0), REASONS, st.none(), st.none(), GAPS, TIMES)


def ordered_without_gap(waits: Waits, begin: datetime) -> None:
    assert not waits or waits[0].start == begin
    for one, following in pairwise(waits):
        assert one.end == following.start
    for one in waits:
        assert one.end is None or one.end > one.start


@given(st.lists(LOOKS, max_size=12), MOMENTS, TIMES, st.booleans())
def test_whatever_is_observed_the_wait_is_covered(
    looks: list[Observation], over: datetime, times: dict[str, str], started: bool
) -> None:
    """Also by clocks that jump back, and by several times without a recorder."""
    waits: Waits = ()
    for one in looks:
        waits = advance(waits, one, ran_before=False)
        ordered_without_gap(waits, T0)
    field = "started_at" if started else "ended_at"
    final = Observation(at(500), T0, None, times=times, **{field: over})
    waits = advance(waits, final, ran_before=False)
    ordered_without_gap(waits, T0)
    assert all(one.end is not None for one in waits)
    length = sum((one.end - one.start for one in waits if one.end is not None), timedelta())
    assert length == max(timedelta(), over - T0)


@given(st.lists(LOOKS, max_size=12))
def test_later_waits_are_ordered(looks: list[Observation]) -> None:
    waits: Waits = (Interval(T0, at(10), Cause.QUOTA),)
    for one in looks:
        waits = advance(waits, one, ran_before=True)
    for one_wait, following in pairwise(waits):
        assert one_wait.end is not None and one_wait.end <= following.start
    assert all(one.end is None or one.end > one.start for one in waits)


def test_nothing_is_unobserved_of_a_run_that_did_not_wait() -> None:
    waits = (Interval(T0, at(10), Cause.QUOTA),)
    assert unobserved(waits, (at(20), at(30)), {}, T0) == waits
