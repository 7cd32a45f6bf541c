"""The pod sets that an object requests from Kueue, and the patches of an admission."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fournos.engine.kube.resource import Key, Obj, joined, merge_patch, nested, read
from fournos.engine.queueing.kinds import RESOURCE_FLAVOR
from fournos.engine.queueing.podsets import (
    CLUSTER_QUEUE_LABEL,
    LOCAL_QUEUE_LABEL,
    POD_SET_LABEL,
    WORKLOAD_ANNOTATION,
    PodSetInfo,
    PodSetInfoError,
    RequestsError,
    distinct,
    konflux_requests,
    parse_requests,
    placed,
    template_problem,
    union,
)
from fournos.engine.queueing.workload import PodSet
from fournos.engine.runtime.decision import Facts, LiveGet, Present, Unknown
from fournos.systems.frameworks.kinds import PIPELINE_RUN, Framework, PodSetRule

MAIN: Final = "main"
_PLACEMENT: Final = ("nodeSelector", "tolerations", "affinity", "priorityClassName", "runtimeClassName")
_USUAL_LABELS: Final = frozenset({POD_SET_LABEL, LOCAL_QUEUE_LABEL, CLUSTER_QUEUE_LABEL})


def requests_of(framework: Framework, obj: Obj) -> dict[str, str | int]:
    """Returns the requests of an object without pod templates.  Raises RequestsError."""
    annotation, annotations = framework.requests.annotation, obj["metadata"].get("annotations") or {}
    text = annotations.get(annotation)
    if text is None:
        is_run = framework.resource == PIPELINE_RUN.resource
        return {**framework.default_requests, **(konflux_requests(annotations) if is_run else {})}
    try:
        return {**parse_requests(text)}
    except RequestsError as error:
        raise RequestsError(f"annotation {annotation}: {error}") from None


def pod_sets(framework: Framework, obj: Obj) -> list[PodSet]:
    """Returns the pod sets of an object.  Raises RequestsError."""
    if framework.pod_sets:
        return [_from_template(rule, obj) for rule in framework.pod_sets]
    where = framework.requests.pod_template
    placement = (read(obj, where) if where else None) or {}
    if problem := template_problem({"spec": placement}):
        raise RequestsError(f"{where}: {problem}")
    spec = {name: placement[name] for name in _PLACEMENT if placement.get(name)}
    requests = {name: str(amount) for name, amount in requests_of(framework, obj).items()}
    container = {"name": MAIN, "image": MAIN, "resources": {"requests": requests}}
    return [PodSet(MAIN, 1, {"spec": {**spec, "containers": [container], "restartPolicy": "Never"}})]


def _from_template(rule: PodSetRule, obj: Obj) -> PodSet:
    template = read(obj, rule.template)
    if not isinstance(template, Mapping) or not isinstance(template.get("spec"), Mapping):
        raise RequestsError(f"there is no pod template at {rule.template}")
    if problem := template_problem(template):
        raise RequestsError(f"{rule.template}: {problem}")
    count = read(obj, rule.count) if rule.count else 1
    if count is None:
        count = 1
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise RequestsError(f"{rule.count} is not a number of pods")
    meta = template.get("metadata") or {}
    metadata = {name: meta[name] for name in ("labels", "annotations") if meta.get(name)}
    return PodSet(rule.name, count, {"metadata": metadata, "spec": template["spec"]})


def known_pod_sets(workload: Obj) -> list[PodSet]:
    """Returns the pod sets of an existing Workload."""
    return [
        PodSet(one["name"], one.get("count", 1), one["template"], one.get("minCount"))
        for one in workload["spec"]["podSets"]
    ]


# --- patches of an admission -------------------------------------------------------------------------


def placement(framework: Framework, obj: Obj, infos: Sequence[PodSetInfo]) -> dict[str, Any]:
    """Returns the merge patch that places the pods.

    Raises PodSetInfoError if the kind has no field for it: an admission is applied or refused, never ignored.
    """
    if not framework.pod_sets:
        return _at_once(framework, obj, infos)
    if len(infos) != len(framework.pod_sets):
        raise PodSetInfoError(f"expecting {len(framework.pod_sets)} podset infos, got {len(infos)}")
    patches = []
    for rule, info in zip(framework.pod_sets, infos, strict=True):
        template = read(obj, rule.template)
        patch = merge_patch(template, placed(template, info))
        if patch and framework.hold.only_at_creation:
            raise PodSetInfoError(_refusal(framework, info))
        patches.append(nested(rule.template, patch))
    return joined(*patches)


def restored(framework: Framework, obj: Obj, infos: Sequence[PodSetInfo]) -> dict[str, Any]:
    """Returns the merge patch that removes an admission's changes: it restores these infos."""
    patches = []
    for rule, info in zip(framework.pod_sets, infos, strict=False):
        template = read(obj, rule.template)
        if not template_problem(template):  # else there is nothing of ours in it
            patches.append(nested(rule.template, merge_patch(template, _bare(template, info))))
    where = framework.requests.pod_template
    if where and not framework.pod_sets and infos and not framework.hold.only_at_creation:
        now = read(obj, where) or {}
        if template_problem({"spec": now}):
            return joined(*patches)
        before = {
            "nodeSelector": dict(infos[0].node_selector) or None,
            "tolerations": list(infos[0].tolerations) or None,
        }
        patches.append(nested(where, merge_patch(now, {**now, **before})))
    return joined(*patches)


def _bare(template: Obj, info: PodSetInfo) -> dict[str, Any]:
    meta, spec = dict(template.get("metadata") or {}), dict(template.get("spec") or {})
    meta |= {"labels": dict(info.labels) or None, "annotations": dict(info.annotations) or None}
    spec |= {
        "nodeSelector": dict(info.node_selector) or None,
        "tolerations": list(info.tolerations) or None,
        "schedulingGates": [{"name": name} for name in info.scheduling_gates] or None,
    }
    return {**template, "metadata": meta, "spec": spec}


def _at_once(framework: Framework, obj: Obj, infos: Sequence[PodSetInfo]) -> dict[str, Any]:
    """Places all pods alike, by the only field that the kind has for it."""
    if len(infos) != 1:
        raise PodSetInfoError(f"expecting 1 podset info, got {len(infos)}")
    (info,) = infos
    extra = [
        *sorted(set(info.labels) - _USUAL_LABELS),
        *sorted(set(info.annotations) - {WORKLOAD_ANNOTATION}),
    ]
    if extra:
        raise PodSetInfoError(
            f"admission wants {extra[0]} on the pods of a {framework.resource.kind}: it has no place for it"
        )
    if info.scheduling_gates:
        raise PodSetInfoError(
            f"a topology was assigned, which the pods of a {framework.resource.kind} cannot follow"
        )
    where = framework.requests.pod_template
    now = (read(obj, where) if where else None) or {}
    if follows(now, info.node_selector, info.tolerations):
        return {}
    if where is None or framework.hold.only_at_creation:
        raise PodSetInfoError(_refusal(framework, info))
    wanted = placed({"spec": now}, PodSetInfo(MAIN, 1, {}, {}, info.node_selector, info.tolerations))["spec"]
    return nested(where, merge_patch(now, wanted))


def follows(pod_template: Obj, selector: Mapping[str, str], tolerations: Sequence[Obj]) -> bool:
    """Returns True if pods of this template already have the flavor's node labels and tolerations."""
    node_selector: Mapping[str, str] = pod_template.get("nodeSelector") or {}
    tolerated = pod_template.get("tolerations") or ()
    return all(node_selector.get(key) == value for key, value in selector.items()) and all(
        one in tolerated for one in tolerations
    )


def _refusal(framework: Framework, info: PodSetInfo) -> str:
    kind, where = framework.resource.kind, framework.requests.pod_template
    needs = ", ".join(_words(info))
    if where is None:
        return f"the assigned flavor needs {needs}, and a {kind} has no place for it: use a flavor without"
    return (
        f"the assigned flavor needs {needs}, and a {kind} cannot be changed after its creation: "
        f"write it into {where}, or use a flavor without"
    )


def _words(info: PodSetInfo) -> Iterator[str]:
    for key, value in sorted(info.node_selector.items()):
        yield f"nodeSelector {key}={value}"
    for one in info.tolerations:
        yield f"a toleration of {one.get('key') or 'every taint'}"


# --- placement at creation -----------------------------------------------------------------------------
# Placement at creation, for kinds that cannot be changed later.
#
# If a queue has only one possible flavor, its node labels and tolerations are set before Kueue assigns it.


@dataclass(frozen=True, slots=True)
class PlacementPatch:
    """The patch of a pod template, or a warning why no placement is known."""

    patch: Mapping[str, Any] = field(default_factory=dict)
    warning: str = ""


def flavor_questions(cluster_queue: Obj, requests: Iterable[str]) -> tuple[LiveGet, ...]:
    """Returns the live reads of all flavors that the queue may assign for these requests."""
    names = (name for group in _groups(cluster_queue, requests) for name in group)
    return tuple(LiveGet(RESOURCE_FLAVOR, Key("", name)) for name in dict.fromkeys(names))


def place(
    cluster_queue: Obj, requests: Iterable[str], pod_template: Obj, facts: Facts, *, where: str
) -> PlacementPatch:
    """Returns the merge patch of the pod template.  The answers to `flavor_questions` must be available.

    Raises PodSetInfoError if the template contradicts every flavor that the queue has for the requests.
    """
    selector: Mapping[str, str] = pod_template.get("nodeSelector") or {}
    node_selector: dict[str, str] = dict(selector)
    tolerations: list[Any] = list(pod_template.get("tolerations") or ())
    for names in _groups(cluster_queue, requests):
        answers = {name: facts.require(LiveGet(RESOURCE_FLAVOR, Key("", name))) for name in names}
        unknown = next((answer for answer in answers.values() if isinstance(answer, Unknown)), None)
        if unknown is not None:
            return PlacementPatch(warning=f"the flavors of the queue could not be read: {unknown.reason}")
        specs = {
            name: answer.value.get("spec") or {}
            for name, answer in answers.items()
            if isinstance(answer, Present)
        }
        fitting = {name: spec for name, spec in specs.items() if _compatible(spec, selector)}
        if specs and not fitting:
            text = f"nodeSelector in {where} fits no flavor of the queue ({', '.join(specs)})"
            raise PodSetInfoError(text)
        if len(fitting) == 1:
            (spec,) = fitting.values()
            node_selector = union("nodeSelector", node_selector, spec.get("nodeLabels"))
            tolerations = distinct(tolerations, spec.get("tolerations"))
        elif any(not _follows(pod_template, spec) for spec in fitting.values()):
            return PlacementPatch(
                warning=f"the queue has several flavors with node labels or tolerations "
                f"({', '.join(fitting)}): write those of one into {where}, or its admission is refused"
            )
    patch: dict[str, Any] = {}
    if node_selector != dict(selector):
        patch["nodeSelector"] = node_selector
    if tolerations != list(pod_template.get("tolerations") or ()):
        patch["tolerations"] = tolerations
    return PlacementPatch(patch)


def _groups(cluster_queue: Obj, requests: Iterable[str]) -> list[tuple[str, ...]]:
    """Returns the flavors of each resource group that covers a requested resource."""
    resources = set(requests)
    return [
        tuple(flavor["name"] for flavor in group["flavors"])
        for group in cluster_queue["spec"].get("resourceGroups") or ()
        if resources & set(group["coveredResources"])
    ]


def _compatible(spec: Obj, selector: Mapping[str, str]) -> bool:
    return all(selector.get(key, value) == value for key, value in (spec.get("nodeLabels") or {}).items())


def _follows(pod_template: Obj, spec: Obj) -> bool:
    return follows(pod_template, spec.get("nodeLabels") or {}, spec.get("tolerations") or ())
