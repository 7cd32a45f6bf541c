"""The decision of the FournosJob controller: a table from phase to policy.

(new) → Resolving → Pending → Admitted → Running → Succeeded | Failed
                                    any → Stopping → Stopped
Admitted, Running → Pending          evicted, suspended, or a failed attempt that is retried
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from fournos.api.kinds import FOURNOS_JOB
from fournos.api.phase import HOLDING, TERMINAL, Phase
from fournos.engine.queueing.ensure import prebuilt_name
from fournos.engine.queueing.kind_names import cure_of
from fournos.engine.queueing.managed import MULTIKUEUE
from fournos.engine.runtime.decision import Decision, Facts
from fournos.engine.runtime.failures import describe, lasts
from fournos.systems.jobs import archive, confirm
from fournos.systems.jobs.context import Context, Observed
from fournos.systems.jobs.elsewhere import queue_only, sent_elsewhere
from fournos.systems.jobs.finish import after_end, finish
from fournos.systems.jobs.interrupt import Interrupt, carry_out, interrupt
from fournos.systems.jobs.pending import adopt, pending
from fournos.systems.jobs.resolving import resolving, start
from fournos.systems.jobs.rules import check
from fournos.systems.jobs.running import admitted, running
from fournos.systems.jobs.settings import JobSettings
from fournos.systems.jobs.template import Template
from fournos.systems.jobs.waiting import wait

MANAGED_BY_US = frozenset({None, "", "fournos.dev/fournos"})


def decide(
    observed: Observed, facts: Facts, now: datetime, *, settings: JobSettings, template: Template
) -> Decision:
    """Returns the next steps and status of a job.  Pure; see `fournos.engine.runtime.decision`."""
    elsewhere = observed.spec.managed_by == MULTIKUEUE
    if observed.spec.managed_by not in MANAGED_BY_US and not elsewhere:
        return Decision()
    ctx = Context(observed, facts, now, settings, template)
    archive.derive(ctx)
    confirm.derive(ctx)
    if elsewhere:
        return Decision(retry=True) if facts.failure else queue_only(ctx)
    if (sent := sent_elsewhere(ctx)) is not None:
        return sent
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
