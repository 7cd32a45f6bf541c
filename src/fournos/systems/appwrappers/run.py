"""The phase Running: the health of the components, each by its own kind, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass, field

from fournos.engine.api.conditions import Condition
from fournos.engine.kube.resource import Obj, is_terminating, uid_of
from fournos.engine.queueing.podsets import PodSetInfoError
from fournos.engine.runtime.decision import (
    Create,
    Decision,
    Delete,
    LiveGet,
    Present,
    Step,
    StepFailure,
    Unknown,
)
from fournos.systems.appwrappers import build
from fournos.systems.appwrappers.admission import not_created
from fournos.systems.appwrappers.build import PathError
from fournos.systems.appwrappers.finish import fail, remove, reset_or_fail, succeed, suspend
from fournos.systems.appwrappers.health import (
    ComponentHealth,
    ComponentState,
    Count,
    alive,
    component_of,
    count,
    gave_up,
    other,
    phase_of,
    unreplaced,
    uses,
)
from fournos.systems.appwrappers.kinds import WrappedKind, resource_of, wrapped_kind
from fournos.systems.appwrappers.status import CREATED, NOT_CREATED, Context

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
            body = build.component(ctx.wrapper, index, ctx.pod_sets(index))
            steps.append(Create(resource_of(template), body))
            ctx.draft.component_condition(index, CREATED)
    except (PodSetInfoError, PathError) as error:
        return fail(ctx, "CreateFailed", f"error creating components: {error}")
    ctx.draft.enter("Running")
    # The next pass at the latest when the time for all pods to appear is over.
    return ctx.decision(steps, wake_at=ctx.draft.since("ResourcesDeployed") + ctx.tolerance.admission)


def _not_created(ctx: Context, failure: StepFailure, create: Create) -> Decision:
    """Fails at once if a retry cannot help; otherwise retries until the admission grace is over."""
    _record_creation(ctx, failure, create)
    text = f"error creating components: {not_created(failure, create)}"
    if failure.error in _FATAL:
        return fail(ctx, "CreateFailed", text)
    until = ctx.draft.since("ResourcesDeployed") + ctx.tolerance.admission
    if ctx.now < until:
        return ctx.decision(wake_at=until, retry=True)
    return reset_or_fail(ctx, "CreateFailed", text)


def _record_creation(ctx: Context, failure: StepFailure, create: Create) -> None:
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


# --- Running -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Survey:
    """The health of all components."""

    missing: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    failing: list[str] = field(default_factory=list)
    """Components that report a failure which may pass."""
    working: int = 0
    """The number of components with pods that have not succeeded."""
    unready: int = 0
    counted: set[int] = field(default_factory=set)
    """Indexes of the components whose health is determined by their pods."""
    whole: dict[int, bool] = field(default_factory=dict)
    """For components whose health is determined by their status: True if no pod is missing."""
    unsure: bool = False


def running(ctx: Context) -> Decision:
    """Decides by the components' health: success, failure, reset, or readiness."""
    if ctx.suspended:
        return suspend(ctx)
    survey = _survey(ctx)
    if survey.missing:
        total = len(ctx.templates)
        text = f"Only found {total - len(survey.missing)} deployed components, but was expecting {total}"
        return fail(ctx, "MissingComponent", f"{text}: {', '.join(survey.missing)}")
    if survey.failed:
        text = f"Found {len(survey.failed)} failed components: {'; '.join(survey.failed)}"
        return _give_up(ctx, "FailedComponent", text)
    counts = count(ctx.pods_of(*survey.counted)) if survey.counted else Count()
    expected = sum(ctx.pods_expected(index) for index in survey.counted)
    done = counts.succeeded >= expected and not counts.there - counts.succeeded and not counts.failed
    if done and not survey.working and not survey.unsure:
        return _succeeded(ctx)
    failed = _failed_pods(ctx, survey)
    if failed or survey.failing:
        return _failing(ctx, survey, failed)
    bad = _on_bad_nodes(ctx)
    if bad:
        text = f"Workload contains pods using NoExecute resources on Nodes: {', '.join(bad)}"
        return _give_up(ctx, "AutopilotNoExecute", text, counts=False)
    ctx.draft.clear("Unhealthy", "FoundNoFailedPods")
    everything = count(ctx.pods)
    if not survey.unready and counts.running + counts.succeeded >= expected:
        text = f"{everything.running} pods running; {everything.succeeded} pods succeeded"
        ctx.draft.condition("PodsReady", "True", "SufficientPodsReady", text)
        return ctx.decision(retry=survey.unsure)
    return _unready(ctx, everything, unsure=survey.unsure)


def _failed_pods(ctx: Context, survey: Survey) -> list[Obj]:
    """Returns the failed pods that were not replaced."""
    counted = ctx.pods_of(*survey.counted) if survey.counted else []
    failed = {uid_of(pod): pod for pod in counted if phase_of(pod) == "Failed"}
    for index, whole in survey.whole.items():
        failed |= {uid_of(pod): pod for pod in unreplaced(ctx.pods_of(index), ctx.tolerance, whole=whole)}
    return list(failed.values())


def _failing(ctx: Context, survey: Survey, failed: list[Obj]) -> Decision:
    """Handles a failure that a controller may repair within the failure grace period.

    An exit code that rules out a retry ends the grace period at once.
    """
    reason, text = "FoundFailedPods", f"{len(failed)} pods failed"
    if not failed:
        reason = "FailedComponent"
        text = f"Found {len(survey.failing)} failed components: {'; '.join(survey.failing)}"
    # No message yet: it is written from the state at the end of the grace period.
    ctx.draft.condition("Unhealthy", "True", reason)
    until = ctx.draft.since("Unhealthy") + ctx.tolerance.failure
    if ctx.now >= until or gave_up(failed, ctx.tolerance):
        return _give_up(ctx, reason, text)
    return ctx.decision(wake_at=until, retry=survey.unsure)


def _unready(ctx: Context, everything: Count, *, unsure: bool) -> Decision:
    """Handles missing readiness.

    The grace period starts when the resources are created, and again whenever readiness is lost.
    """
    ctx.draft.condition("PodsReady", "False", "InsufficientPodsReady", str(everything))
    wanted = sum(ctx.pods_expected(index) for index in range(len(ctx.templates)) if ctx.pods_seen(index))
    grace = ctx.tolerance.warmup if everything.there >= wanted else ctx.tolerance.admission
    until = ctx.draft.since("ResourcesDeployed", "PodsReady") + grace
    if ctx.now >= until:
        return _give_up(ctx, "InsufficientPodsReady", str(everything))
    return ctx.decision(wake_at=until, retry=unsure)


def _give_up(ctx: Context, reason: str, message: str, *, counts: bool = True) -> Decision:
    """Resets or fails, but only after live reads: a cache that has missed an event must not end anything."""
    confirmed = ctx.confirmed()
    if not confirmed:
        return ctx.decision(retry=True)
    return reset_or_fail(
        ctx, reason, message, terminal=counts and gave_up(ctx.pods, ctx.tolerance), counts=counts
    )


# --- the components' health ------------------------------------------------------------------------------


def _survey(ctx: Context) -> Survey:
    """Returns the health of all components. Components that the cache shows as gone are read live."""
    survey = Survey()
    unconfirmed = _unconfirmed(ctx)
    answers = dict(zip(unconfirmed, ctx.facts.require_all(unconfirmed.values()), strict=True))
    for index, template in enumerate(ctx.templates):
        kind = wrapped_kind(template)
        if _has_finished(ctx, index):
            continue  # a finished component may be deleted at any time
        match answers.get(index):
            case None:
                obj = ctx.component(index)
            case Unknown():
                survey.unsure = True
                survey.working += 1
                continue
            case Present(value) if ctx.owns(value):
                obj = value
            case _:
                question = unconfirmed[index]
                survey.missing.append(f"{question.resource.kind} {question.key.name}")
                continue
        health = _health_of(ctx, index, kind, obj) if obj is not None else None
        if health is not None and obj is not None:
            _record(ctx, survey, index, health, obj)
        elif ctx.pod_sets(index):
            survey.counted.add(index)
    return survey


def _unconfirmed(ctx: Context) -> dict[int, LiveGet]:
    """Returns, by component index, the live reads of components that are gone or terminating in the cache."""
    return {
        index: question
        for index, watched in enumerate(ctx.observed.watched)
        if watched and not _has_finished(ctx, index) and (question := ctx.component_question(index))
        if (obj := ctx.component(index)) is None or is_terminating(obj)
    }


def _health_of(ctx: Context, index: int, kind: WrappedKind | None, obj: Obj) -> ComponentHealth | None:
    """Returns the health of a component; None if it is determined by its pods."""
    if kind is not None and kind.health is not None:
        try:
            return kind.health(obj)
        except (AttributeError, KeyError, TypeError, ValueError):
            return None  # a status of another shape: its pods tell
    if kind is not None:
        return None
    if not ctx.pod_sets(index):
        return None
    found = other(obj)
    if found is None or found.state is ComponentState.FAILED:
        return found
    return None if alive(ctx.pods_of(index)) else found


def _record(ctx: Context, survey: Survey, index: int, health: ComponentHealth, obj: Obj) -> None:
    """Adds the health of one component to the survey."""
    summary = f"{obj['metadata']['name']}: {health.message}".removesuffix(": ")
    if health.state is ComponentState.FAILED:
        survey.failed.append(summary)
        return
    if health.state is ComponentState.SUCCEEDED:
        ctx.draft.component_condition(index, Condition("Finished", "True", "Succeeded", ""))
        return
    if health.state is ComponentState.FAILING:
        survey.failing.append(summary)
    if ctx.pods_seen(index):
        survey.whole[index] = health.whole
    idle = ctx.pods_expected(index) == 0
    survey.working += not idle
    survey.unready += health.state is not ComponentState.READY


def _has_finished(ctx: Context, index: int) -> bool:
    found = ctx.draft.component(index)
    return found is not None and found.is_true("Finished")


def _on_bad_nodes(ctx: Context) -> list[str]:
    """Returns the nodes that one of the pods must leave."""
    nodes = set()
    for pod in alive(ctx.pods):
        spec = pod.get("spec") or {}
        resources = ctx.observed.evicting.get(str(spec.get("nodeName")), frozenset())
        if resources and uses(spec, resources) and not is_terminating(pod):
            nodes.add(str(spec["nodeName"]))
    return sorted(nodes)


def _succeeded(ctx: Context) -> Decision:
    """Handles an AppWrapper whose components have all succeeded.

    Pods that remain would run without quota. After the failure grace period the components that own them are
    deleted.
    """
    left = alive(ctx.pods)
    if not left:
        succeeded = count(ctx.pods).succeeded
        return succeed(ctx, f"{succeeded} pods succeeded and no running, pending, or failed pods")
    ended = [
        found.last_transition_time
        for one in ctx.draft.components
        if (found := one.condition("Finished")) and found.status == "True" and found.last_transition_time
    ]
    until = max(ended, default=ctx.now) + ctx.tolerance.failure
    if ctx.now < until:
        return ctx.decision(wake_at=until)
    confirmed = ctx.confirmed()
    steps = []
    total = len(ctx.templates)
    for index in sorted({index for pod in left if (index := component_of(pod, total)) is not None}):
        obj, question = ctx.component(index), ctx.component_question(index)
        if confirmed and obj is not None and question is not None and not is_terminating(obj):
            steps.append(Delete(question.resource, question.key, uid_of(obj)))
    return ctx.decision(steps, retry=not steps)
