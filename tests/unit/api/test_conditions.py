"""Conditions by type, and Kubernetes' times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fournos.engine.api.conditions import MESSAGE_MAX, Condition, condition, is_true, upsert
from fournos.engine.api.values import format_time, parse_time

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)


def test_found_by_type_whatever_its_place() -> None:
    obj = {"status": {"conditions": [{"type": "B", "status": "False"}, {"type": "A", "status": "True"}]}}
    assert is_true(obj, "A")
    assert not is_true(obj, "B")
    assert not is_true(obj, "C")
    assert condition({}, "A") is None
    assert condition({"status": {"conditions": None}}, "A") is None


def test_upsert_keeps_place_and_the_others() -> None:
    foreign = {"type": "Engine", "status": "True", "extra": "kept"}
    first = upsert([foreign], Condition("A", "False", "Waiting", "for b"), now=NOON, generation=3)
    assert first == [
        foreign,
        {
            "type": "A",
            "status": "False",
            "reason": "Waiting",
            "message": "for b",
            "lastTransitionTime": "2026-01-31T12:00:00Z",
            "observedGeneration": 3,
        },
    ]
    second = upsert([*first, {"type": "Z"}], Condition("A", "False", "Waiting", "for c"), now=LATER)
    assert [entry["type"] for entry in second] == ["Engine", "A", "Z"]
    assert second[1]["message"] == "for c"
    assert second[1]["lastTransitionTime"] == "2026-01-31T12:00:00Z", "the status did not change"
    third = upsert(second, Condition("A", "True", "Done", ""), now=LATER)
    assert third[1]["lastTransitionTime"] == "2026-01-31T13:00:00Z"


def test_messages_fit_the_api_server() -> None:
    [entry] = upsert([], Condition("A", "True", "R", "m" * 40_000), now=NOON)
    assert len(entry["message"]) == MESSAGE_MAX


def test_times() -> None:
    assert format_time(NOON) == "2026-01-31T12:00:00Z"
    assert format_time(datetime(2026, 1, 31, 13, tzinfo=timezone(timedelta(hours=1)))) == format_time(NOON)
    assert parse_time("2026-01-31T12:00:00Z") == NOON
    assert parse_time("2026-01-31T13:00:00+01:00") == NOON
    assert parse_time("2026-01-31T12:00:00.250000Z") == NOON + timedelta(milliseconds=250)
    for text in ("", "noon", "2026-01-31T12:00:00"):
        with pytest.raises(ValueError):
            parse_time(text)


@given(st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)))
def test_times_survive_to_the_second(moment: datetime) -> None:
    assert parse_time(format_time(moment)) == moment.replace(microsecond=0)
