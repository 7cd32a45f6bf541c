"""The status patch that gives an evicted Workload's quota back, reason by reason."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fournos.engine.api.conditions import Condition, condition, upsert
from fournos.engine.kube.resource import Key
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.report import release_quota

ADMITTED_AT = datetime(2030, 1, 1, tzinfo=UTC)
NOW = ADMITTED_AT + timedelta(seconds=90)


def evicted(reason: str, *, admitted: bool = True, past: int | None = None) -> dict[str, Any]:
    """A Workload with quota that Kueue has evicted for `reason`."""
    conditions: list[Any] = []
    for wanted in (
        Condition("QuotaReserved", "True", "QuotaReserved", ""),
        Condition("Admitted", str(admitted), "Admitted", ""),
        Condition("Evicted", "True", reason, "why"),
    ):
        conditions = upsert(conditions, wanted, now=ADMITTED_AT)
    status: dict[str, Any] = {"conditions": conditions, "admission": {"clusterQueue": "cq"}}
    if past is not None:
        status["accumulatedPastExecutionTimeSeconds"] = past
    meta = {"name": "w", "namespace": "ns", "resourceVersion": "3", "generation": 4}
    return {"metadata": meta, "spec": {}, "status": status}


def status_of(workload: dict[str, Any]) -> dict[str, Any]:
    patch = release_quota(workload, NOW)
    assert (patch.resource, patch.key, patch.subresource) == (WORKLOAD, Key("ns", "w"), "status")
    assert patch.body["metadata"]["resourceVersion"] == "3"
    status: dict[str, Any] = patch.body["status"]
    return status


@pytest.mark.parametrize(
    ("reason", "requeued", "written"),
    [
        ("Preempted", "True", "Preempted"),
        ("NodeFailures", "True", "NodeFailures"),
        ("PodsReadyTimeout", "False", "PodsReadyTimeout"),
        ("AdmissionCheck", "False", "AdmissionCheck"),
        ("ClusterQueueStopped", "False", "ClusterQueueStopped"),
        ("Deactivated", "False", "Deactivated"),
        ("DeactivatedDueToRequeuingLimitExceeded", "False", "Deactivated"),
        ("DeactivatedDueToAdmissionCheck", "False", "Deactivated"),
    ],
)
def test_requeued_is_true_only_where_kueue_queues_at_once(reason: str, requeued: str, written: str) -> None:
    found = condition({"status": status_of(evicted(reason))}, "Requeued")
    assert found is not None
    assert (found["status"], found["reason"], found["message"]) == (requeued, written, "why")
    assert found["observedGeneration"] == 4


def test_quota_and_admission_are_released_and_the_eviction_stays_on_record() -> None:
    status = status_of(evicted("Preempted"))
    assert status["admission"] is None
    whole = {"status": status}
    for type_, state, reason in (
        ("QuotaReserved", "False", "Pending"),
        ("Admitted", "False", "NoReservation"),
        ("Evicted", "True", "Preempted"),
    ):
        found = condition(whole, type_)
        assert found is not None and (found["status"], found["reason"]) == (state, reason), type_


@pytest.mark.parametrize(("past", "total"), [(None, 90), (30, 120)])
def test_execution_time_accumulates_over_admissions(past: int | None, total: int) -> None:
    status = status_of(evicted("Preempted", past=past))
    assert status["accumulatedPastExecutionTimeSeconds"] == total


def test_an_admission_of_less_than_a_second_counts_nothing() -> None:
    patch = release_quota(evicted("Preempted"), ADMITTED_AT + timedelta(milliseconds=300))
    assert patch.body["status"]["accumulatedPastExecutionTimeSeconds"] == 0


def test_a_workload_that_was_never_admitted_adds_no_execution_time() -> None:
    assert "accumulatedPastExecutionTimeSeconds" not in status_of(evicted("Preempted", admitted=False))
