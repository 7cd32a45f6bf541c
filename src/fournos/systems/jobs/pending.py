"""The Pending phase: the job's Workload waits in Kueue's queue until a cluster is assigned."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from fournos.api.fournosjob import Waiting
from fournos.api.phase import CAUSE_OF_REASON, Cause, Phase
from fournos.api.slots import blames_others, no_jobs, unavailable_in
from fournos.engine.api.values import creation_time, format_time, parse_duration
from fournos.engine.kube.resource import Key, Obj, controller_of, controls, uid_of
from fournos.engine.queueing.ensure import OUT_OF_SYNC, prebuilt_name
from fournos.engine.queueing.job import NOT_FOUND, RESERVED, Verdict
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.workload import QueueState, WorkloadView, named_reason, view
from fournos.engine.runtime.decision import Absent, Create, Decision, LiveGet, Present, StepFailure, Unknown
from fournos.systems.jobs import names
from fournos.systems.jobs.finish import fail, release
from fournos.systems.jobs.names import SLOT_RESOURCE
from fournos.systems.jobs.queue import class_question, name_is_taken, own_cluster, queue
from fournos.systems.jobs.status import Context

NAMING_AT_MOST = 50
"""The maximum number of waiting jobs whose message names the same job.

When that job ends, the operator writes the status of each of them again.
"""
NOT_BEFORE = "NotBefore"
"""The reason of a job that waits for `spec.scheduledStartTime`."""
CAUSE_OF_OUR_REASON: Final[Mapping[str, Cause]] = {
    **CAUSE_OF_REASON,
    "KueueNotInstalled": Cause.QUEUE_STOPPED,
    NOT_BEFORE: Cause.SUSPENDED,
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
    locked = waiting.get("cause") == Cause.LOCK
    return (f"cluster/{waiting['cluster']}",) if waiting.get("cluster") and not locked else ()


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
    return CAUSE_OF_OUR_REASON.get(named_reason(queue.reason, queue.message), Cause.QUOTA)


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
    lock = Waiting(cause=Cause.LOCK, cluster=cluster)
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


# --- the phase -----------------------------------------------------------------------------------------

QUEUED = "Workload created, waiting for Kueue admission"


def pending(ctx: Context) -> Decision:
    """The policy of the Pending phase.

    Waits while the job is suspended, until its start time and while its retry backoff lasts, fails it at the
    deadline of `spec.timeouts.pending`, and otherwise keeps it in the queue.
    """
    failure = ctx.facts.failure
    if failure and isinstance(failure.step, Create) and not name_is_taken(ctx):
        return wait_if_curable(ctx, failure, "WorkloadAdmitted", engine="Kueue") or fail(
            ctx,
            f"Failed to create Workload: {failure.message}",
            type_="WorkloadAdmitted",
            reason="WorkloadFailed",
            detail=f"Workload creation failed: {failure.message}",
        )
    if ctx.spec.suspend:
        message = "Suspended: set spec.suspend to false to queue the job"
        ctx.draft.enter("Pending", message).condition("Suspended", "True", "Suspended", message)
        return ctx.decision(release(ctx))
    if ctx.holds_finalizer:  # left by the attempt before, which has ended
        return ctx.decision(ctx.finalizer(on=False))
    start_at = ctx.spec.scheduled_start_time
    if start_at is not None and ctx.is_early:
        message = f"Not queued before {format_time(start_at)} (spec.scheduledStartTime)"
        ctx.draft.enter("Pending", message).set_message(message)
        ctx.draft.condition("WorkloadAdmitted", "False", NOT_BEFORE, message)
        return ctx.decision(release(ctx), wake_at=start_at)
    retry_at = ctx.draft.retry_at
    if ctx.workload is None and retry_at and ctx.now < retry_at:
        return ctx.decision(wake_at=retry_at)
    if ctx.spec.clusterless:
        return _start_without_quota(ctx)
    deadline = _pending_deadline(ctx)
    if deadline and ctx.now >= deadline:
        assert ctx.spec.timeouts is not None
        return fail(
            ctx,
            f"Not admitted within spec.timeouts.pending ({ctx.spec.timeouts.pending}): {ctx.draft.message}",
            type_="WorkloadAdmitted",
            reason="PendingTimeout",
        )
    return _in_queue(ctx, "Cluster lock pending admission" if ctx.spec.lock_only else QUEUED)


def _start_without_quota(ctx: Context) -> Decision:
    """Starts an attempt of a clusterless job: it waits in no queue, and holds no quota.

    A Workload that it has was made before the job became clusterless.
    """
    run = names.attempt_name(ctx.name, ctx.draft.attempt + 1)
    ctx.draft.begin_attempt(cluster=names.CLUSTERLESS, workload=None, run=run)
    ctx.draft.put(cluster=names.CLUSTERLESS).enter("Admitted", "Clusterless job ready for execution")
    ctx.draft.condition(
        "WorkloadAdmitted", "True", "ClusterlessAdmitted", "Clusterless job bypassed Kueue admission"
    )
    return ctx.decision(release(ctx))


def _in_queue(ctx: Context, message: str) -> Decision:
    """Ensures the job's Workload and acts on its state: waits, fails, or claims the assigned cluster."""
    outcome = queue(ctx)
    workload = ctx.workload
    made = workload is None and bool(outcome.steps)
    # Its Workload may be gone because the job is deleted, which the cache of jobs shows later.
    if made and ctx.observed.queued_before and not ctx.up_to_date():
        return Decision(retry=True)
    if outcome.reason == NOT_FOUND:
        return _without_class(ctx)
    if outcome.reason == RESERVED:
        ctx.draft.enter("Pending", ctx.draft.message)
        return wait(ctx, "WorkloadAdmitted", RESERVED, f"Waiting: {outcome.message}")
    if outcome.reason == OUT_OF_SYNC:
        return _out_of_sync(ctx)
    if outcome.verdict is Verdict.BLOCKED:
        return _prebuilt_missing(ctx)
    if workload is None or not ctx.draft.phase:
        ctx.draft.enter("Pending", message).condition("WorkloadAdmitted", "False", "Pending", message)
        ctx.draft.put(retryAt=None)
    elif outcome.workload is not None:
        return _admitted(ctx, outcome.workload)
    elif not outcome.steps and not outcome.retry:
        _record_reason(ctx, view(workload))
    # Nothing follows a new Workload but Kueue's verdict on it, which is an event.
    return ctx.decision(outcome.steps, wake_at=_pending_deadline(ctx), retry=outcome.retry, settled=made)


def adopt(ctx: Context) -> Decision:
    """On a worker cluster, makes the job the controller of its prebuilt Workload, which MultiKueue created.

    This comes before everything else, because the job, however it ends, ends by that Workload.
    """
    outcome = queue(ctx)
    taken_over = outcome.steps and outcome.reason != OUT_OF_SYNC
    return Decision(outcome.steps) if taken_over else _prebuilt_missing(ctx)


def _prebuilt_missing(ctx: Context) -> Decision:
    """Waits for a missing prebuilt Workload, or fails if it belongs to another owner.

    A live read confirms its absence, because the cache may lag.
    """
    name = prebuilt_name(ctx.job)
    answer = ctx.facts.require(LiveGet(WORKLOAD, Key(ctx.namespace, name)))
    if not isinstance(answer, Present):
        missing = isinstance(answer, Absent)
        text = f"Waiting: its Workload '{name}' {'is not there' if missing else 'cannot be read'}"
        return wait(ctx, "WorkloadAdmitted", "PrebuiltMissing", text)
    owner = controller_of(answer.value)
    if owner is None or controls(ctx.job, answer.value):
        return Decision(retry=True)  # the cache does not show it yet
    text = f"Workload '{name}' belongs to {owner['kind']} {owner['name']}"
    return fail(ctx, text, type_="WorkloadAdmitted", reason="PrebuiltTaken")


def _out_of_sync(ctx: Context) -> Decision:
    """Fails a job that does not match its prebuilt Workload.

    The Workload is finished after the status has been written.  Its end is the signal to the manager cluster.
    """
    text = "The prebuilt workload is out of sync with its user job"
    advice = "write the GPUs that it needs into spec.hardware where it is submitted"
    return fail(ctx, f"{text}: {advice}", type_="WorkloadAdmitted", reason=OUT_OF_SYNC)


def _without_class(ctx: Context) -> Decision:
    """Waits for the job's WorkloadPriorityClass.

    A class that the live read finds does not come here: `queue` uses the answer.
    """
    answer = ctx.facts.require(class_question(ctx))
    ctx.draft.enter("Pending", ctx.draft.message)
    name = ctx.spec.priority
    if isinstance(answer, Unknown):
        text = f"Waiting: cannot read WorkloadPriorityClass '{name}': {answer.reason}"
        return wait(ctx, "WorkloadAdmitted", "PriorityClassUnknown", text)
    if isinstance(answer, Absent) and answer.no_kind:
        return wait(ctx, "WorkloadAdmitted", "KueueNotInstalled", "Waiting: Kueue is not installed")
    text = f"Waiting: WorkloadPriorityClass '{name}' not found; create it or submit without priority"
    return wait(ctx, "WorkloadAdmitted", NOT_FOUND, text)


def _record_reason(ctx: Context, queue: WorkloadView) -> None:
    if queue.state is QueueState.WAITING and not queue.message:
        return  # Kueue has not evaluated the Workload yet
    waiting = Waiting(cause=cause_by_kueue(queue))
    if queue.state is QueueState.RELEASED and not queue.active:
        message = f"Deactivated: {queue.message}. Set spec.active to true on the Workload to queue it again"
    elif queue.state is QueueState.RELEASED:
        message = f"Evicted by Kueue ({queue.reason}): {queue.message}. Waiting to be admitted again"
    else:
        message, waiting = admission(ctx, queue)
    ctx.draft.set_message(message, waiting).condition("WorkloadAdmitted", "False", queue.reason, message)


def _admitted(ctx: Context, workload: Obj) -> Decision:
    cluster = own_cluster(workload)
    if not cluster:
        return fail(
            ctx,
            "Workload admitted but no flavor assigned",
            type_="WorkloadAdmitted",
            reason="NoFlavorAssigned",
            detail="Workload was admitted but no ResourceFlavor was assigned",
        )
    # Kueue compares only labels that the flavor has.  A worker has flavors of its own.
    if ctx.spec.cluster not in (None, "", cluster) and not prebuilt_name(ctx.job):
        text = f"Admitted to cluster {cluster} instead of {ctx.spec.cluster}: write nodeLabels"
        text += f" {{{names.CLUSTER_NODE_LABEL}: {cluster}}} into ResourceFlavor {cluster}"
        return fail(ctx, text, type_="WorkloadAdmitted", reason="WrongCluster")
    return _claim(ctx, workload, cluster)


def _claim(ctx: Context, workload: Obj, cluster: str) -> Decision:
    """Starts an attempt in the status.

    Claim before make: the attempt's number and cluster are written before its first object is created, so
    that a restarted operator finds the run that it owns.
    """
    ctx.draft.begin_attempt(
        cluster=cluster,
        workload=workload["metadata"]["name"],
        run=None if ctx.spec.lock_only else _run_name(ctx, workload["metadata"]["name"]),
    )
    ctx.draft.put(cluster=cluster)
    if ctx.hardware and len(ctx.choices) > 1:
        ctx.draft.resolve_hardware(ctx.hardware.to_json())
    message = (
        f"Cluster lock held on {cluster}"
        if ctx.spec.lock_only
        else f"Workload admitted, assigned to cluster {cluster}"
    )
    ctx.draft.enter("Admitted", message)
    ctx.draft.condition("WorkloadAdmitted", "True", "Admitted", f"Assigned to cluster {cluster}")
    ctx.draft.event("Admitted", f"Assigned to cluster {cluster}")
    return ctx.decision()


def _run_name(ctx: Context, workload: str) -> str:
    """Returns the run's name: that of its Workload, unless another client created the Workload."""
    possible = names.attempt_names(ctx.name, ctx.draft.attempt + 1, uid_of(ctx.job))
    return workload if workload in possible else possible[0]


def _pending_deadline(ctx: Context) -> datetime | None:
    """Returns until when the job may wait; time in which it may not be queued at all does not count."""
    limit = ctx.spec.timeouts and ctx.spec.timeouts.pending
    if not limit:
        return None
    resumed = ctx.draft.found("Suspended")
    began = (
        ctx.draft.phase_times.pending or ctx.now,
        ctx.spec.scheduled_start_time,
        ctx.draft.retry_at,
        resumed.last_transition_time if resumed else None,
        creation_time(ctx.workload) if ctx.workload else None,
    )
    return max(moment for moment in began if moment is not None) + parse_duration(limit)
