"""Decides the next writes for an AppWrapper: first for Kueue, then by the policy of its phase.

- (new) → Suspended → Resuming → Running → Succeeded | Failed
- Running, Resuming → Resetting → Resuming: a failure that is retried
- Resuming, Running, Resetting → Suspending → Suspended: spec.suspend
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from fournos.engine.queueing.inputs import QueueOutcome, Verdict
from fournos.engine.queueing.job import QueueOptions
from fournos.engine.queueing.reconcile import reconcile
from fournos.engine.runtime.decision import Decision, Facts
from fournos.engine.runtime.failures import retried
from fournos.engine.runtime.steps import Create
from fournos.systems.appwrappers import names
from fournos.systems.appwrappers.admission import problems
from fournos.systems.appwrappers.context import Context, Observed
from fournos.systems.appwrappers.finish import deleted, fail, failed, succeeded, suspending
from fournos.systems.appwrappers.podsets import pod_sets_of
from fournos.systems.appwrappers.queued import QueuedAppWrapper
from fournos.systems.appwrappers.resume import resetting, resuming, suspended
from fournos.systems.appwrappers.run import running
from fournos.systems.appwrappers.settings import AppWrapperSettings


def decide(observed: Observed, facts: Facts, now: datetime, *, settings: AppWrapperSettings) -> Decision:
    """Returns the decision of one pass. A pure function; see `fournos.engine.runtime.decision`."""
    ctx = Context(observed, facts, now, settings)
    managed_here = ctx.spec.get("managedBy") in names.MANAGED_BY_US
    if facts.failure is not None and not (managed_here and _handled(ctx)):
        return retried(facts.failure)
    if managed_here and not ctx.draft.phase and not ctx.deleting:
        return _begin(ctx)
    queue = _queue(ctx)
    if queue is not None and queue.steps:
        return Decision(steps=queue.steps, events=queue.events, retry=queue.retry)
    if not managed_here:
        return Decision(retry=queue is not None and queue.retry)
    if queue is not None and queue.verdict is Verdict.BLOCKED and ctx.draft.phase == "Suspended":
        _report_blocked(ctx, queue)
    decision = deleted(ctx) if ctx.deleting else _POLICIES[ctx.draft.phase](ctx)
    return replace(decision, retry=True) if queue is not None and queue.retry else decision


def _queue(ctx: Context) -> QueueOutcome | None:
    """Returns the outcome for Kueue; None if Kueue's own integration handles the AppWrapper."""
    if ctx.settings.workloads == "kueue":
        return None
    options = QueueOptions(without_queue_name=ctx.settings.manage_jobs_without_queue_name)
    wrapper = QueuedAppWrapper(ctx.wrapper)
    return reconcile(wrapper, ctx.observed.inputs, ctx.facts, ctx.now, options=options)


def _report_blocked(ctx: Context, queue: QueueOutcome) -> None:
    """Reports once why there is no Workload, such as a priority class that is missing or reserved."""
    if ctx.draft.reason_of("QuotaReserved") != queue.reason:
        ctx.draft.event(queue.reason, queue.message, warning=True)
    ctx.draft.condition("QuotaReserved", "False", queue.reason, queue.message)


def _handled(ctx: Context) -> bool:
    """True if the failure is the creation of a component, which the phase's policy handles."""
    failure = ctx.facts.failure
    return (
        failure is not None
        and isinstance(failure.step, Create)
        and ctx.draft.phase == "Resuming"
        and not ctx.deleting
        and ctx.owns(failure.step.body)
        and failure.step.resource.group != "kueue.x-k8s.io"
    )


def _begin(ctx: Context) -> Decision:
    """Handles a new AppWrapper. Its rules are checked here too, because the webhooks may be absent."""
    broken = problems(ctx.wrapper, own_workloads=ctx.settings.workloads == "own")
    if broken:
        ctx.draft.fill_components([() for _ in ctx.templates])
        return fail(ctx, "Invalid", "; ".join(map(str, broken)))
    ctx.draft.fill_components([pod_sets_of(component) for component in ctx.spec["components"]])
    ctx.draft.enter("Suspended")
    # The finalizer keeps the AppWrapper until its Workload has lost its own finalizer.
    return ctx.decision(ctx.finalizer(on=True) if ctx.settings.workloads == "own" else ())


_POLICIES: dict[str, Callable[[Context], Decision]] = {
    "Suspended": suspended,
    "Resuming": resuming,
    "Running": running,
    "Resetting": resetting,
    "Suspending": suspending,
    "Failed": failed,
    "Succeeded": succeeded,
}
