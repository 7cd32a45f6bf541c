"""The other writes of a job kind to its Workload's status: the end, PodsReady, reclaimable pods."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fournos.engine.api.conditions import Condition, condition, is_true, upsert
from fournos.engine.api.values import parse_time
from fournos.engine.kube.resource import Obj, key_of
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.workload import IN_USE
from fournos.engine.runtime.context import holds, switched
from fournos.engine.runtime.decision import Patch

_RECOVERING = frozenset({"WaitForRecovery", "Recovered"})


def status_patch(workload: Obj, **status: Any) -> Patch:
    """Returns a status patch with a precondition, because other clients write the status too."""
    version = workload["metadata"]["resourceVersion"]
    body = {"metadata": {"resourceVersion": version}, "status": status}
    return Patch(WORKLOAD, key_of(workload), body, subresource="status")


def _with(workload: Obj, wanted: Condition, now: datetime) -> list[Mapping[str, Any]]:
    conditions = (workload.get("status") or {}).get("conditions") or ()
    return upsert(conditions, wanted, now=now, generation=workload["metadata"].get("generation"))


def finish_patch(workload: Obj, reason: str, message: str, now: datetime) -> Patch:
    """Returns the final status: Kueue frees the quota at once.

    Reasons: Succeeded, Failed, OutOfSync, FailedToStart.
    """
    return status_patch(
        workload, conditions=_with(workload, Condition("Finished", "True", reason, message), now)
    )


def finalizer_patch(workload: Obj) -> Patch | None:
    """Returns the patch that removes the finalizer of the job's controller; None if it is not there."""
    if not holds(workload, IN_USE):
        return None
    return Patch(WORKLOAD, key_of(workload), {"metadata": switched(workload, IN_USE, on=False)})


def pods_ready_patch(workload: Obj, ready: bool, now: datetime) -> Patch | None:
    """Returns the patch of the condition that `waitForPodsReady` reads; None if it is correct.

    Kueue treats a Workload without the condition as not started, so that state needs no write.
    """
    before = condition(workload, "PodsReady") or {}
    pods_ready = _pods_ready(before, ready and is_true(workload, "Admitted"), is_true(workload, "Admitted"))
    if (before.get("status"), before.get("reason")) == (pods_ready.status, pods_ready.reason):
        return None
    if not before and pods_ready.status == "False":
        return None
    return status_patch(workload, conditions=_with(workload, pods_ready, now))


def _pods_ready(before: Mapping[str, Any], ready: bool, admitted: bool) -> Condition:
    reason = before.get("reason")
    if ready:
        now = "Recovered" if reason in _RECOVERING else "Started"
        return Condition("PodsReady", "True", now, "All pods reached readiness and the workload is running")
    if admitted and (before.get("status") == "True" or reason == "WaitForRecovery"):
        text = "At least one pod has failed, waiting for recovery"
        return Condition("PodsReady", "False", "WaitForRecovery", text)
    return Condition("PodsReady", "False", "WaitForStart", "Not all pods are ready or succeeded")


def reclaim_patch(workload: Obj, pods: Mapping[str, int]) -> Patch | None:
    """Returns the patch of the reclaimable pods; None if nothing changes.

    Counts only grow while quota is held, because the API server refuses a smaller count.
    """
    before = {
        entry["name"]: int(entry["count"])
        for entry in (workload.get("status") or {}).get("reclaimablePods") or ()
    }
    held = is_true(workload, "QuotaReserved")
    limits = {pod_set["name"]: int(pod_set.get("count", 1)) for pod_set in workload["spec"]["podSets"]}
    counts: dict[str, int] = dict(before) if held else {}
    for name, count in pods.items():
        if count > 0 and name in limits:
            count = min(count, limits[name])
            counts[name] = max(count, before.get(name, 0)) if held else count
    if counts == before:
        return None
    entries = [{"name": name, "count": count} for name, count in counts.items()]
    return status_patch(workload, reclaimablePods=entries)


# --- the release of quota ---------------------------------------------------------------------------
# The release of quota after an eviction: the job kind's part of Kueue's eviction protocol.
#
# Kueue sets the condition Evicted and waits.  The quota stays reserved until the job kind has stopped the
# job and releases it.  The patch carries the resourceVersion, because it replaces the whole list of
# conditions.

_REQUEUED_AT_ONCE = frozenset({"Preempted", "NodeFailures"})


def release_quota(workload: Obj, now: datetime) -> Patch:
    """Returns the status patch that releases the quota of an evicted Workload and lets Kueue requeue it.

    `Requeued` is True only for reasons with which Kueue itself requeues at once; for the others Kueue sets it
    later (backoff over, queue restarted, reactivated).  Every reason of the Deactivated family is written as
    plain "Deactivated", because Kueue's reactivation compares with exactly that value.
    """
    evicted = condition(workload, "Evicted") or {}
    reason, message = str(evicted.get("reason") or "Evicted"), str(evicted.get("message") or "")
    requeue_reason = "Deactivated" if reason.startswith("Deactivated") else reason
    status = workload.get("status") or {}
    generation = workload["metadata"].get("generation")
    conditions = list(status.get("conditions") or ())
    for released in (
        Condition("QuotaReserved", "False", "Pending", message),
        Condition("Admitted", "False", "NoReservation", "The workload has no reservation"),
        Condition("Requeued", str(reason in _REQUEUED_AT_ONCE), requeue_reason, message),
    ):
        conditions = upsert(conditions, released, now=now, generation=generation)
    body: dict[str, object] = {"conditions": conditions, "admission": None}
    if is_true(workload, "Admitted"):
        admitted = condition(workload, "Admitted") or {}
        since = (now - parse_time(admitted["lastTransitionTime"])).total_seconds()
        past = int(status.get("accumulatedPastExecutionTimeSeconds") or 0)
        body["accumulatedPastExecutionTimeSeconds"] = past + max(0, int(since))
    return Patch(
        WORKLOAD,
        key_of(workload),
        {
            "metadata": {"resourceVersion": workload["metadata"]["resourceVersion"]},
            "status": body,
        },
        subresource="status",
    )
