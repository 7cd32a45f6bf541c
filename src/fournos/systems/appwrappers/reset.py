"""The phase Resetting: everything is taken down and created again after a pause. The quota is kept."""

from __future__ import annotations

from fournos.engine.runtime.decision import Decision
from fournos.systems.appwrappers.context import Context
from fournos.systems.appwrappers.finish import suspend
from fournos.systems.appwrappers.resume import claim
from fournos.systems.appwrappers.teardown import remove


def resetting(ctx: Context) -> Decision:
    """Takes everything down, waits for the retry pause, then claims the components again."""
    if ctx.suspended:
        return suspend(ctx)
    ctx.draft.clear("PodsReady", "Resetting")
    if ctx.draft.is_true("ResourcesDeployed"):
        removal = remove(ctx)
        if not removal.done:
            return ctx.decision(removal.steps, wake_at=removal.wake_at, retry=removal.retry)
        text = "Resources deleted for resetting AppWrapper"
        ctx.draft.condition("ResourcesDeployed", "False", "Resetting", text)
    paused_until = ctx.draft.since("Unhealthy") + ctx.tolerance.retry_pause
    if ctx.now < paused_until:
        return ctx.decision(wake_at=paused_until)
    # The next failure gets its full grace period and pause again.
    ctx.draft.clear("Unhealthy", "Resuming", "Reset complete; resuming")
    ctx.draft.condition("ResourcesDeployed", "True", "Resuming", "Reset complete; resuming")
    return claim(ctx)
