"""The phase Running: the health of the components, each by its own kind, and what follows from it."""

from __future__ import annotations

from dataclasses import dataclass, field

from fournos.engine.api.conditions import Condition
from fournos.engine.kube.resource import Obj, is_terminating, uid_of
from fournos.engine.runtime.decision import Decision, LiveGet, Present, Unknown
from fournos.engine.runtime.steps import Delete
from fournos.systems.appwrappers import component_health
from fournos.systems.appwrappers.autopilot import uses
from fournos.systems.appwrappers.component_health import ComponentHealth, ComponentState
from fournos.systems.appwrappers.context import Context
from fournos.systems.appwrappers.finish import fail, reset_or_fail, succeed, suspend
from fournos.systems.appwrappers.kinds import WrappedKind, wrapped_kind
from fournos.systems.appwrappers.pods import Count, alive, component_of, count, gave_up, phase_of, unreplaced


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
    if kind is not None:
        return kind.health(obj) if kind.health is not None else None
    if not ctx.pod_sets(index):
        return None
    health = component_health.other(obj)
    if health is None or health.state is ComponentState.FAILED:
        return health
    return None if alive(ctx.pods_of(index)) else health


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
