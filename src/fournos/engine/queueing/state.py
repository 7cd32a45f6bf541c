"""The state of a Workload for its job kind (Kueue's Workload API: conditions by type, never by index)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.resource import Obj, is_terminating


class QueueState(Enum):
    """The states of a Workload."""

    WAITING = "waiting"
    """Queued, or not yet seen by Kueue, or holding quota while admission checks are pending."""
    ADMITTED = "admitted"
    EVICTED = "evicted"
    """Evicted by Kueue; the Workload holds its quota until the job kind releases it."""
    RELEASED = "released"
    """Evicted and released; the Workload waits in the queue again, or is inactive."""
    FINISHED = "finished"
    GONE = "gone"
    """The Workload is being deleted."""


@dataclass(frozen=True, slots=True)
class WorkloadView:
    """A Workload's state with reason, message and assigned flavors."""

    state: QueueState
    reason: str
    """CamelCase reason for a condition."""
    message: str
    """Kueue's own message; "" without one."""
    flavors: Mapping[str, Mapping[str, str]]
    """pod set → resource → ResourceFlavor; empty without quota."""
    active: bool = True

    def flavor(self, pod_set: str, resource: str) -> str | None:
        return self.flavors.get(pod_set, {}).get(resource)


def view(workload: Obj) -> WorkloadView:
    """Returns the state of a Workload.  Deletion has precedence, then the end, eviction and admission."""
    spec, status = workload["spec"], workload.get("status") or {}
    active = spec.get("active", True) is not False
    flavors = {
        assignment["name"]: dict(assignment.get("flavors") or {})
        for assignment in (status.get("admission") or {}).get("podSetAssignments") or ()
    }
    quota = condition(workload, "QuotaReserved") or {}
    reason, message = str(quota.get("reason") or "Pending"), str(quota.get("message") or "")
    if is_terminating(workload):
        return WorkloadView(QueueState.GONE, "WorkloadDeleted", "Workload is deleted", flavors, active)
    if is_true(workload, "Finished"):
        return WorkloadView(QueueState.FINISHED, "Finished", message, flavors, active)
    evicted = condition(workload, "Evicted") or {}
    if evicted.get("status") == "True":
        reason, message = str(evicted.get("reason") or "Evicted"), str(evicted.get("message") or "")
        holds = quota.get("status") == "True"
        return WorkloadView(
            QueueState.EVICTED if holds else QueueState.RELEASED, reason, message, flavors, active
        )
    if is_true(workload, "Admitted"):
        return WorkloadView(QueueState.ADMITTED, "Admitted", message, flavors, active)
    return WorkloadView(QueueState.WAITING, reason, _pending_checks(status) or message, flavors, active)


def _pending_checks(status: Obj) -> str:
    """Returns the messages of the pending admission checks while quota is held."""
    return ", ".join(
        f"{check['name']}: {check['message']}"
        for check in status.get("admissionChecks") or ()
        if check.get("state") == "Pending" and check.get("message")
    )
