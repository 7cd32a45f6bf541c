"""From Suspended or Resetting to Running: components are claimed in the status first, then created."""

from __future__ import annotations

from fournos.engine.api.conditions import Condition
from fournos.engine.queueing.podsets import PodSetInfoError
from fournos.engine.runtime.decision import Decision, StepFailure
from fournos.engine.runtime.steps import Create, Step
from fournos.systems.appwrappers import build
from fournos.systems.appwrappers.context import CREATED, NOT_CREATED, Context
from fournos.systems.appwrappers.finish import fail, reset_or_fail, suspend
from fournos.systems.appwrappers.kinds import resource_of
from fournos.systems.appwrappers.paths import PathError
from fournos.systems.appwrappers.remedies import not_created
from fournos.systems.appwrappers.teardown import remove

_FATAL = frozenset({"InvalidError", "NoSuchResourceError", "ForeignObject"})
"""Errors of a creation that a retry would meet again."""
_REFUSALS = _FATAL | {"ForbiddenError"}
"""Errors which prove that nothing was created."""


def suspended(ctx: Context) -> Decision:
    """Claims the components once `spec.suspend` is false."""
    if ctx.suspended:
        return ctx.decision()
    finalizer = ctx.finalizer(on=True)
    message = "Suspend is false"
    for type_, status in (
        ("QuotaReserved", "True"),
        ("ResourcesDeployed", "True"),
        ("PodsReady", "False"),
        ("Unhealthy", "False"),
    ):
        ctx.draft.condition(type_, status, "Resuming", message)
    return claim(ctx, finalizer)


def claim(ctx: Context, steps: tuple[Step, ...] = ()) -> Decision:
    """Writes names and kinds of all components to the status and enters the phase Resuming.

    This happens before the first component is created, so that a teardown finds every object that may exist.
    """
    for index, template in enumerate(ctx.templates):
        ctx.draft.amend_component(
            index,
            name=build.component_name(ctx.wrapper, index),
            kind=str(template["kind"]),
            apiVersion=str(template["apiVersion"]),
        )
        initiated = Condition("ResourcesDeployed", "Unknown", "ComponentCreationInitiated", "")
        ctx.draft.component_condition(index, initiated)
        ctx.draft.component_condition(index, Condition("Finished", "False", "Resuming", ""))
    ctx.draft.enter("Resuming")
    return ctx.decision(steps)


def resuming(ctx: Context) -> Decision:
    """Creates the components that are not there yet, then enters the phase Running."""
    if ctx.suspended:
        return suspend(ctx)
    failure = ctx.facts.failure
    if failure is not None and isinstance(failure.step, Create):
        return _not_created(ctx, failure, failure.step)
    # A stale AppWrapper must create nothing: it may have been suspended or deleted since.
    if not ctx.up_to_date():
        return Decision(retry=True)
    steps = []
    try:
        for index, template in enumerate(ctx.templates):
            deployed = ctx.deployed(index)
            if deployed is not None and deployed.status == "True":
                continue
            body = build.component(ctx.wrapper, index, ctx.pod_sets(index), ctx.settings)
            steps.append(Create(resource_of(template), body))
            ctx.draft.component_condition(index, CREATED)
    except (PodSetInfoError, PathError) as error:
        return fail(ctx, "CreateFailed", f"error creating components: {error}")
    ctx.draft.enter("Running")
    # The next pass at the latest when the time for all pods to appear is over.
    return ctx.decision(steps, wake_at=ctx.draft.since("ResourcesDeployed") + ctx.tolerance.admission)


def _not_created(ctx: Context, failure: StepFailure, create: Create) -> Decision:
    """Fails at once if a retry cannot help; otherwise retries until the admission grace is over."""
    _record(ctx, failure, create)
    text = f"error creating components: {not_created(failure, create)}"
    if failure.error in _FATAL:
        return fail(ctx, "CreateFailed", text)
    until = ctx.draft.since("ResourcesDeployed") + ctx.tolerance.admission
    if ctx.now < until:
        return ctx.decision(wake_at=until, retry=True)
    return reset_or_fail(ctx, "CreateFailed", text)


def _record(ctx: Context, failure: StepFailure, create: Create) -> None:
    """Records which components exist.

    They are created in order: those before the failed one exist, and those after it do not. A creation
    without an answer may have succeeded, so its condition stays Unknown.
    """
    failed = _component(ctx, create)
    for index in range(failed):
        ctx.draft.component_condition(index, CREATED)
    if failure.error in _REFUSALS:
        refused = Condition("ResourcesDeployed", "False", NOT_CREATED, not_created(failure, create))
        ctx.draft.component_condition(failed, refused)


def _component(ctx: Context, create: Create) -> int:
    name = create.body["metadata"]["name"]
    return next(
        index
        for index, component in enumerate(ctx.draft.components)
        if resource_of(ctx.templates[index]) == create.resource and component.name == name
    )


def resetting(ctx: Context) -> Decision:
    """Takes everything down, waits for the retry pause, then claims the components again; keeps the quota."""
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
