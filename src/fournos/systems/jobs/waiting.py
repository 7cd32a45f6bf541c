"""Reports why a job waits: in its message, its condition and one event."""

from __future__ import annotations

import re

from fournos.api.slots import no_jobs, unavailable_in
from fournos.engine.kube.resource import Obj
from fournos.engine.runtime.decision import Decision, StepFailure
from fournos.systems.jobs.context import Context
from fournos.systems.jobs.names import SLOT_RESOURCE

NAMING_AT_MOST = 50
"""The maximum number of waiting jobs whose message names the same job.

When that job ends, the operator writes the status of each of them again.
"""

_NAMED = re.compile(r" is exclusively locked by job (\S+), waiting ")

_LOCKED = re.compile(
    r"^(?:Cluster \S+ (?:is exclusively locked by|takes no jobs: )|No cluster takes jobs: |"
    r"Waiting for exclusive access to |All eligible clusters are exclusively locked)"
)
"""The messages of `admission_message` about clusters that are locked, or take no jobs."""

_ELSEWHERE = re.compile(r"(?:, )?flavor \S+ doesn't match node affinity")


def waits_for(job: Obj) -> tuple[str, ...]:
    """Returns the index keys of a queued job, from its message.

    `job/NAME` if the message names the job that it waits for, `cluster/NAME` if it names none.
    """
    status, cluster = job.get("status") or {}, (job.get("spec") or {}).get("cluster")
    if status.get("phase") != "Pending":
        return ()
    message = status.get("message") or ""
    if found := _NAMED.search(message):
        return (f"job/{found[1]}",)
    return (f"cluster/{cluster}",) if cluster and SLOT_RESOURCE in message else ()


def waits_for_lock(message: str) -> bool:
    """Returns True if the message of a queued job says that clusters are locked, or take no jobs."""
    return _LOCKED.match(message) is not None


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


def admission_message(ctx: Context, kueue_message: str) -> str:
    """Returns Kueue's message; if the job waits for a cluster that another job holds, names that job instead.

    The holder is read from the index of jobs that hold the cluster, because Kueue reports missing slots with
    the same text when the cluster has no slots at all.
    """
    if not kueue_message:
        return "Waiting for Kueue admission"
    seen = ctx.observed
    cluster = ctx.spec.cluster
    closed, kueue_message = unavailable_in(kueue_message)
    if cluster in closed:
        return f"{no_jobs({cluster: closed[cluster]})}. Waiting until it does"
    others = _ELSEWHERE.sub("", kueue_message).partition(": ")[2].strip(" ,")
    if closed and not cluster and not others:
        return f"{no_jobs(closed)}. Waiting until one does"
    if SLOT_RESOURCE in kueue_message:
        if cluster and seen.exclusive_holders:
            holder = f"job {seen.exclusive_holders[0]}" if seen.may_name_holder else "another job"
            return f"Cluster {cluster} is exclusively locked by {holder}, waiting for it to finish"
        if cluster and seen.holders and ctx.spec.exclusive:
            return f"Waiting for exclusive access to cluster {cluster} (other jobs are still running)"
        if not cluster and seen.all_locked:
            return "All eligible clusters are exclusively locked, waiting for availability"
    if closed and not cluster:
        kueue_message += " (" + "; ".join(f"{name}: {why}" for name, why in sorted(closed.items())) + ")"
    return f"Waiting for admission: {kueue_message}"
