"""What the metrics of schedules say: of status writes, and of the cache."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_SCHEDULE
from fournos.app.metrics import TABLE
from fournos.engine.kube.store import Store
from fournos.engine.runtime.controller import Caches
from fournos.engine.runtime.metrics import Metrics
from fournos.systems.schedules import metrics as table
from fournos.systems.schedules.metrics import ExpectedSuccesses, count_written, report
from fournos.systems.schedules.names import jitter
from fournos.systems.schedules.overdue import success_expected
from tests.unit.systems.schedules.actors import schedule

T1, T2 = "2030-01-01T02:00:00Z", "2030-01-02T02:00:00Z"


def of(status: Any, **spec: Any) -> dict[str, Any]:
    made = schedule(**spec)
    made["metadata"]["uid"] = "uid-1"
    return {**made, "status": status}


def begun(at: str) -> dict[str, Any]:
    return {"lastStartTime": T2, "active": [{"time": T2, "startedAt": at, "jobs": 1}]}


@pytest.mark.parametrize("jitter_seconds", [0, 60])
def test_lateness_is_counted_once_a_fire_and_without_jitter(jitter_seconds: int) -> None:
    metrics, spec = Metrics(TABLE), {"jitterSeconds": jitter_seconds}
    before, claimed = of({"lastStartTime": T1}, **spec), of(begun("2030-01-02T02:02:00Z"), **spec)
    count_written(metrics, before, claimed)
    count_written(metrics, claimed, claimed)
    text = metrics.render().decode()
    assert "fournos_schedule_late_seconds_count 1.0" in text
    assert f"fournos_schedule_late_seconds_sum {120.0 - jitter('uid-1', jitter_seconds)}" in text


def test_missed_times_are_counted_by_reason() -> None:
    metrics = Metrics(TABLE)
    count_written(metrics, of({}), of({"missed": {"count": 3, "reason": "Late", "time": T1}}))
    overlapped = {"missed": {"count": 4, "reason": "Overlap", "time": T2}}
    count_written(metrics, of({"missed": {"count": 3, "reason": "Late", "time": T1}}), of(overlapped))
    count_written(metrics, of(overlapped), of(overlapped))
    found = [metrics.value("fournos_schedule_missed_total", reason) for reason in ("Late", "Overlap")]
    assert found == [3, 1]


def test_the_gauges_are_of_the_cache() -> None:
    metrics, store = Metrics(TABLE), Store()
    store.replace([of({"lastSuccessTime": T1, "failures": 2})], "1")
    report(Caches({FOURNOS_SCHEDULE: store}), metrics, ExpectedSuccesses())
    labels = ("fournos", "nightly")
    assert metrics.value("fournos_schedule_failures_in_a_row", *labels) == 2
    assert metrics.value("fournos_schedule_last_success_timestamp_seconds", *labels) == 1893463200
    assert metrics.value("fournos_schedule_missed_total", "Late") == 0
    store.replace([], "2")
    report(Caches({FOURNOS_SCHEDULE: store}), metrics, ExpectedSuccesses())
    assert 'schedule="nightly"' not in metrics.render().decode(), "a deleted schedule leaves no series"


def test_the_end_of_three_periods_follows_the_schedule_and_is_computed_once_a_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    computed = []

    def counted(spec: Any, status: Any, uid: str) -> datetime | None:
        computed.append(uid)
        return success_expected(spec, status, uid)

    monkeypatch.setattr(table, "success_expected", counted)
    metrics, store, expected = Metrics(TABLE), Store(), ExpectedSuccesses()
    values = []
    for version, last in (("1", T1), ("1", T1), ("2", T2)):
        seen = of({"effectiveSince": "2029-12-31T00:00:00Z", "lastSuccessTime": last})
        seen["metadata"]["resourceVersion"] = version
        broken = of({"effectiveSince": T1}, timeZone="Nowhere/Land")
        broken["metadata"] |= {"name": "broken", "uid": "uid-2", "resourceVersion": "1"}
        distant = of({"effectiveSince": T1}, suspend={"until": "9999-12-31T23:59:59Z"})
        distant["metadata"] |= {"name": "distant", "uid": "uid-3", "resourceVersion": "1"}
        store.replace([seen, broken, distant], version)
        report(Caches({FOURNOS_SCHEDULE: store}), metrics, expected)
        name = "fournos_schedule_success_expected_timestamp_seconds"
        values.append(metrics.value(name, "fournos", "nightly"))
    assert values == [1893463200 + days * 86400 for days in (3, 3, 4)]
    assert (computed.count("uid-1"), computed.count("uid-2")) == (2, 1)
    assert 'schedule="broken"' not in "".join(
        line for line in metrics.render().decode().splitlines() if "expected" in line
    )
