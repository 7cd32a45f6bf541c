"""Confirmation by live reads before an object is ended for good, because a cache may be stale.

A kind that can be held again is stopped on the cache's state, as Kueue does it: the next pass would release
it again.  A kind that cannot be held again is ended only for the current state of its Workload.
"""

from __future__ import annotations

from dataclasses import replace

from fournos.engine.kube.resource import Key, Obj, controller_of, key_of, read, uid_of
from fournos.engine.queueing.inputs import QueueInputs, QueueOutcome, Verdict
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.reconcile import reconcile
from fournos.engine.queueing.workload import JOB_UID_LABEL
from fournos.engine.runtime.decision import Absent, LiveGet, LiveList, Present, Question, Unknown
from fournos.engine.runtime.steps import Patch
from fournos.systems.frameworks.context import Context


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
    return reconcile(ctx.job, ctx.inputs, ctx.facts, ctx.now, options=ctx.options)


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
