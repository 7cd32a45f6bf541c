"""The manager cluster's side of FournosJobs that a worker cluster runs (`spec.managedBy`).

The manager cluster creates the Workload from the spec as written, and nothing else: no resolve Job, no run,
no status.  The worker, where the engines are, resolves the rest.  GPUs must therefore be set in the spec.
Otherwise the resolver adds GPUs on the worker for which the manager cluster has reserved no quota, and the
job fails as out of sync with its Workload.
"""

from __future__ import annotations

from fournos.engine.queueing.managed_by import send_elsewhere
from fournos.engine.queueing.priority import NOT_FOUND
from fournos.engine.runtime.decision import Decision, EventRecord
from fournos.systems.jobs.context import Context
from fournos.systems.jobs.queued import class_question, queue


def sent_elsewhere(ctx: Context) -> Decision | None:
    """Sets `managedBy` on a new job whose queue dispatches to other clusters; None if the job runs locally.

    This happens before the first phase, as a webhook would do at creation, because
    `managedBy` cannot change later.
    """
    new = not (ctx.draft.phase or ctx.deleting or ctx.observed.problem)
    if not new or ctx.spec.clusterless or not ctx.observed.checks:
        return None
    return send_elsewhere(ctx.resource, ctx.job, ctx.settings.kueue_local_queue_name, ctx.facts)


def queue_only(ctx: Context) -> Decision:
    """Ensures the Workload of a dispatched job, active unless `spec.suspend` or `spec.shutdown` is set."""
    if ctx.deleting:
        return Decision()  # Kubernetes deletes the Workload through its owner reference
    if ctx.workload is None:
        if ctx.spec.suspend or ctx.spec.shutdown:
            return Decision()
        start_at = ctx.spec.scheduled_start_time
        if start_at is not None and ctx.now < start_at:
            return Decision(wake_at=start_at)
        if ctx.spec.clusterless:
            text = "a job without quota (clusterless) has no Workload to dispatch: run it where it is made"
            return Decision(events=(EventRecord("Warning", "CannotDispatch", text),))
    outcome = queue(ctx)
    if outcome.reason == NOT_FOUND:
        ctx.facts.require(class_question(ctx))  # once it is answered, `queue` uses the answer
    return Decision(outcome.steps, retry=outcome.retry)
