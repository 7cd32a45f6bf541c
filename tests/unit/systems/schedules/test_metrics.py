"""What the metrics of schedules say: of status writes, and of the cache."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.api.fournosschedule import FournosScheduleSpec, FournosScheduleStatus
from fournos.api.kinds import FOURNOS_SCHEDULE
from fournos.app.parts import TABLE
from fournos.engine.api.values import format_time
from fournos.engine.kube.store import Store
from fournos.engine.runtime.controller import Caches
from fournos.engine.runtime.metrics import Metrics
from fournos.systems.schedules.metrics import count_written, report, success_expected
from tests.unit.systems.schedules.actors import schedule

T1, T2 = "2030-01-01T02:00:00Z", "2030-01-02T02:00:00Z"


def of(status: Any, **spec: Any) -> dict[str, Any]:
    made = schedule(**spec)
    made["metadata"]["uid"] = "uid-1"
    return {**made, "status": status}


def test_missed_times_are_counted_by_reason() -> None:
    metrics = Metrics(TABLE)
    count_written(metrics, of({}), of({"missed": {"count": 3, "reason": "Late", "time": T1}}))
    overlapped = {"missed": {"count": 4, "reason": "Overlap", "time": T2}}
    count_written(metrics, of({"missed": {"count": 3, "reason": "Late", "time": T1}}), of(overlapped))
    count_written(metrics, of(overlapped), of(overlapped))
    found = [metrics.value("fournos_schedule_missed_total", reason) for reason in ("Late", "Overlap")]
    assert found == [3, 1]


def test_the_gauge_is_of_the_cache() -> None:
    metrics, store = Metrics(TABLE), Store()
    store.replace([of({"effectiveSince": T1, "lastSuccessTime": T1})], "1")
    report(Caches({FOURNOS_SCHEDULE: store}), metrics)
    assert 'schedule="nightly"' in metrics.render().decode()
    assert metrics.value("fournos_schedule_missed_total", "Late") == 0
    store.replace([], "2")
    report(Caches({FOURNOS_SCHEDULE: store}), metrics)
    assert 'schedule="nightly"' not in metrics.render().decode(), "a deleted schedule leaves no series"


def test_the_end_of_three_periods_follows_the_schedule() -> None:
    metrics, store = Metrics(TABLE), Store()
    values = []
    for version, last in (("1", T1), ("2", T2)):
        seen = of({"effectiveSince": "2029-12-31T00:00:00Z", "lastSuccessTime": last})
        seen["metadata"]["resourceVersion"] = version
        broken = of({"effectiveSince": T1}, timeZone="Nowhere/Land")
        broken["metadata"] |= {"name": "broken", "uid": "uid-2"}
        distant = of({"effectiveSince": T1}, suspend={"until": "9999-12-31T23:59:59Z"})
        distant["metadata"] |= {"name": "distant", "uid": "uid-3"}
        store.replace([seen, broken, distant], version)
        report(Caches({FOURNOS_SCHEDULE: store}), metrics)
        name = "fournos_schedule_success_expected_timestamp_seconds"
        values.append(metrics.value(name, "fournos", "nightly"))
    assert values == [1893463200 + days * 86400 for days in (3, 4)]
    expected = [line for line in metrics.render().decode().splitlines() if "expected" in line]
    assert not any('schedule="broken"' in line or 'schedule="distant"' in line for line in expected)


# --- when three periods of a schedule without a success are over -----------------------------------------

MONDAY = "2030-01-07T02:00:00Z"
SINCE = {"effectiveSince": "2030-01-01T12:00:00Z"}
SUCCEEDED = {**SINCE, "lastSuccessTime": MONDAY}
WEEKDAYS = {"schedules": ["0 2 * * 1-5"]}
FOR_EVER = {"suspend": {"reason": "a holiday"}}


def expected(status: dict[str, Any], **spec: Any) -> str | None:
    end = success_expected(
        FournosScheduleSpec.model_validate(schedule(**spec)["spec"]),
        FournosScheduleStatus.model_validate(status),
    )
    return format_time(end) if end else None


@pytest.mark.parametrize(
    ("spec", "status", "end"),
    [
        ({}, SUCCEEDED, "2030-01-10T02:00:00Z"),
        ({}, {**SUCCEEDED, "failures": 2}, "2030-01-10T02:00:00Z"),
        (WEEKDAYS, {**SINCE, "lastSuccessTime": "2030-01-10T02:00:00Z"}, "2030-01-15T02:00:00Z"),
    ],
    ids=["daily", "failures", "weekend"],
)
def test_three_times_after_the_last_success(spec: Any, status: Any, end: str) -> None:
    assert expected(status, **spec) == end


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


def test_nothing_before_the_operator_has_seen_it() -> None:
    assert expected({}) is None
