"""Explains the state of an AppWrapper and what to do about it, from facts that are already read.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from fournos.api.kinds import APPWRAPPER
from fournos.api.phase import Cause
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.resource import Obj, key_of
from fournos.engine.queueing.podsets import queue_name
from fournos.insight.children import current_workload
from fournos.insight.explanation import Explanation
from fournos.insight.facts import WaitFacts
from fournos.insight.queue_reasons import Words, in_queue, patch_command
from fournos.insight.reasons import pod_problem
from fournos.insight.values import name_of, one_line, phase_of, since, spec_of, status_of
from fournos.systems.appwrappers.health import ComponentState, alive
from fournos.systems.appwrappers.kinds import wrapped_kind
from fournos.systems.appwrappers.names import ANNOTATION

_KIND = f"{APPWRAPPER.plural}.{APPWRAPPER.group}"


@dataclass(frozen=True, slots=True)
class WrapperMembers:
    """The dependents of an AppWrapper that exist."""

    workloads: tuple[Obj, ...] = ()
    pods: tuple[Obj, ...] = ()
    components: Mapping[int, Obj] = field(default_factory=dict)
    """Index of the component → the live wrapped resource."""

    @property
    def workload(self) -> Obj | None:
        """The newest Workload that is not finished; None if there is none."""
        return current_workload(self.workloads)


def why(wrapper: Obj) -> str:
    """Returns the message of the condition that explains the current phase, on one line."""
    conditions = {
        "Failed": "Unhealthy",
        "Resetting": "Unhealthy",
        "Running": "PodsReady",
        "Succeeded": "PodsReady",
        "Suspending": "DeletingResources",
        "Terminating": "DeletingResources",
    }.get(phase_of(wrapper))
    found = (condition(wrapper, conditions) if conditions else None) or {}
    text = one_line(found.get("message"))
    reason = str(found.get("reason") or "")
    return f"{reason}: {text}".removesuffix(": ") if conditions == "Unhealthy" else text


def explain(wrapper: Obj, members: WrapperMembers, facts: WaitFacts | None, now: datetime) -> Explanation:
    """Explains the phase of the AppWrapper.  `facts` are those of its queue, None if it names no queue."""
    name, phase = name_of(wrapper), phase_of(wrapper)
    if wrapper["metadata"].get("deletionTimestamp"):
        return replace(_going(wrapper, members), verdict=f"{name} is being deleted; its resources go first.")
    match phase:
        case "New":
            return _new(wrapper, now)
        case "Suspended":
            return _suspended(wrapper, members, facts)
        case "Resuming":
            text = f"{name} is admitted; its resources are being made."
            return Explanation(text, _conditions(wrapper))
        case "Running":
            return _running(wrapper, members, now)
        case "Resetting":
            return _resetting(wrapper, now)
        case "Suspending":
            return replace(
                _going(wrapper, members), verdict=f"{name} is being suspended; its resources go first."
            )
        case _:
            return _ended(wrapper)


def _new(wrapper: Obj, now: datetime) -> Explanation:
    name, manager = name_of(wrapper), spec_of(wrapper).get("managedBy")
    if manager:
        return Explanation(f"{name} is run by {manager}, which its spec.managedBy names.")
    return Explanation(
        f"No operator has looked at {name} yet ({since(wrapper['metadata'].get('creationTimestamp'), now)}).",
        advice=(
            "see whether one runs: kubectl get pods -n appwrapper-system",
            "or start one here: fournos run --enable appwrappers",
        ),
    )


def _suspended(wrapper: Obj, members: WrapperMembers, facts: WaitFacts | None) -> Explanation:
    name = name_of(wrapper)
    if not queue_name(wrapper) or facts is None:
        fix = patch_command(_KIND, wrapper, '{"spec":{"suspend":false}}')
        text = f"{name} is suspended by its own spec.suspend, and names no queue that would end that."
        return Explanation(text, advice=(f"start it: {fix}",), cause=Cause.SUSPENDED)
    advice = (
        f"its events say why: kubectl describe {_KIND} {name} -n {key_of(wrapper).namespace}",
        "one of Kueue (its AppWrapper integration) and the operator "
        "(FOURNOS_APPWRAPPER_WORKLOADS=own) makes its Workload",
    )
    words = Words(
        unqueued=advice,
        uncovered=f"add it to the ClusterQueue, or wrap without it: kubectl delete {_KIND} {name}",
        impossible="ask for less: its components count together",
    )
    return in_queue(wrapper, members.workload, facts, words)


def _running(wrapper: Obj, members: WrapperMembers, now: datetime) -> Explanation:
    name = name_of(wrapper)
    stuck = tuple(problem for pod in members.pods if (problem := pod_problem(pod)))
    unhealthy = condition(wrapper, "Unhealthy") or {}
    if unhealthy.get("status") == "True":
        then = since(unhealthy.get("lastTransitionTime"), now)
        reason = unhealthy.get("reason")
        return Explanation(
            f"{name} met a failure {then} ago ({reason}), and is made again unless it recovers.",
            (*_unready(wrapper, members), *stuck),
            (f"how long it may take: annotation {ANNOTATION}failureGracePeriodDuration",),
        )
    if is_true(wrapper, "PodsReady"):
        return Explanation(f"{name} is running: {why(wrapper)}.")
    return Explanation(
        f"{name} runs, and not all of it is ready.",
        (*_conditions(wrapper), *_unready(wrapper, members), *stuck),
    )


def _unready(wrapper: Obj, found: WrapperMembers) -> tuple[str, ...]:
    lines = []
    for index, live in found.components.items():
        kind = wrapped_kind(spec_of(wrapper)["components"][index]["template"])
        if kind is None or kind.health is None:
            continue
        health = kind.health(live)
        if health.state in (ComponentState.PENDING, ComponentState.FAILING, ComponentState.FAILED):
            text = f"{kind.resource.kind} {name_of(live)} is {health.state.value}"
            lines.append(f"{text}: {health.message}" if health.message else text)
    return tuple(lines)


def _resetting(wrapper: Obj, now: datetime) -> Explanation:
    name, status = name_of(wrapper), status_of(wrapper)
    then = since((condition(wrapper, "Unhealthy") or {}).get("lastTransitionTime"), now)
    text = f"{name} met a failure {then} ago and is made again (reset {status.get('resettingCount') or 0})."
    return Explanation(
        text,
        _conditions(wrapper),
        (f"how often and how soon: annotations {ANNOTATION}retryLimit and retryPausePeriodDuration",),
    )


def _going(wrapper: Obj, members: WrapperMembers) -> Explanation:
    """Lists the resources and pods that still exist and so delay the deletion or suspension.

    The caller sets the verdict.
    """
    left = [
        f"{component.get('kind') or 'component'} {name_of(component)} is still there"
        for component in members.components.values()
    ]
    left += [f"pod {name_of(pod)} is still there" for pod in alive(members.pods)]
    advice = f"what stays is deleted by force: annotation {ANNOTATION}forcefulDeletionGracePeriodDuration"
    return Explanation("", tuple(left), (advice,) if left else ())


def _ended(wrapper: Obj) -> Explanation:
    name, phase = name_of(wrapper), phase_of(wrapper)
    verdict = f"{name} has ended: {phase}."
    if phase != "Failed":
        return Explanation(verdict)
    hold = (
        f"keep its pods for a look the next time: annotation {ANNOTATION}deletionOnFailureGracePeriodDuration"
    )
    return Explanation(verdict, (why(wrapper),), (hold,))


def _conditions(wrapper: Obj) -> tuple[str, ...]:
    """The conditions that report a problem, one line each."""
    lines = []
    for type_, bad in (("Unhealthy", "True"), ("PodsReady", "False")):
        found = condition(wrapper, type_) or {}
        if found.get("status") == bad and one_line(found.get("message")):
            lines.append(f"{type_}: {found.get('reason')}: {one_line(found.get('message'))}")
    return tuple(lines)
