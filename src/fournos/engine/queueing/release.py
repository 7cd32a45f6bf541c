"""The release of quota after an eviction: the job kind's part of Kueue's eviction protocol.

Kueue sets the condition Evicted and waits.  The quota stays reserved until the job kind has stopped the job
and releases it.  The patch carries the resourceVersion, because it replaces the whole list of conditions.
"""

from __future__ import annotations

from datetime import datetime

from fournos.engine.api.conditions import Condition, condition, is_true, upsert
from fournos.engine.api.values import parse_time
from fournos.engine.kube.resource import Obj, key_of
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.runtime.decision import Patch

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
