"""AppWrappers: their components, what belongs to them, and why one waits, is made again or has failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from fournos.api.appwrapper import DEFINITION
from fournos.api.kinds import APPWRAPPER
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.api.rules import Violation
from fournos.engine.api.schema_readers import schema_violations
from fournos.engine.kube.errors import ForbiddenError, NoSuchResourceError, NotFoundError
from fournos.engine.kube.resource import JOB, POD, Key, Obj, controls, key_of
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.podsets import queue_name
from fournos.insight.children import current_workload
from fournos.insight.errors import ManifestError, refusal
from fournos.insight.explanation import Explanation
from fournos.insight.facts import WaitFacts, queue_facts
from fournos.insight.queue_reasons import Words, in_queue, patch_command
from fournos.insight.source import Source
from fournos.insight.starting import advice as advice_for
from fournos.insight.starting import not_starting
from fournos.insight.values import NEW, name_of, one_line, phase_of, since, spec_of, status_of
from fournos.systems.appwrappers.admission import problems
from fournos.systems.appwrappers.build import WrapError, wrap
from fournos.systems.appwrappers.health import ComponentState, Count, alive, component_of, count, other
from fournos.systems.appwrappers.kinds import resource_of, wrapped_kind
from fournos.systems.appwrappers.names import ANNOTATION, LABEL, USER_LABEL

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


_ADVICE: Final[Mapping[str, str]] = {
    "Resetting": f"how often and how soon: annotations {ANNOTATION}retryLimit and retryPausePeriodDuration",
    "Suspending": f"by force: annotation {ANNOTATION}forcefulDeletionGracePeriodDuration",
    "Terminating": f"by force: annotation {ANNOTATION}forcefulDeletionGracePeriodDuration",
    "Failed": f"keep its pods the next time: annotation {ANNOTATION}deletionOnFailureGracePeriodDuration",
}


def explain(wrapper: Obj, members: WrapperMembers, facts: WaitFacts | None, now: datetime) -> Explanation:
    """Explains the phase of the AppWrapper.  `facts` are those of its queue, None if it names no queue."""
    name, phase = name_of(wrapper), phase_of(wrapper)
    if wrapper["metadata"].get("deletionTimestamp"):
        phase = "Terminating"
    if phase == NEW:
        return _new(wrapper, now)
    if phase == "Suspended":
        return _suspended(wrapper, members, facts)
    verdicts = {
        "Resuming": f"{name} is admitted; its resources are being made.",
        "Running": _running(wrapper, now),
        "Resetting": f"{name} met a failure and is made again (reset {resets(wrapper)}).",
        "Suspending": f"{name} is being suspended; its resources go first.",
        "Terminating": f"{name} is being deleted; its resources go first.",
    }
    advice = (_ADVICE[phase],) if phase in _ADVICE else ()
    verdict = verdicts.get(phase, f"{name} has ended: {phase}.")
    return Explanation(verdict, _evidence(wrapper, members, phase), advice)


def _running(wrapper: Obj, now: datetime) -> str:
    name, unhealthy = name_of(wrapper), condition(wrapper, "Unhealthy") or {}
    if unhealthy.get("status") == "True":
        ago, reason = since(unhealthy.get("lastTransitionTime"), now), unhealthy.get("reason")
        return f"{name} met a failure {ago} ago ({reason}), and is made again unless it recovers."
    if is_true(wrapper, "PodsReady"):
        return f"{name} is running: {why(wrapper)}."
    return f"{name} runs, and not all of it is ready."


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
    if facts is None:
        fix = patch_command(_KIND, wrapper, '{"spec":{"suspend":false}}')
        text = f"{name} is suspended by its own spec.suspend, and names no queue that would end that."
        return Explanation(text, advice=(f"start it: {fix}",))
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


def _evidence(wrapper: Obj, members: WrapperMembers, phase: str) -> tuple[str, ...]:
    """The conditions that report a problem, and the components and pods that are not as they must be."""
    lines = []
    for type_, bad in (("Unhealthy", "True"), ("PodsReady", "False")):
        stated = condition(wrapper, type_) or {}
        if stated.get("status") == bad and one_line(stated.get("message")) and phase != "Succeeded":
            lines.append(f"{type_}: {stated.get('reason')}: {one_line(stated.get('message'))}")
    going = phase in ("Suspending", "Terminating")
    for index, live in members.components.items():
        kind = wrapped_kind(spec_of(wrapper)["components"][index]["template"])
        health = kind.health(live) if kind is not None and kind.health is not None else None
        if going:
            lines.append(f"{live.get('kind') or 'component'} {name_of(live)} is still there")
        elif kind and health and health.state in _NOT_READY:
            text = f"{kind.resource.kind} {name_of(live)} is {health.state.value}: {health.message}"
            lines.append(text.removesuffix(": "))
    if going:
        return (*lines, *(f"pod {name_of(pod)} is still there" for pod in alive(members.pods)))
    return tuple(lines)


_NOT_READY: Final = (ComponentState.PENDING, ComponentState.FAILING, ComponentState.FAILED)


async def members(source: Source, wrapper: Obj) -> WrapperMembers:
    """Returns the dependents of the AppWrapper.

    A kind that is not installed, or that RBAC does not let us read, counts as having no objects.
    """
    namespace, name = key_of(wrapper)

    async def listed(resource: Any, selector: str) -> list[Obj]:
        try:
            return (await source.list(resource, namespace=namespace, selector=selector)).items
        except (NoSuchResourceError, ForbiddenError):
            return []

    components: dict[int, Obj] = {}
    for index, status in enumerate(status_of(wrapper).get("componentStatus") or ()):
        if status.get("name"):
            resource = resource_of(spec_of(wrapper)["components"][index]["template"])
            try:
                live = await source.get(resource, Key(namespace, status["name"]))
            except (NotFoundError, NoSuchResourceError, ForbiddenError):
                continue
            if controls(wrapper, live):
                components[index] = live
    return WrapperMembers(
        workloads=tuple(one for one in await listed(WORKLOAD, "") if controls(wrapper, one)),
        pods=tuple(await listed(POD, f"{LABEL}={name}")),
        components=components,
    )


async def explained(source: Source, wrapper: Obj, now: datetime) -> tuple[Explanation, WrapperMembers]:
    """Explains why the AppWrapper waits, is reset or has failed; also returns its dependents."""
    dependents = await members(source, wrapper)
    queue = queue_name(wrapper)
    facts = await queue_facts(source, wrapper, queue) if queue else None
    explanation = explain(wrapper, dependents, facts, now)
    if phase_of(wrapper) == "Running":
        jobs = [live for live in dependents.components.values() if live.get("kind") == JOB.kind]
        stuck = await not_starting(source, dependents.pods, jobs)
        helps = (*advice_for(stuck, key_of(wrapper).namespace), *explanation.advice)
        explanation = replace(explanation, because=(*explanation.because, *stuck), advice=helps)
    return explanation, dependents


@dataclass(frozen=True, slots=True)
class WrappedComponent:
    """A wrapped resource."""

    kind: str
    name: str
    """The name of the resource; "(generated)" before one with a generateName is created."""
    state: str
    """Such as ready, pending, succeeded or "failed: REASON"; "not made" before its creation, "gone" after."""
    pods: Count | None
    """Its pods by state; None if it has none."""


def components(wrapper: Obj, members: WrapperMembers) -> list[WrappedComponent]:
    """Returns the components in their order in the spec."""
    statuses = status_of(wrapper).get("componentStatus") or ()
    listed = spec_of(wrapper).get("components") or ()
    result = []
    for index, component in enumerate(listed):
        template = component["template"]
        status = statuses[index] if index < len(statuses) else {}
        asked = (template.get("metadata") or {}).get("name") or "(generated)"
        pods = [pod for pod in members.pods if component_of(pod, len(listed)) == index]
        result.append(
            WrappedComponent(
                str(template.get("kind")),
                str(status.get("name") or asked),
                _state(template, status, members.components.get(index)),
                count(pods) if pods else None,
            )
        )
    return result


def _state(template: Obj, status: Any, live: Obj | None) -> str:
    if is_true({"status": status}, "Finished"):
        return ComponentState.SUCCEEDED.value
    if live is None:
        deployed = condition({"status": status}, "ResourcesDeployed") or {}
        return "gone" if deployed.get("status") == "True" else "not made"
    kind = wrapped_kind(template)
    judged = other if kind is None else kind.health
    judgement = judged(live) if judged is not None else None
    if judgement is None:
        return "there"
    return f"{judgement.state.value}: {judgement.message}".removesuffix(": ")


def kinds(wrapper: Obj) -> list[str]:
    """The kinds of the components with their numbers, such as Pod, 2 Service."""
    found = [str(one["template"].get("kind")) for one in spec_of(wrapper).get("components") or ()]
    counts = {kind: found.count(kind) for kind in found}
    return [kind if number == 1 else f"{number} {kind}" for kind, number in counts.items()]


def user_of(wrapper: Obj) -> str:
    """The user who created it, as the webhook has recorded; "" if it was not recorded."""
    return str((wrapper["metadata"].get("labels") or {}).get(USER_LABEL) or "")


def resets(wrapper: Obj) -> int:
    """How often the AppWrapper was reset after a failure that counts."""
    return int(status_of(wrapper).get("resettingCount") or 0)


def wrapped(
    manifests: Sequence[Mapping[str, Any]],
    *,
    name: str | None,
    namespace: str | None,
    queue: str | None,
    option: str = "--name",
) -> dict[str, Any]:
    """Returns the AppWrapper of these manifests, checked by the rules of the API server and the webhook.

    Without a `name` it is named like the first resource.  `option` is the caller's way to name it, for the
    error.  Raises ManifestError.
    """
    chosen = name or str((manifests[0].get("metadata") or {}).get("name") or "")
    if not chosen:
        raise ManifestError("the first manifest has no name to take", fix=f"give one with {option}")
    try:
        wrapper = wrap(manifests, name=chosen, namespace=namespace, queue=queue)
    except WrapError as error:
        raise ManifestError(str(error), fix="correct the manifests and wrap them again") from None
    _refuse(wrapper, problems(wrapper))
    return wrapper


def accepted(wrapper: Obj) -> None:
    """Raises ManifestError with every reason for which this AppWrapper would be refused."""
    _refuse(wrapper, schema_violations(DEFINITION, wrapper) or problems(wrapper))


def _refuse(wrapper: Obj, broken: Sequence[Violation]) -> None:
    if broken:
        raise refusal(name_of(wrapper), broken, fix="correct the manifests and wrap them again")
