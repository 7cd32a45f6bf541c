"""Reports why a job waits: in its message, its condition and one event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fournos.api.fournosjob import Waiting
from fournos.api.phase import Phase
from fournos.api.slots import blames_others, no_jobs, unavailable_in
from fournos.engine.kube.resource import Obj
from fournos.engine.queueing.state import WorkloadView
from fournos.engine.queueing.waiting import named_reason
from fournos.engine.runtime.decision import Decision, StepFailure
from fournos.systems.jobs.context import Context
from fournos.systems.jobs.names import SLOT_RESOURCE

NAMING_AT_MOST = 50
"""The maximum number of waiting jobs whose message names the same job.

When that job ends, the operator writes the status of each of them again.
"""
LOCK, QUOTA = "Lock", "Quota"
NOT_BEFORE = "NotBefore"
"""The reason of a job that waits for `spec.scheduledStartTime`."""
CAUSE_OF_REASON: Final[Mapping[str, str]] = {
    "TopologyPlacementFailed": "Scheduling",
    "PendingDelayedTopologyRequests": "Scheduling",
    "AdmissionGated": "AdmissionCheck",
    "WaitingForPodsReady": "Priority",
    "Misconfigured": "QueueStopped",
    "Suspended": "QueueStopped",
    "KueueNotInstalled": "QueueStopped",
    NOT_BEFORE: "Suspended",
}
"""Reasons of the condition WorkloadAdmitted, Kueue's and ours, that are not about quota."""


def waits_for(job: Obj) -> tuple[str, ...]:
    """Returns the index keys of a queued job, from what its status says that it waits for.

    `job/NAME` if that is the job NAME, `cluster/NAME` if it is slots of a cluster that no job locks.
    """
    status = job.get("status") or {}
    waiting = status.get("waiting") or {}
    if status.get("phase") != Phase.PENDING:
        return ()
    if waiting.get("holder"):
        return (f"job/{waiting['holder']}",)
    return (f"cluster/{waiting['cluster']}",) if waiting.get("cluster") and waiting["cause"] != LOCK else ()


def wait(ctx: Context, type_: str, reason: str, message: str) -> Decision:
    """Reports once that something is missing, and requeues with backoff because it may still appear."""
    if ctx.draft.reason_of(type_) != reason:
        ctx.draft.event(reason, message, warning=True)
    if not ctx.draft.phase:
        ctx.draft.enter("Pending", message)
    ctx.draft.set_message(message).condition(type_, "False", reason, message)
    return ctx.decision(retry=True)


def wait_if_curable(ctx: Context, failure: StepFailure, type_: str, *, engine: str) -> Decision | None:
    """Waits if a step was refused for a reason that a person can correct; None if the refusal is final.

    Such reasons are an engine that is not installed, and a missing permission.
    """
    if failure.error == "NoSuchResourceError":
        return wait(ctx, type_, f"{engine}NotInstalled", f"Waiting: {engine} is not installed")
    if failure.error == "ForbiddenError":
        return wait(ctx, type_, "Forbidden", f"Waiting: the operator may not do this: {failure.message}")
    return None


def cause_by_kueue(queue: WorkloadView) -> str:
    """Returns the cause of the reason for which Kueue does not admit a Workload."""
    return CAUSE_OF_REASON.get(named_reason(queue.reason, queue.message), QUOTA)


def admission(ctx: Context, queue: WorkloadView) -> tuple[str, Waiting]:
    """Returns the message of a queued job, and what it waits for.

    The message is Kueue's; if the job waits for a cluster that another job holds, it names that job instead.
    The holder is read from the index of jobs that hold the cluster, because Kueue reports missing slots with
    the same text when the cluster has no slots at all.
    """
    waiting = Waiting(cause=cause_by_kueue(queue))
    if not queue.message:
        return "Waiting for Kueue admission", waiting
    observed = ctx.observed
    cluster = ctx.spec.cluster
    lock = Waiting(cause=LOCK, cluster=cluster)
    closed, kueue_message = unavailable_in(queue.message)
    if cluster in closed:
        return f"{no_jobs({cluster: closed[cluster]})}. Waiting until it does", lock
    if closed and not cluster and not blames_others(kueue_message):
        return f"{no_jobs(closed)}. Waiting until one does", lock
    if SLOT_RESOURCE in kueue_message:
        if cluster and observed.exclusive_holders:
            name = observed.exclusive_holders[0] if observed.may_name_holder else None
            holder = f"job {name}" if name else "another job"
            text = f"Cluster {cluster} is exclusively locked by {holder}, waiting for it to finish"
            return text, lock.model_copy(update={"holder": name})
        if cluster and observed.holders and ctx.spec.exclusive:
            return f"Waiting for exclusive access to cluster {cluster} (other jobs are still running)", lock
        if not cluster and observed.all_locked:
            return "All eligible clusters are exclusively locked, waiting for availability", lock
        waiting = Waiting(cause=waiting.cause, cluster=cluster)
    if closed and not cluster:
        kueue_message += " (" + "; ".join(f"{name}: {why}" for name, why in sorted(closed.items())) + ")"
    return f"Waiting for admission: {kueue_message}", waiting
