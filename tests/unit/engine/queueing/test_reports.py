"""What a pass reports in the Workload of a job: reclaimable pods, readiness, quota that is given back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fournos.engine.api.conditions import Condition, condition, upsert
from fournos.engine.kube.resource import Key
from fournos.engine.queueing.job import QueueOutcome, Verdict
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.report import pods_ready_patch, reclaim_patch, release_quota
from fournos.engine.queueing.workload import IN_USE
from fournos.engine.runtime.decision import Patch
from tests.unit.engine.queueing.toys import (
    ADMITTED,
    GOING,
    NOW,
    QUIET,
    QUOTA,
    READY,
    RUNS,
    Toy,
    go,
    made,
)

# --- the reports ---------------------------------------------------------------------------------------


def test_a_report_is_an_outcome_of_its_own() -> None:
    job = Toy(**RUNS)
    admitted = made(job, QUOTA, ADMITTED)
    ready = pods_ready_patch(admitted, True, NOW)
    assert ready is not None
    assert go(job, admitted) == QueueOutcome(Verdict.ADMITTED, "Reported", steps=(ready,))
    lost = made(Toy(), READY)
    not_ready = pods_ready_patch(lost, False, NOW)
    assert not_ready is not None
    assert go(Toy(ready=False), lost) == QueueOutcome(Verdict.WAITING, "Reported", steps=(not_ready,))


def test_a_kind_without_pods_that_end_early_reports_none() -> None:
    class Plain(Toy):
        reclaimable_pods = None  # type: ignore[assignment]

    job = Plain(**RUNS)
    assert go(job, made(job, QUOTA, ADMITTED), options=QUIET).verdict is Verdict.ADMITTED


@pytest.mark.parametrize(
    ("held", "before", "ended", "expected"),
    [
        (True, {}, {"main": 1}, {"main": 1}),
        (True, {"main": 2}, {"main": 1}, None),
        (True, {"main": 1}, {"main": 9}, {"main": 2}),
        (True, {"main": 1}, {}, None),
        (False, {"main": 2}, {"main": 1}, {"main": 1}),
        (False, {"main": 1}, {}, {}),
        (False, {"main": 1}, {"main": 0}, {}),
        (True, {}, {"other": 1}, None),
        (True, {}, {"single": 5}, {"single": 1}),
    ],
    ids=[
        "new",
        "less",
        "more than there are",
        "kept",
        "less, free",
        "none, free",
        "zero",
        "unknown",
        "default",
    ],
)
def test_reclaimable_pods_only_grow_while_quota_is_held(
    held: bool, before: dict[str, int], ended: dict[str, int], expected: dict[str, int] | None
) -> None:
    workload = made(Toy(), *((QUOTA,) if held else ()))
    workload["spec"] = {**workload["spec"], "podSets": [*workload["spec"]["podSets"], {"name": "single"}]}
    workload["status"]["reclaimablePods"] = [{"name": name, "count": count} for name, count in before.items()]
    found = reclaim_patch(workload, ended)
    if expected is None:
        assert found is None
        return
    entries = [{"name": name, "count": count} for name, count in expected.items()]
    assert found is not None and found.subresource == "status" and found.resource == WORKLOAD
    assert found.body == {"metadata": {"resourceVersion": "3"}, "status": {"reclaimablePods": entries}}
    assert found.key == Key("ns", workload["metadata"]["name"])


@pytest.mark.parametrize(
    ("conditions", "ready", "expected"),
    [
        ((), False, None),
        ((), True, None),
        ((QUOTA, ADMITTED), True, ("True", "Started")),
        ((QUOTA, ADMITTED, Condition("PodsReady", "True", "Started", "")), True, None),
        (
            (QUOTA, ADMITTED, Condition("PodsReady", "True", "Started", "")),
            False,
            ("False", "WaitForRecovery"),
        ),
        ((QUOTA, ADMITTED, Condition("PodsReady", "False", "WaitForStart", "")), False, None),
        ((QUOTA, ADMITTED, Condition("PodsReady", "False", "WaitForRecovery", "")), False, None),
        (
            (QUOTA, ADMITTED, Condition("PodsReady", "False", "WaitForRecovery", "")),
            True,
            ("True", "Recovered"),
        ),
        ((QUOTA, ADMITTED, Condition("PodsReady", "True", "Recovered", "")), True, None),
        ((Condition("PodsReady", "True", "Started", ""),), True, ("False", "WaitForStart")),
    ],
)
def test_readiness_is_written_when_it_changes(
    conditions: tuple[Condition, ...], ready: bool, expected: tuple[str, str] | None
) -> None:
    workload = made(Toy(), *conditions, generation=4)
    found = pods_ready_patch(workload, ready, NOW)
    if expected is None:
        assert found is None
        return
    texts = {
        "WaitForRecovery": "At least one pod has failed, waiting for recovery",
        "WaitForStart": "Not all pods are ready or succeeded",
    }
    usual = "All pods reached readiness and the workload is running"
    assert found is not None
    written = found.body["status"]["conditions"]
    (one,) = [one for one in written if one["type"] == "PodsReady"]
    assert (one["status"], one["reason"]) == expected and one["observedGeneration"] == 4
    assert one["message"] == texts.get(expected[1], usual)
    assert {one["type"] for one in written} == {*(c.type for c in conditions), "PodsReady"}, "all others stay"


def test_a_workload_without_our_finalizer_is_let_go_already() -> None:
    job = Toy(meta=GOING)
    assert go(job, made(job, finalizers=["other"])).steps == ()
    both = made(job, finalizers=["other", IN_USE])
    (step,) = go(job, both).steps
    assert isinstance(step, Patch) and step.body["metadata"]["finalizers"] == ["other"]


# --- The status patch that gives an evicted Workload's quota back, reason by reason ------------------

ADMITTED_AT = datetime(2030, 1, 1, tzinfo=UTC)
EVICTED_AT = ADMITTED_AT + timedelta(seconds=90)


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
    patch = release_quota(workload, EVICTED_AT)
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
