"""The decision for an object of a configured kind.

It checks what excludes the object from the queue, then reconciles the Workload.

(held) → Workload → admitted → released → ended → Workload finished
                       evicted → held again, or ended
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Final

from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.resource import Key, Obj, controller_of, is_terminating, key_of, read, uid_of
from fournos.engine.queueing.job import (
    NOT_FOUND,
    RESERVED,
    Ancestor,
    QueueInputs,
    QueueOutcome,
    Verdict,
    runs_elsewhere,
)
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.observe import live_ancestor
from fournos.engine.queueing.podsets import RequestsError, queue_name
from fournos.engine.queueing.reconcile import reconcile
from fournos.engine.queueing.report import finalizer_patch
from fournos.engine.queueing.workload import JOB_UID_LABEL
from fournos.engine.runtime.decision import (
    Absent,
    Decision,
    Delete,
    EventRecord,
    Facts,
    LiveGet,
    LiveList,
    Patch,
    Present,
    Question,
    Step,
    Unknown,
)
from fournos.engine.runtime.events import retried
from fournos.systems.frameworks import kinds
from fournos.systems.frameworks.kinds import Framework
from fournos.systems.frameworks.observe import Context, Observed
from fournos.systems.frameworks.queued import EndedByStop

# --- confirmation by live reads ------------------------------------------------------------------------
# A kind that can be held again is stopped on the cache's state, as Kueue does it: the next pass would
# release it again.  A kind that cannot be held again is ended only for the current state of its Workload.


def confirmed(ctx: Context) -> QueueOutcome:
    """Reconciles the object's Workload; confirms the outcome live if it would end the object.

    Raises RequestsError.
    """
    outcome = _verdict(ctx)
    if not _ends(ctx, outcome):
        return outcome
    inputs = _live(ctx)
    if inputs is None:
        return QueueOutcome(
            Verdict.WAITING, "Unconfirmed", "Waiting to see its Workload as it is now", retry=True
        )
    return _verdict(replace(ctx, inputs=inputs))


def _verdict(ctx: Context) -> QueueOutcome:
    return reconcile(ctx.job, ctx.inputs, ctx.facts, ctx.now)


def _ends(ctx: Context, outcome: QueueOutcome) -> bool:
    stop = ctx.framework.stop
    return stop is not None and any(
        isinstance(step, Patch)
        and step.resource == ctx.framework.resource
        and read(step.body, stop.path) == stop.value
        for step in outcome.steps
    )


def _live(ctx: Context) -> QueueInputs | None:
    """Returns the Workloads of the object from live reads; None if a read failed."""
    workloads = LiveList(WORKLOAD, ctx.key.namespace, f"{JOB_UID_LABEL}={uid_of(ctx.obj)}")
    named = {key_of(workload) for workload in ctx.workloads}
    if ctx.prebuilt:
        named.add(Key(ctx.key.namespace, ctx.prebuilt))
    gets = [LiveGet(WORKLOAD, key) for key in sorted(named)]
    questions: list[Question] = [workloads, *gets]
    answers = ctx.facts.require_all(questions)
    if any(isinstance(answer, Unknown) for answer in answers):
        return None
    live_workloads: dict[str, Obj] = {}
    for answer in answers:
        if isinstance(answer, Absent):
            continue
        assert isinstance(answer, Present)
        for workload in answer.value if isinstance(answer.value, tuple) else (answer.value,):
            live_workloads[uid_of(workload)] = workload
    owned = tuple(one for one in live_workloads.values() if _owned(ctx, one))
    prebuilt = next((one for one in live_workloads.values() if one["metadata"]["name"] == ctx.prebuilt), None)
    return replace(ctx.inputs, workloads=owned, prebuilt=prebuilt)


def _owned(ctx: Context, workload: Obj) -> bool:
    owner = controller_of(workload) or {}
    return owner.get("uid") == uid_of(ctx.obj)


# --- the decision --------------------------------------------------------------------------------------

HELD_BY_USER: Final = EventRecord(
    "Normal",
    "HeldByUser",
    "It was created on hold by its user, who alone lets it go; "
    f"annotate it with {kinds.HELD_ANNOTATION}={kinds.HELD_BY_QUEUE} to leave that to the queue",
)
CANNOT_BE_HELD: Final = EventRecord(
    "Warning",
    "CannotBeHeld",
    "It names a queue but was not on hold when it was created, so it runs without quota: "
    "turn the admission webhook on, or create it on hold with the annotation "
    f"{kinds.HELD_ANNOTATION}={kinds.HELD_BY_QUEUE}",
)


def decide(observed: Observed, facts: Facts, now: datetime, *, framework: Framework) -> Decision:
    """Returns the next steps for an object.  Pure; see `fournos.engine.runtime.decision`."""
    if observed.obj is None:
        return left_behind(observed, framework, facts)
    ctx = Context(framework, observed.obj, observed.inputs, facts, now)
    if facts.failure is not None:
        return _failed(ctx)
    if is_terminating(ctx.obj):
        return _done(reconcile(ctx.job, ctx.inputs, facts, now))
    if ctx.inputs.ancestor is not None:
        return _nested(ctx, ctx.inputs.ancestor)
    if not runs_elsewhere(ctx.job) and ctx.job.finished() is None:
        kept_out = _kept_out(ctx)
        if kept_out is not None:
            return kept_out
    try:
        outcome = confirmed(ctx)
    except RequestsError as error:
        return _warning("InvalidRequests", str(error))
    if outcome.steps or outcome.verdict is Verdict.ELSEWHERE:
        return _done(outcome)
    if outcome.verdict is Verdict.FINISHED:
        return _hopeless(ctx) or Decision()
    if outcome.reason in (NOT_FOUND, RESERVED, "FlavorNotFound"):
        return replace(_warning(outcome.reason, outcome.message), retry=outcome.retry)
    return Decision(retry=outcome.retry)


def _warning(reason: str, message: str) -> Decision:
    return Decision(events=(EventRecord("Warning", reason, message),))


def _done(outcome: QueueOutcome) -> Decision:
    return Decision(steps=outcome.steps, events=outcome.events, retry=outcome.retry)


def _kept_out(ctx: Context) -> Decision | None:
    """Returns the decision for an object that must not be queued; None if it may be."""
    hold, job = ctx.framework.hold, ctx.job
    if job.is_suspended():
        if hold.users_too and not ctx.held_by_queue and not ctx.prebuilt:
            return Decision(events=(HELD_BY_USER,))
        return None
    begun = ctx.held_by_queue or ctx.workloads or ctx.prebuilt
    if not hold.only_at_creation or begun or (isinstance(job, EndedByStop) and job.is_stopped()):
        return None
    ancestor = live_ancestor(ctx.obj, ctx.facts)
    if isinstance(ancestor, Ancestor):
        return _nested(ctx, ancestor)
    if isinstance(ancestor, Unknown):
        return Decision(retry=True)
    return Decision(events=(CANNOT_BE_HELD,))


def _nested(ctx: Context, ancestor: Ancestor) -> Decision:
    """Handles an object that runs on its owner's quota.

    The owner controls it.  Only the queue's own hold is released here, once the owner's Workload is admitted.
    """
    if ctx.job.is_suspended():
        held = ancestor.workload
        if not ctx.held_by_queue or held is None or not is_true(held, "Admitted"):
            return Decision()
        note = EventRecord("Normal", "Started", f"Runs on the quota of {ancestor.kind} {ancestor.key}")
        return Decision(steps=(ctx.patch(ctx.job.released()),), events=(note,))
    if ctx.framework.stop is not None:
        return Decision()
    return _done(reconcile(ctx.job, ctx.inputs, ctx.facts, ctx.now))


def _hopeless(ctx: Context) -> Decision | None:
    """Ends a suspended object whose Workload is finished: it would otherwise wait forever."""
    job = ctx.job
    if not job.is_suspended() or job.finished() is not None:
        return None
    over = next((one for one in ctx.workloads if is_true(one, "Finished")), None)
    finished = condition(over, "Finished") if over is not None else None
    if finished is None:
        return None
    reason, message = str(finished.get("reason") or "Finished"), str(finished.get("message") or "")
    if not isinstance(job, EndedByStop):
        return _warning(reason, message)
    return Decision(steps=(job.ending(reason, message),), events=(EventRecord("Warning", reason, message),))


def _failed(ctx: Context) -> Decision:
    failure = ctx.facts.failure
    assert failure is not None
    if failure.error == "NotFoundError":
        return Decision(retry=True)  # the cache does not show the deletion yet
    if not failure.transient:
        text = f"{type(failure.step).__name__} was refused: {failure.message}"
        return replace(_warning(failure.error, text), retry=True)
    return retried(failure)


def left_behind(observed: Observed, framework: Framework, facts: Facts) -> Decision:
    """Releases Workloads whose object the cache does not have.

    A live read confirms that the object is gone or has left the queue.  Kueue's rule: the integration that
    runs a job removes the finalizer of its Workload.  An object without one of its own is gone before that.
    """
    answer = facts.require(LiveGet(framework.resource, observed.key))
    if isinstance(answer, Unknown) or facts.failure is not None:
        return Decision(retry=True)
    if isinstance(answer, Present) and queue_name(answer.value):
        return Decision(retry=True)  # the cache does not show it yet
    there = uid_of(answer.value) if isinstance(answer, Present) else ""
    steps: list[Step] = []
    for workload in observed.inputs.workloads:
        steps += _let_go(workload, left=(controller_of(workload) or {}).get("uid") == there)
    return Decision(steps=tuple(steps))


def _let_go(workload: Obj, *, left: bool) -> list[Step]:
    """Removes the finalizer of a terminating Workload; deletes one whose object has left the queue.

    Kubernetes collects the Workloads of a deleted object.
    """
    if is_terminating(workload):
        patch = finalizer_patch(workload)
        return [patch] if patch is not None else []
    return [Delete(WORKLOAD, key_of(workload), uid_of(workload))] if left else []
