"""Jobs that a worker cluster runs: on the manager `spec.managedBy` says so.

The manager queues such a job as its spec stands, and does no more: no resolve Job, no run, no status.  What
was left open is resolved on the worker, where the engines are; so GPUs must be written into the spec, else
the resolver asks the worker for something that the manager has no quota for, and the job fails as out of
sync with its Workload.
"""

from __future__ import annotations

from fournos.jobs.context import Context
from fournos.jobs.queued import class_question, queue
from fournos.queueing.managed_by import send_elsewhere
from fournos.runtime.decision import Decision, EventRecord, Present


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
    if ctx.workload is None:
        if ctx.spec.suspend or ctx.spec.shutdown:
            return Decision()
        if ctx.spec.clusterless:
            text = "a job without quota (clusterless) has no Workload to dispatch: run it where it is made"
            return Decision(events=(EventRecord("Warning", "CannotDispatch", text),))
    outcome = queue(ctx)
    if outcome.reason == "PriorityClassNotFound" and isinstance(
        ctx.facts.require(class_question(ctx)), Present
    ):
        outcome = queue(ctx)
    return Decision(outcome.steps, retry=outcome.retry)
