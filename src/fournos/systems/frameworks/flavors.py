"""Placement at creation, for kinds that cannot be changed later.

If a queue has only one possible flavor, its node labels and tolerations are set before Kueue assigns it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fournos.engine.kube.resource import Key, Obj
from fournos.engine.queueing.kinds import RESOURCE_FLAVOR
from fournos.engine.queueing.podsets import PodSetInfoError, distinct, union
from fournos.engine.runtime.decision import Facts, LiveGet, Present, Unknown
from fournos.systems.frameworks.podsets import follows


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
