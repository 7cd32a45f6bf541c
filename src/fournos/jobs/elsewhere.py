"""Jobs that a worker cluster runs: on the manager `spec.managedBy` says so.

The manager queues such a job as its spec stands, and does no more: no resolve Job, no run, no status.  What
was left open is resolved on the worker, where the engines are; so GPUs must be written into the spec, else
the resolver asks the worker for something that the manager has no quota for, and the job fails as out of
sync with its Workload.
"""

from __future__ import annotations

from dataclasses import replace

from fournos.jobs import names
from fournos.jobs.context import Context
from fournos.jobs.queue import QUEUED, enqueue
from fournos.kube.resource import Obj, key_of
from fournos.queueing.kinds import WORKLOAD
from fournos.queueing.managed_by import send_elsewhere
from fournos.queueing.release import release_quota
from fournos.queueing.state import QueueState, view
from fournos.runtime.decision import Decision, Note
from fournos.runtime.steps import Patch


def sent_elsewhere(ctx: Context) -> Decision | None:
    """A new job whose queue leads to other clusters becomes such a job; None: it runs here.

    Before its first phase, as a webhook would at creation: afterwards `managedBy` cannot change.
    """
    new = not (ctx.draft.phase or ctx.deleting or ctx.observed.problem)
    if not new or ctx.spec.clusterless or not ctx.observed.checks:
        return None
    return send_elsewhere(ctx.resource, ctx.job, ctx.settings.kueue_local_queue_name, ctx.facts)


def queue_only(ctx: Context) -> Decision:
    """The manager's whole part: one Workload, active while nobody has asked the job to stop."""
    if ctx.deleting:
        return Decision()  # its Workload goes with it
    stop = ctx.spec.suspend or bool(ctx.spec.shutdown)
    workload = ctx.workload
    if workload is None:
        return Decision() if stop else _enqueue(ctx)
    queue = view(workload)
    if queue.state is QueueState.EVICTED:
        return Decision((release_quota(workload, ctx.now),))
    if queue.state is QueueState.FINISHED:
        return Decision()
    ours = names.HELD_BACK in (workload["metadata"].get("annotations") or {})
    if stop and queue.active:
        return Decision((_switch(workload, active=False),))
    if not stop and not queue.active and ours:
        return Decision((_switch(workload, active=True),))
    return Decision()


def _enqueue(ctx: Context) -> Decision:
    if ctx.spec.clusterless:
        text = "a job without quota (clusterless) has no Workload to dispatch: run it where it is made"
        return Decision(notes=(Note("Warning", "CannotDispatch", text),))
    decision = enqueue(ctx, QUEUED)
    return replace(decision, status=None, notes=(), wake_at=None)


def _switch(workload: Obj, *, active: bool) -> Patch:
    """Kueue evicts what is not active; the worker's run is stopped then."""
    meta = workload["metadata"]
    mark = None if active else "true"
    body = {
        "metadata": {
            "resourceVersion": meta["resourceVersion"],
            "annotations": {names.HELD_BACK: mark},
        },
        "spec": {"active": active},
    }
    return Patch(WORKLOAD, key_of(workload), body)
