"""The ends of Resuming and Running (suspension, reset, failure, success), and the phases that follow."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from fournos.engine.api.conditions import Condition
from fournos.engine.api.values import format_duration
from fournos.engine.kube.resource import POD, Obj, is_terminating, key_of, uid_of
from fournos.engine.runtime.decision import Decision, Delete, LiveGet, Present, Step, Unknown
from fournos.systems.appwrappers.names import ANNOTATION
from fournos.systems.appwrappers.status import CREATED, Context

# --- teardown ------------------------------------------------------------------------------------------
# Kueue relies on this: the quota is free when ResourcesDeployed is False. A cache cannot prove it, so
# everything is read live.


@dataclass(frozen=True, slots=True)
class Removal:
    """The next steps of a teardown."""

    done: bool
    steps: tuple[Step, ...] = ()
    wake_at: datetime | None = None
    retry: bool = False


def remove(ctx: Context) -> Removal:
    """Returns the next steps, and writes the progress to the draft."""
    questions = {
        index: question
        for index in range(len(ctx.templates))
        if (question := ctx.component_question(index)) is not None
    }
    *answers, pods_answer = ctx.facts.require_all((*questions.values(), ctx.pods_question))
    left: list[tuple[int, LiveGet, Obj]] = []
    unsure = False
    for (index, question), answer in zip(questions.items(), answers, strict=True):
        if isinstance(answer, Unknown):
            unsure = unsure or not (answer.forbidden and ctx.was_refused(index))
        elif isinstance(answer, Present) and ctx.owns(answer.value):
            left.append((index, question, answer.value))
            ctx.draft.component_condition(index, CREATED)
            unsure = unsure or not ctx.observed.watched[index]
        else:
            _gone(ctx, index)
    unsure = unsure or isinstance(pods_answer, Unknown)
    pods: tuple[Obj, ...] = pods_answer.value if isinstance(pods_answer, Present) else ()
    if not left and not pods and not unsure:
        ctx.draft.clear("DeletingResources", "DeletionComplete")
        return Removal(done=True)
    if not ctx.draft.is_true("DeletingResources"):
        ctx.draft.condition("DeletingResources", "True", "DeletionInitiated")
    # Progress is guaranteed: after the grace period the deletion becomes forceful.
    force_at = ctx.draft.since("DeletingResources") + ctx.tolerance.forceful_deletion
    if ctx.now >= force_at:
        return Removal(done=False, steps=_forced(left, pods), retry=True)
    steps = tuple(
        Delete(
            question.resource,
            question.key,
            uid_of(obj),
            # Pods without our label cannot be listed: in the foreground they are gone before their owner.
            propagation="Background" if ctx.pods_seen(index) else "Foreground",
        )
        for index, question, obj in left
        if not is_terminating(obj)
    )
    return Removal(done=False, steps=steps, wake_at=force_at, retry=unsure)


def _gone(ctx: Context, index: int) -> None:
    """Records that no object of the component exists: it was deleted or never created."""
    deployed = ctx.deployed(index)
    match deployed.status if deployed is not None else "":
        case "True":
            condition = Condition("ResourcesDeployed", "False", "ComponentDeleted", "")
            ctx.draft.component_condition(index, condition)
        case "Unknown":
            text = "another component could not be created, or it was taken down before this one's turn"
            condition = Condition("ResourcesDeployed", "False", "ComponentNotCreated", text)
            ctx.draft.component_condition(index, condition)


def _forced(left: list[tuple[int, LiveGet, Obj]], pods: tuple[Obj, ...]) -> tuple[Step, ...]:
    """Returns deletions without a grace period: pods first, then components that have no pods left."""
    if pods:
        return tuple(Delete(POD, key_of(pod), uid_of(pod), grace_seconds=0) for pod in pods)
    return tuple(
        Delete(question.resource, question.key, uid_of(obj), grace_seconds=0) for _, question, obj in left
    )


# --- finish --------------------------------------------------------------------------------------------

_HOLD = f"{ANNOTATION}deletionOnFailureGracePeriodDuration"


def suspend(ctx: Context) -> Decision:
    """Enters the phase Suspending."""
    ctx.draft.event("Suspending", f"Externally suspended while in the {ctx.draft.phase} phase")
    ctx.draft.enter("Suspending")
    return ctx.decision()


def fail(ctx: Context, reason: str, message: str) -> Decision:
    """Enters the phase Failed. A retry would fail in the same way."""
    ctx.draft.condition("Unhealthy", "True", reason, message)
    # The debug hold counts from this transition, which is never reset.
    ctx.draft.condition("DeletionHeld", "True", "Failed", "The resources stay for a while for debugging")
    ctx.draft.enter("Failed").event(reason, message, warning=True)
    return ctx.decision()


def reset_or_fail(
    ctx: Context, reason: str, message: str, *, terminal: bool = False, counts: bool = True
) -> Decision:
    """Enters the phase Resetting, or Failed if the retries are used up.

    `terminal` is true if an exit code rules out a retry. `counts` is false if the reset is not counted.
    """
    if terminal or ctx.draft.resets >= ctx.tolerance.retry_limit:
        return fail(ctx, reason, message)
    ctx.draft.condition("Unhealthy", "True", reason, message)
    if counts:
        ctx.draft.count_reset()
    ctx.draft.enter("Resetting").event(reason, message, warning=True)
    return ctx.decision()


def succeed(ctx: Context, message: str) -> Decision:
    """Enters the phase Succeeded and releases the quota."""
    ctx.draft.condition("QuotaReserved", "False", "Succeeded", message)
    ctx.draft.condition("ResourcesDeployed", "True", "Succeeded", message)
    # It was ready at some time, even if no pass has seen it.
    ctx.draft.condition("PodsReady", "True", "SufficientPodsReady", message)
    ctx.draft.clear("Unhealthy", "Succeeded").enter("Succeeded").event("Succeeded", message)
    return ctx.decision()


# --- what follows ----------------------------------------------------------------------------------------


def suspending(ctx: Context) -> Decision:
    """Takes everything down, then enters the phase Suspended."""
    removal = remove(ctx)
    if not removal.done:
        return ctx.decision(removal.steps, wake_at=removal.wake_at, retry=removal.retry)
    message = "Suspend is true"
    # Set only after the teardown is confirmed: from here on Kueue may give the quota to others.
    ctx.draft.condition("ResourcesDeployed", "False", "Suspended", message)
    ctx.draft.condition("QuotaReserved", "False", "Suspended", message)
    ctx.draft.clear("PodsReady", "Suspended", message).clear("Unhealthy", "Suspended", message)
    ctx.draft.enter("Suspended")
    return ctx.decision()


def failed(ctx: Context) -> Decision:
    """Deletes the resources of a failed AppWrapper after its debug hold."""
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
    """Deletes the resources after their time to live. The quota is already released."""
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
    """Handles an AppWrapper with a deletionTimestamp.

    The resources are deleted first, then the quota is released, then our finalizer is removed.
    """
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
