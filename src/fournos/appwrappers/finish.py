"""Ways out of Resuming and Running: suspension, a reset, failure, success; and what follows them."""

from __future__ import annotations

from fournos.api.durations import format_duration
from fournos.appwrappers.context import Context
from fournos.appwrappers.names import ANNOTATION
from fournos.appwrappers.teardown import remove
from fournos.runtime.decision import Decision

_HOLD = f"{ANNOTATION}deletionOnFailureGracePeriodDuration"


def suspend(ctx: Context) -> Decision:
    ctx.draft.event("Suspending", f"Externally suspended while in the {ctx.draft.phase} phase")
    ctx.draft.enter("Suspending")
    return ctx.decision()


def fail(ctx: Context, reason: str, message: str) -> Decision:
    """For good: another try would meet the same."""
    ctx.draft.condition("Unhealthy", "True", reason, message)
    # The clock of the debug hold; it starts here and is never set back.
    ctx.draft.condition("DeletionHeld", "True", "Failed", "The resources stay for a while for debugging")
    ctx.draft.enter("Failed").event(reason, message, warning=True)
    return ctx.decision()


def reset_or_fail(
    ctx: Context, reason: str, message: str, *, terminal: bool = False, counts: bool = True
) -> Decision:
    """`terminal`: an exit code says that another try is of no use."""
    if terminal or ctx.draft.resets >= ctx.tolerance.retry_limit:
        return fail(ctx, reason, message)
    ctx.draft.condition("Unhealthy", "True", reason, message)
    if counts:
        ctx.draft.count_reset()
    ctx.draft.enter("Resetting").event(reason, message, warning=True)
    return ctx.decision()


def succeed(ctx: Context, message: str) -> Decision:
    ctx.draft.condition("QuotaReserved", "False", "Succeeded", message)
    ctx.draft.condition("ResourcesDeployed", "True", "Succeeded", message)
    # It was ready for what it had to do, even if nobody looked in between.
    ctx.draft.condition("PodsReady", "True", "SufficientPodsReady", message)
    ctx.draft.clear("Unhealthy", "Succeeded").enter("Succeeded").event("Succeeded", message)
    return ctx.decision()


# --- what follows ----------------------------------------------------------------------------------------


def suspending(ctx: Context) -> Decision:
    removal = remove(ctx)
    if not removal.done:
        return ctx.decision(removal.steps, wake_at=removal.wake_at, retry=removal.retry)
    message = "Suspend is true"
    ctx.draft.condition("ResourcesDeployed", "False", "Suspended", message)
    ctx.draft.condition("QuotaReserved", "False", "Suspended", message)
    ctx.draft.clear("PodsReady", "Suspended", message).clear("Unhealthy", "Suspended", message)
    ctx.draft.enter("Suspended")
    return ctx.decision()


def failed(ctx: Context) -> Decision:
    if not ctx.draft.is_true("ResourcesDeployed"):
        if ctx.draft.is_true("QuotaReserved"):
            ctx.draft.condition("QuotaReserved", "False", "Failed", "No resources deployed")
        return ctx.decision()
    held_until = ctx.draft.since("DeletionHeld") + ctx.tolerance.hold
    if ctx.draft.is_true("DeletionHeld") and ctx.now < held_until and not ctx.suspended:
        length = format_duration(ctx.tolerance.hold)
        ctx.draft.condition("DeletingResources", "False", "DeletionPaused", f"{_HOLD} has value {length}")
        return ctx.decision(wake_at=held_until)
    ctx.draft.clear("DeletionHeld", "Over")
    removal = remove(ctx)
    if not removal.done:
        return ctx.decision(removal.steps, wake_at=removal.wake_at, retry=removal.retry)
    message = (
        "Kueue forced resource deletion by suspending AppWrapper"
        if ctx.suspended
        else "Resources deleted for failed AppWrapper"
    )
    ctx.draft.clear("PodsReady", "Failed", message)
    ctx.draft.condition("ResourcesDeployed", "False", "Failed", message)
    ctx.draft.condition("QuotaReserved", "False", "Failed", "No resources deployed")
    return ctx.decision()


def succeeded(ctx: Context) -> Decision:
    """Quota is back; the resources stay for their time to live, then only the AppWrapper is left."""
    if not ctx.draft.is_true("ResourcesDeployed"):
        return ctx.decision()
    expiry = ctx.draft.since("QuotaReserved") + ctx.tolerance.success_ttl
    if ctx.now < expiry:
        return ctx.decision(wake_at=expiry)
    removal = remove(ctx)
    if not removal.done:
        return ctx.decision(removal.steps, wake_at=removal.wake_at, retry=removal.retry)
    length = format_duration(ctx.tolerance.success_ttl)
    text = f"Time to live after success of {length} expired"
    ctx.draft.condition("ResourcesDeployed", "False", "Succeeded", text)
    return ctx.decision()


def deleted(ctx: Context) -> Decision:
    """The AppWrapper is being deleted: its resources first, then the quota, then our finalizer."""
    if ctx.draft.is_true("ResourcesDeployed"):
        removal = remove(ctx)
        if not removal.done:
            ctx.draft.enter("Terminating")
            return ctx.decision(removal.steps, wake_at=removal.wake_at, retry=removal.retry)
        text = "Resources successfully deleted"
        ctx.draft.condition("ResourcesDeployed", "False", "Terminating", text)
    if ctx.draft.is_true("QuotaReserved"):
        ctx.draft.condition("QuotaReserved", "False", "Terminating", "No resources deployed")
        return ctx.decision()
    if not ctx.holds_finalizer:
        return Decision()
    return Decision(steps=ctx.finalizer(on=False))
