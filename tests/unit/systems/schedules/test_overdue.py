"""When three periods of a schedule without a success are over."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.api.fournosschedule import FournosScheduleSpec, FournosScheduleStatus
from fournos.engine.api.times import format_time
from fournos.systems.schedules.names import jitter
from fournos.systems.schedules.overdue import success_expected
from tests.unit.systems.schedules.actors import schedule

MONDAY = "2030-01-07T02:00:00Z"
SINCE = {"effectiveSince": "2030-01-01T12:00:00Z"}
SUCCEEDED = {**SINCE, "lastSuccessTime": MONDAY}
WEEKDAYS = {"schedules": ["0 2 * * 1-5"]}
FOR_EVER = {"suspend": {"reason": "a holiday"}}


def expected(status: dict[str, Any], **spec: Any) -> str | None:
    end = success_expected(
        FournosScheduleSpec.model_validate(schedule(**spec)["spec"]),
        FournosScheduleStatus.model_validate(status),
        "uid-1",
    )
    return format_time(end) if end else None


@pytest.mark.parametrize(
    ("spec", "status", "end"),
    [
        ({}, SUCCEEDED, "2030-01-10T02:00:00Z"),
        ({}, {**SUCCEEDED, "failures": 2}, "2030-01-10T02:00:00Z"),
        (WEEKDAYS, {**SINCE, "lastSuccessTime": "2030-01-10T02:00:00Z"}, "2030-01-15T02:00:00Z"),
        ({"exclusions": {"dates": ["2030-01-08"]}}, SUCCEEDED, "2030-01-11T02:00:00Z"),
        ({"schedules": ["0 * * * *"], "minimumInterval": "2h"}, SUCCEEDED, "2030-01-07T08:00:00Z"),
    ],
    ids=["daily", "failures", "weekend", "excluded", "minimum interval"],
)
def test_three_times_after_the_last_success(spec: Any, status: Any, end: str) -> None:
    assert expected(status, **spec) == end


def test_jitter_moves_it_as_it_moves_the_times() -> None:
    moved = jitter("uid-1", 3000)
    assert moved > 0
    assert expected(SUCCEEDED, jitterSeconds=3000) == f"2030-01-10T02:{moved // 60:02}:{moved % 60:02}Z"


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ({}, {"effectiveSince": "2030-01-07T12:00:00Z"}),
        ({}, {**SUCCEEDED, "effectiveSince": "2030-01-07T12:00:00Z"}),
        ({"suspend": {"until": "2030-01-07T12:00:00Z"}}, SUCCEEDED),
    ],
    ids=["new", "edited or resumed", "after a suspension with an end"],
)
def test_without_a_success_since_then_three_periods_after_the_first_time(spec: Any, status: Any) -> None:
    assert expected(status, **spec) == "2030-01-11T02:00:00Z"


def test_a_time_that_was_skipped_as_unchanged_counts_as_a_success() -> None:
    missed = {"count": 1, "reason": "Unchanged", "time": "2030-01-09T02:00:00Z"}
    spec = {"skipUnchanged": {"of": "Params"}}
    assert expected({**SUCCEEDED, "missed": missed}, **spec) == "2030-01-12T02:00:00Z"
    assert expected({**SUCCEEDED, "missed": {**missed, "reason": "Late"}}, **spec) == "2030-01-10T02:00:00Z"


@pytest.mark.parametrize(
    ("failures", "limit", "end"),
    [(0, 5, None), (4, 5, None), (5, 5, MONDAY), (9, 0, None)],
)
def test_of_a_suspended_schedule_nothing_unless_its_failures_suspended_it(
    failures: int, limit: int, end: str | None
) -> None:
    # The suspension is an edit.
    status = {"effectiveSince": "2030-01-07T02:30:00Z", "lastFire": {"time": MONDAY, "outcome": "Failed"}}
    assert expected({**status, "failures": failures}, stopAfterFailures=limit, **FOR_EVER) == end


@pytest.mark.parametrize(("reason", "end"), [("its author left", MONDAY), ("a holiday", None), (None, None)])
def test_a_schedule_whose_author_lost_a_right_has_had_its_last_time(
    reason: str | None, end: str | None
) -> None:
    last_fire = {"time": MONDAY, "outcome": "Failed", "message": "its author left"}
    assert expected({**SINCE, "lastFire": last_fire}, suspend={"reason": reason}) == end


def test_nothing_before_the_operator_has_seen_it_nor_of_times_that_never_come() -> None:
    assert expected({}) is None
    assert expected(SINCE, exclusions={"windows": [{"from": "00:00", "to": "12:00"}]}) is None
