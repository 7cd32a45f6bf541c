"""The Pending phase: a Workload stands in Kueue's queue until a cluster is assigned."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from fournos.api.durations import parse_duration
from fournos.jobs import build, names
from fournos.jobs.context import Context
from fournos.jobs.finish import fail, release
from fournos.jobs.prebuilt import differs, join, out_of_sync
from fournos.jobs.quota import own_cluster, shared_cluster
from fournos.jobs.waiting import admission_message, wait, wait_if_curable
from fournos.kube.resource import Key, Obj, key_of, uid_of
from fournos.queueing.ensure import prebuilt_name
from fournos.queueing.kinds import WORKLOAD, WORKLOAD_PRIORITY_CLASS
from fournos.queueing.nested import live_ancestor
from fournos.queueing.release import release_quota
from fournos.queueing.state import QueueState, QueueView, view
from fournos.queueing.surroundings import Ancestor
from fournos.queueing.workload import Priority, WorkloadRequest
from fournos.queueing.workload import build as build_workload
from fournos.runtime.decision import Decision, LiveGet, Present, Unknown
from fournos.runtime.steps import Create, Delete

QUEUED = "Workload created, waiting for Kueue admission"


def enqueue(ctx: Context, message: str) -> Decision:
    """Ask Kueue for quota: create the Workload of the next attempt."""
    ancestor = live_ancestor(ctx.job, ctx.facts)
    if ancestor is not None:
        return _on_quota_of(ctx, ancestor)
    priority = _priority(ctx)
    if isinstance(priority, Decision):
        return priority
    request = _request(ctx, priority)
    if prebuilt_name(ctx.job):
        return join(ctx, request, message)
    if _taken(ctx, request.key.name):
        other = names.attempt_name(ctx.name, ctx.draft.attempt + 1, uid_of(ctx.job))
        request = replace(request, key=Key(ctx.namespace, other))
    ctx.draft.enter("Pending", message).condition("WorkloadAdmitted", "False", "Pending", message)
    ctx.draft.put(retryAt=None)
    return ctx.decision([Create(WORKLOAD, build_workload(request))], wake_at=_pending_deadline(ctx))


def _taken(ctx: Context, name: str) -> bool:
    """Whether the Workload of an attempt could not be made because another object has its usual name."""
    failure = ctx.facts.failure
    return (
        failure is not None
        and failure.error == "ForeignObject"
        and isinstance(failure.step, Create)
        and failure.step.body["metadata"]["name"] == name
        and ctx.draft.attempt > 0
    )


def _on_quota_of(ctx: Context, ancestor: Ancestor | Unknown) -> Decision:
    """The job is part of another one that is queued, such as an AppWrapper: no Workload of its own.  Its
    cluster is the one that its owner's Workload holds for it."""
    ctx.draft.enter("Pending", ctx.draft.message)
    if isinstance(ancestor, Unknown):
        text = f"Waiting: cannot read the Workload of its owner: {ancestor.reason}"
        return wait(ctx, "WorkloadAdmitted", "OwnerUnknown", text)
    owner = f"{ancestor.kind} {ancestor.key.name}"
    held = ancestor.workload
    if held is None or view(held).state is not QueueState.ADMITTED:
        return wait(ctx, "WorkloadAdmitted", "OwnerNotAdmitted", f"Waiting for {owner} to be admitted")
    cluster, missing = shared_cluster(ctx, held)
    if not cluster:
        text = f"Runs on the quota of {owner}, {missing}"
        return fail(ctx, text, type_="WorkloadAdmitted", reason="NoFlavorAssigned")
    return _claim(ctx, held, cluster)


def _request(ctx: Context, priority: Priority | None) -> WorkloadRequest:
    return build.workload_request(
        ctx.job,
        ctx.spec,
        hardware=ctx.hardware,
        priority=priority,
        attempt=ctx.draft.attempt + 1,
        settings=ctx.settings,
    )


def _priority(ctx: Context) -> Priority | Decision | None:
    spec = ctx.spec
    if not spec.priority:
        return None
    if ctx.observed.priority_value is not None:
        return Priority(spec.priority, ctx.observed.priority_value)
    answer = ctx.facts.require(LiveGet(WORKLOAD_PRIORITY_CLASS, Key("", spec.priority)))
    if isinstance(answer, Present):
        return Priority(spec.priority, int(answer.value["value"]))
    ctx.draft.enter("Pending", ctx.draft.message)
    if isinstance(answer, Unknown):
        text = f"Waiting: cannot read WorkloadPriorityClass '{spec.priority}': {answer.reason}"
        return wait(ctx, "WorkloadAdmitted", "PriorityClassUnknown", text)
    if answer.no_kind:
        return wait(ctx, "WorkloadAdmitted", "KueueNotInstalled", "Waiting: Kueue is not installed")
    text = f"Waiting: WorkloadPriorityClass '{spec.priority}' not found; create it or submit without priority"
    return wait(ctx, "WorkloadAdmitted", "PriorityClassNotFound", text)


def pending(ctx: Context) -> Decision:
    failure = ctx.facts.failure
    usual = names.attempt_name(ctx.name, ctx.draft.attempt + 1)
    if failure and isinstance(failure.step, Create) and not _taken(ctx, usual):
        return wait_if_curable(ctx, failure, "WorkloadAdmitted", engine="Kueue") or fail(
            ctx,
            f"Failed to create Workload: {failure.message}",
            type_="WorkloadAdmitted",
            reason="WorkloadFailed",
            detail=f"Workload creation failed: {failure.message}",
        )
    if ctx.spec.suspend:
        message = "Suspended: set spec.suspend to false to queue the job"
        ctx.draft.say(message).condition("Suspended", "True", "Suspended", message)
        return ctx.decision(release(ctx))
    if ctx.holds_finalizer:  # of an attempt that is over
        return ctx.decision(ctx.finalizer(on=False))
    if ctx.draft.reason_of("Suspended") == "Suspended":
        ctx.draft.condition("Suspended", "False", "Resumed", "")
    deadline = _pending_deadline(ctx)
    if deadline and ctx.now >= deadline:
        assert ctx.spec.timeouts is not None
        return fail(
            ctx,
            f"Not admitted within spec.timeouts.pending ({ctx.spec.timeouts.pending}): {ctx.draft.message}",
            type_="WorkloadAdmitted",
            reason="PendingTimeout",
        )
    workload = ctx.workload
    if workload is None:
        retry_at = ctx.draft.retry_at
        if retry_at and ctx.now < retry_at:
            return ctx.decision(wake_at=retry_at)
        return enqueue(ctx, "Cluster lock pending admission" if ctx.spec.lock_only else QUEUED)
    queue = view(workload)
    if prebuilt_name(ctx.job):
        if differs(workload, _request(ctx, None)):
            return out_of_sync(ctx)
    elif _outdated(ctx, workload, queue):
        return ctx.decision([Delete(WORKLOAD, key_of(workload), uid_of(workload))])
    if queue.state is QueueState.ADMITTED and ctx.draft.attempt:
        # The cache may still show the admission of the attempt before this one.
        answer = ctx.facts.require(LiveGet(WORKLOAD, key_of(workload)))
        if not isinstance(answer, Present) or answer.value["metadata"]["uid"] != uid_of(workload):
            return Decision(retry=True)
        workload = answer.value
        queue = view(workload)
    if queue.state is QueueState.ADMITTED:
        return _admitted(ctx, workload)
    if queue.state is QueueState.EVICTED:
        return _give_back(ctx, workload)
    _say_why(ctx, queue)
    return ctx.decision(wake_at=deadline)


def _outdated(ctx: Context, workload: Obj, queue: QueueView) -> bool:
    """Whether it asks for something else than the job: the spec was changed after the Workload was made, or
    another client made it."""
    if queue.state not in (QueueState.WAITING, QueueState.ADMITTED):
        return False
    request = _request(ctx, None)
    if differs(workload, request) or workload["spec"].get("queueName") != request.queue:
        return True
    # Of a lock that is admitted Hearth raises the priority.
    named = (workload["spec"].get("priorityClassRef") or {}).get("name")
    return queue.state is QueueState.WAITING and named != (ctx.spec.priority or None)


def _give_back(ctx: Context, workload: Obj) -> Decision:
    """Evicted before anything was made: nothing to stop."""
    return ctx.decision([release_quota(workload, ctx.now)])


def _say_why(ctx: Context, queue: QueueView) -> None:
    if queue.state is QueueState.WAITING and not queue.message:
        return  # Kueue has not looked at it yet
    if queue.state is QueueState.RELEASED and not queue.active:
        message = f"Deactivated: {queue.message}. Set spec.active to true on the Workload to queue it again"
    elif queue.state is QueueState.RELEASED:
        message = f"Evicted by Kueue ({queue.reason}): {queue.message}. Waiting to be admitted again"
    else:
        message = admission_message(ctx, queue.message)
    ctx.draft.say(message).condition("WorkloadAdmitted", "False", queue.reason, message)


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
    return _claim(ctx, workload, cluster)


def _claim(ctx: Context, workload: Obj, cluster: str) -> Decision:
    """Claim before make: the attempt's number and cluster are written before its first object."""
    ctx.draft.begin_attempt(
        cluster=cluster,
        workload=workload["metadata"]["name"],
        run=None if ctx.spec.lock_only else _run_name(ctx, workload["metadata"]["name"]),
    )
    ctx.draft.put(cluster=cluster)
    message = (
        f"Cluster lock held on {cluster}"
        if ctx.spec.lock_only
        else f"Workload admitted, assigned to cluster {cluster}"
    )
    ctx.draft.enter("Admitted", message)
    ctx.draft.condition("WorkloadAdmitted", "True", "Admitted", f"Assigned to cluster {cluster}")
    ctx.draft.note("Admitted", f"Assigned to cluster {cluster}")
    return ctx.decision()


def _run_name(ctx: Context, workload: str) -> str:
    """That of its Workload, unless another client made it."""
    possible = names.attempt_names(ctx.name, ctx.draft.attempt + 1, uid_of(ctx.job))
    return workload if workload in possible else possible[0]


def _pending_deadline(ctx: Context) -> datetime | None:
    limit = ctx.spec.timeouts and ctx.spec.timeouts.pending
    if not limit:
        return None
    return (ctx.draft.phase_times.pending or ctx.now) + parse_duration(limit)
