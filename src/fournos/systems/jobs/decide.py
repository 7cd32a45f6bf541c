"""The decision of the FournosJob controller: a table from phase to policy.

(new) → Resolving → Pending → Admitted → Running → Succeeded | Failed
                                    any → Stopping → Stopped
Admitted, Running → Pending          evicted, suspended, or a failed attempt that is retried
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum

from fournos.api.kinds import FOURNOS_JOB
from fournos.api.phase import HOLDING, TERMINAL, Phase
from fournos.engine.api.conditions import is_true
from fournos.engine.api.values import format_time
from fournos.engine.queueing.ensure import prebuilt_name
from fournos.engine.queueing.job import MULTIKUEUE, NOT_FOUND
from fournos.engine.queueing.managed_by import send_elsewhere
from fournos.engine.queueing.report import release_quota
from fournos.engine.queueing.workload import QueueState, cure_of, view
from fournos.engine.runtime.decision import Decision, EventRecord, Facts
from fournos.engine.runtime.events import describe, lasts
from fournos.systems.jobs.finish import (
    after_end,
    expire,
    finish,
    release,
)
from fournos.systems.jobs.pending import adopt, pending, wait
from fournos.systems.jobs.queue import class_question, granted, queue
from fournos.systems.jobs.resolve import resolving, start
from fournos.systems.jobs.rules import check
from fournos.systems.jobs.run import (
    IMMEDIATE,
    Cancellation,
    admitted,
    end_run,
    let_go,
    recorded_runs,
    running,
)
from fournos.systems.jobs.settings import JobSettings, Template
from fournos.systems.jobs.status import Context, Observed, run_ended, run_succeeded

# --- jobs that another cluster runs --------------------------------------------------------------------
# The manager cluster creates the Workload from the spec as written, and nothing else: no resolve Job, no
# run, no status.  The worker, where the engines are, resolves the rest.  GPUs must therefore be set in the
# spec. Otherwise the resolver adds GPUs on the worker for which the manager cluster has reserved no quota,
# and the job fails as out of sync with its Workload.


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
    # The Workload is finished last: the adapter needs the copy on the worker no more.
    if ctx.draft.phase in TERMINAL and (ctx.workload is None or is_true(ctx.workload, "Finished")):
        return expire(ctx)
    start_at = ctx.spec.scheduled_start_time if ctx.is_early else None
    if ctx.workload is None:
        if ctx.spec.suspend or ctx.spec.shutdown:
            return Decision()
        if start_at is not None:
            return Decision(wake_at=start_at)
        if ctx.spec.clusterless:
            text = "a job without quota (clusterless) has no Workload to dispatch: run it where it is made"
            return Decision(events=(EventRecord("Warning", "CannotDispatch", text),))
    outcome = queue(ctx)
    if outcome.reason == NOT_FOUND:
        ctx.facts.require(class_question(ctx))  # once it is answered, `queue` uses the answer
    return Decision(outcome.steps, wake_at=start_at, retry=outcome.retry)


# --- interruptions -------------------------------------------------------------------------------------
# Interruptions of a job: deletion, spec.shutdown, eviction by Kueue, a lost Workload, suspension.
#
# All follow one sequence: the run is ended within its time limit, then quota is released, then
# the status is written.  `status.stopRequestedAt` is written before the first step, so that the
# time limits survive a restart.


class InterruptionCause(Enum):
    """The cause of an interruption.

    The value is the reason of its event, except for a shutdown or a deletion ("Stopping").
    """

    DELETED = "Deleted"
    SHUTDOWN = "Shutdown"
    EVICTED = "Evicted"
    LOST = "WorkloadLost"
    SUSPENDED = "Suspended"


@dataclass(frozen=True, slots=True)
class Interrupt:
    """The cause of an interruption and how the run is stopped."""

    kind: InterruptionCause
    graceful: bool
    grace: float
    """Seconds that finally tasks may take before the stop becomes immediate."""
    message: str = ""


def interrupt(ctx: Context) -> Interrupt | None:
    """Returns the interruption of this job with the highest precedence, or None."""
    settings, spec, phase = ctx.settings, ctx.spec, ctx.draft.phase
    if ctx.deleting:
        return Interrupt(InterruptionCause.DELETED, spec.shutdown != "Terminate", settings.deletion_grace_sec)
    if spec.shutdown:
        return Interrupt(InterruptionCause.SHUTDOWN, spec.shutdown == "Stop", settings.stop_grace_sec)
    if phase not in HOLDING:
        return None
    under_way = ctx.draft.stop_requested_at is not None
    if not under_way and ctx.run is not None and run_ended(ctx.run):
        return None  # the run's result counts, and its end releases the Workload
    if not spec.clusterless:
        lost = _quota_lost(ctx)
        if lost:
            return lost
    if spec.suspend:
        return Interrupt(
            InterruptionCause.SUSPENDED, True, settings.stop_grace_sec, "Suspended by spec.suspend"
        )
    if under_way:  # the quota returned or the suspension was lifted while the run was being stopped
        return Interrupt(InterruptionCause.EVICTED, True, settings.eviction_grace_sec, "Interrupted")
    return None


def _quota_lost(ctx: Context) -> Interrupt | None:
    """Returns the interruption for lost or evicted quota, or None.

    Also corrects `status.cluster` and the attempt's cluster to the one of the
    admission, which is authoritative.
    """
    grace, grant = ctx.settings.eviction_grace_sec, granted(ctx)
    if grant.lost:
        return Interrupt(InterruptionCause.LOST, True, grace, grant.lost)
    if grant.evicted is not None:
        queue = view(grant.evicted)
        return Interrupt(
            InterruptionCause.EVICTED, True, grace, f"Evicted by Kueue ({queue.reason}): {queue.message}"
        )
    if grant.cluster and grant.cluster != ctx.draft.cluster:
        ctx.draft.put(cluster=grant.cluster).amend_attempt(cluster=grant.cluster)
    return None


def carry_out(ctx: Context, cause: Interrupt) -> Decision:
    """Performs the next step of the interruption: records it, ends the run, then settles the job."""
    if ctx.draft.attempt == 0 or ctx.spec.lock_only or ctx.draft.phase not in HOLDING:
        return _settle(ctx, cause)
    # Claim before make: the start of the stop is recorded before the run is cancelled.
    since = ctx.draft.stop_requested_at
    if since is None:
        return _claim(ctx, cause)
    run, run_name = ctx.run, ctx.run_name
    # A Stop that is raised to Terminate starts a new time limit.  A run that has ended is not cancelled any
    # more: without the check, the limit for its last pods would start again at each pass.
    live = run if run is not None and not run_ended(run) else None
    raised = not cause.graceful and live is not None and live["spec"].get("status") != IMMEDIATE
    since_when = ctx.now if raised else since
    if raised:
        ctx.draft.put(stopRequestedAt=format_time(ctx.now))
    ending = end_run(ctx, run_name, since=since_when, graceful=cause.graceful, grace=cause.grace)
    # Release before declare: quota is released only when no pod of the run is left.
    if ending.ended:
        return _settle(ctx, cause)
    _report(ctx, cause, ending)
    return ctx.decision(ending.steps, wake_at=ending.wake_at, retry=ending.retry)


def _claim(ctx: Context, cause: Interrupt) -> Decision:
    ctx.draft.put(stopRequestedAt=format_time(ctx.now))
    if cause.kind is InterruptionCause.SHUTDOWN:
        stop = ctx.spec.shutdown
        waits = "PipelineRun cleanup" if cause.graceful else "PipelineRun to stop"
        ctx.draft.enter("Stopping", f"Shutdown ({stop}) requested, waiting for {waits}")
        ctx.draft.condition(
            "PipelineRunReady",
            "False",
            "Stopping",
            f"PipelineRun cancellation requested (graceful={cause.graceful})",
        )
        ctx.draft.event("Stopping", f"Shutdown ({stop}) requested")
    elif cause.kind is InterruptionCause.DELETED:
        ctx.draft.set_message("Deletion requested, waiting for the run to stop")
        ctx.draft.event("Stopping", "Deletion requested, stopping the run first")
    elif cause.message:
        ctx.draft.set_message(f"{cause.message}. Stopping the run")
        ctx.draft.event(cause.kind.value, cause.message, warning=True)
    return ctx.decision()


def _report(ctx: Context, cause: Interrupt, ending: Cancellation) -> None:
    detail = ending.message or "waiting for PipelineRun cleanup"
    if cause.kind is InterruptionCause.SHUTDOWN and not cause.graceful:
        suffix = f": {ending.message}" if ending.message else ", waiting for PipelineRun to stop"
        ctx.draft.enter("Stopping", f"Terminating{suffix}")
    elif cause.kind is InterruptionCause.SHUTDOWN:
        message = f"Stopping, waiting for cleanup: {ending.message}" if ending.message else ""
        ctx.draft.enter("Stopping", message or "Stopping, waiting for PipelineRun cleanup")
    elif cause.kind is not InterruptionCause.DELETED:
        ctx.draft.set_message(f"{cause.message}. Stopping the run: {detail}")


def _settle(ctx: Context, cause: Interrupt) -> Decision:
    """Releases quota and records how the job ended, once nothing of it runs.

    A run that succeeded in spite of the interruption counts as a success.
    """
    run = ctx.run
    if run is not None and run_succeeded(run) and cause.kind is not InterruptionCause.DELETED:
        ctx.draft.end_attempt("Succeeded")
        ctx.draft.condition("PipelineRunReady", "True", "Succeeded", "Pipeline completed successfully")
        return finish(ctx, "Succeeded", "Pipeline completed successfully")
    return _SETTLE[cause.kind](ctx, cause)


def _deleted(ctx: Context, cause: Interrupt) -> Decision:
    return Decision(steps=(*let_go(ctx.observed.runs), *release(ctx), *ctx.finalizer(on=False)))


def _stopped(ctx: Context, cause: Interrupt) -> Decision:
    ctx.draft.end_attempt("Stopped")
    message = "Job stopped by user"
    ctx.draft.condition("WorkloadAdmitted", "False", "Stopped", message)
    if ctx.draft.attempt and not ctx.spec.lock_only:
        ctx.draft.condition("PipelineRunReady", "False", "Stopped", message)
    return finish(ctx, "Stopped", message)


def _requeued(ctx: Context, cause: Interrupt) -> Decision:
    """Returns the same Workload to the queue; Kueue decides its position there."""
    workload = ctx.workload
    ctx.draft.end_attempt("Lost" if cause.kind is InterruptionCause.LOST else "Evicted", cause.message)
    _back_to_pending(ctx, cause, f"{cause.message}. Waiting to be admitted again")
    ctx.draft.condition("WorkloadAdmitted", "False", "Evicted", cause.message)
    holds = workload is not None and view(workload).state is QueueState.EVICTED
    return ctx.decision([release_quota(workload, ctx.now)] if workload is not None and holds else ())


def _suspended(ctx: Context, cause: Interrupt) -> Decision:
    ctx.draft.end_attempt("Stopped", cause.message)
    message = "Suspended: set spec.suspend to false to queue the job"
    _back_to_pending(ctx, cause, message)
    ctx.draft.condition("Suspended", "True", "Suspended", message)
    ctx.draft.condition("WorkloadAdmitted", "False", "Suspended", message)
    return ctx.decision(release(ctx))


def _back_to_pending(ctx: Context, cause: Interrupt, message: str) -> None:
    ctx.draft.enter("Pending", message).put(stopRequestedAt=None, cluster=None)
    if ctx.draft.reason_of("PipelineRunReady"):
        ctx.draft.condition("PipelineRunReady", "False", cause.kind.value, cause.message)


_SETTLE = {
    InterruptionCause.DELETED: _deleted,
    InterruptionCause.SHUTDOWN: _stopped,
    InterruptionCause.EVICTED: _requeued,
    InterruptionCause.LOST: _requeued,
    InterruptionCause.SUSPENDED: _suspended,
}


# --- the decision --------------------------------------------------------------------------------------

MANAGED_BY_US = frozenset({None, "", "fournos.dev/fournos"})


def decide(
    observed: Observed, facts: Facts, now: datetime, *, settings: JobSettings, template: Template
) -> Decision:
    """Returns the next steps and status of a job.  Pure; see `fournos.engine.runtime.decision`."""
    elsewhere = observed.spec.managed_by == MULTIKUEUE
    if observed.spec.managed_by not in MANAGED_BY_US and not elsewhere:
        return Decision()
    ctx = Context(observed, facts, now, settings, template)
    _derive_from_spec(ctx)
    if elsewhere:
        return Decision(retry=True) if facts.failure else queue_only(ctx)
    if (sent := sent_elsewhere(ctx)) is not None:
        return sent
    free = let_go(recorded_runs(ctx))  # by the stored status: the policies change the draft
    decision = _decide(ctx)
    return replace(decision, steps=(*(one for one in free if one not in decision.steps), *decision.steps))


def _decide(ctx: Context) -> Decision:
    observed, facts = ctx.observed, ctx.facts
    if facts.failure and facts.failure.transient:
        return _failed(ctx)
    if ctx.draft.phase in TERMINAL and not ctx.deleting:
        return after_end(ctx)
    if observed.problem and not ctx.deleting:
        return _unreadable(ctx)
    # Before the policies: a deletion, shutdown, eviction or suspension applies in every phase.
    why = interrupt(ctx)
    if isinstance(why, Interrupt):
        return carry_out(ctx, why)
    if prebuilt_name(ctx.job) and ctx.workload is None and ctx.draft.phase not in HOLDING:
        return adopt(ctx)
    return _POLICIES.get(ctx.draft.phase, _unknown)(ctx)


def _derive_from_spec(ctx: Context) -> None:
    """Corrects conditions that a change of the spec has made wrong, in whatever phase the job is."""
    if ctx.observed.problem:
        return
    if ctx.draft.is_true("Suspended") and not ctx.spec.suspend:
        ctx.draft.condition("Suspended", "False", "Resumed", "")
    if ctx.draft.is_resolved and ctx.draft.reason_of("Resolved") == "Invalid":
        ctx.draft.condition("Resolved", "True", "Resolved", "Resolution complete")


def _begin(ctx: Context) -> Decision:
    """Starts a new job, or fails it if it violates a rule.

    The API server checks the same rules.  This check covers objects that were
    stored before the rules existed.
    """
    broken = check(ctx.job)
    if broken:
        text = "; ".join(violation.message for violation in broken)
        ctx.draft.condition("Resolved", "False", "Invalid", text)
        return finish(ctx, "Failed", text)
    return start(ctx)


def _unreadable(ctx: Context) -> Decision:
    """Fails a new job whose spec cannot be parsed.

    A job in progress keeps its state until the spec is corrected.
    """
    text = f"The spec cannot be read: {ctx.observed.problem}"
    if ctx.draft.phase:
        return wait(ctx, "Resolved", "Invalid", text)
    ctx.draft.condition("Resolved", "False", "Invalid", text)
    return finish(ctx, "Failed", text)


def _pending(ctx: Context) -> Decision:
    """Continues a Pending job.

    A job that was never resolved (suspended at creation, or waiting) starts again.
    """
    return pending(ctx) if ctx.draft.is_resolved else _begin(ctx)


def _unknown(ctx: Context) -> Decision:
    """Leaves a job as it is whose phase a newer operator has written."""
    text = f"The phase {ctx.draft.phase} is of a newer operator: upgrade this one, or stop the job"
    ctx.draft.event("UnknownPhase", text, warning=True)
    return ctx.decision()


def _failed(ctx: Context) -> Decision:
    failure = ctx.facts.failure
    assert failure is not None
    if not lasts(failure):
        return Decision(retry=True)
    text = describe(failure) + cure_of(failure.message, FOURNOS_JOB)
    if ctx.draft.reason_of("Retrying") != failure.error:
        ctx.draft.condition("Retrying", "True", failure.error, text).event(failure.error, text, warning=True)
    return ctx.decision(retry=True)


_POLICIES: dict[str, Callable[[Context], Decision]] = {
    "": _begin,
    Phase.RESOLVING: resolving,
    Phase.PENDING: _pending,
    Phase.ADMITTED: admitted,
    Phase.RUNNING: running,
    Phase.STOPPING: running,  # set by another writer: spec.shutdown is empty
}
