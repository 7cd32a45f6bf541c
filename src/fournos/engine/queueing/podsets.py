"""The changes that an admission makes to pod templates, by Kueue's Workload API and job framework.

These are node selectors and tolerations of the assigned flavors, labels, scheduling gates, and the updates of
admission checks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final, TypeAlias

from fournos.engine.api.values import LARGEST, parse_quantity
from fournos.engine.kube.resource import Obj
from fournos.engine.queueing.workload import QUEUE_NAME_LABEL

POD_SET_LABEL = "kueue.x-k8s.io/podset"
LOCAL_QUEUE_LABEL = "kueue.x-k8s.io/local-queue-name"
CLUSTER_QUEUE_LABEL = "kueue.x-k8s.io/cluster-queue-name"
WORKLOAD_ANNOTATION = "kueue.x-k8s.io/workload"
TOPOLOGY_GATE = "kueue.x-k8s.io/topology"
UNCONSTRAINED_ANNOTATION = "kueue.x-k8s.io/podset-unconstrained-topology"
_LABEL_MAX = 63


class PodSetInfoError(Exception):
    """An admission does not fit the job; another try would fail again."""


class MissingFlavorError(Exception):
    """A ResourceFlavor of the admission does not exist (yet)."""


@dataclass(frozen=True, slots=True)
class PodSetInfo:
    """The changes to the pod template of one pod set."""

    name: str
    count: int
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Obj, ...] = ()
    scheduling_gates: tuple[str, ...] = ()


def union(what: str, *maps: Mapping[str, str] | None) -> dict[str, str]:
    """Returns all entries.  Raises PodSetInfoError if two maps have different values for a key."""
    merged: dict[str, str] = {}
    for one in maps:
        for key, value in (one or {}).items():
            if merged.setdefault(key, value) != value:
                raise PodSetInfoError(f"conflict for {what} key={key}: {merged[key]!r} and {value!r}")
    return merged


def distinct(*lists: Iterable[Any] | None) -> list[Any]:
    """Returns all items in order, each only once."""
    collected: list[Any] = []
    for items in lists:
        collected += [item for item in items or () if item not in collected]
    return collected


def infos_of(workload: Obj, flavors: Mapping[str, Obj]) -> tuple[PodSetInfo, ...]:
    """Returns the infos of an admitted Workload, in the order of its pod sets.

    Raises MissingFlavorError, and PodSetInfoError if flavors or admission checks contradict each other.
    """
    spec, status = workload["spec"], workload.get("status") or {}
    admission = status.get("admission") or {}
    pod_sets = {pod_set["name"]: pod_set for pod_set in spec["podSets"]}
    updates = [
        update for check in status.get("admissionChecks") or () for update in check.get("podSetUpdates") or ()
    ]
    infos = []
    for assigned in admission.get("podSetAssignments") or ():
        name = assigned["name"]
        pod_set = pod_sets.get(name)
        if pod_set is None:
            raise PodSetInfoError(f"the admission names pod set {name}, which the Workload does not have")
        info = _assigned(workload, pod_set, assigned, flavors)
        for update in updates:
            if update["name"] == name:
                info = _updated(info, update)
        infos.append(info)
    return tuple(infos)


def _assigned(workload: Obj, pod_set: Obj, assigned: Obj, flavors: Mapping[str, Obj]) -> PodSetInfo:
    names = dict.fromkeys((assigned.get("flavors") or {}).values())
    missing = [name for name in names if name not in flavors]
    if missing:
        raise MissingFlavorError(f"ResourceFlavor '{missing[0]}' not found")
    specs = [flavors[name].get("spec") or {} for name in names]
    labels = {POD_SET_LABEL: pod_set["name"]}
    queue, cluster_queue = workload["spec"].get("queueName"), workload["status"]["admission"]["clusterQueue"]
    if queue and len(queue) <= _LABEL_MAX:
        labels[LOCAL_QUEUE_LABEL] = queue
    if len(cluster_queue) <= _LABEL_MAX and "." not in cluster_queue:
        labels[CLUSTER_QUEUE_LABEL] = cluster_queue
    annotations = {WORKLOAD_ANNOTATION: workload["metadata"]["name"]}
    gates: tuple[str, ...] = ()
    if assigned.get("topologyAssignment"):
        gates = (TOPOLOGY_GATE,)
        if not pod_set.get("topologyRequest"):
            annotations[UNCONSTRAINED_ANNOTATION] = "true"
    count = assigned.get("count")
    return PodSetInfo(
        name=pod_set["name"],
        count=pod_set.get("count", 1) if count is None else count,
        labels=labels,
        annotations=annotations,
        node_selector=union("nodeSelector", *(spec.get("nodeLabels") for spec in specs)),
        tolerations=tuple(distinct(*(spec.get("tolerations") for spec in specs))),
        scheduling_gates=gates,
    )


def _updated(info: PodSetInfo, update: Obj) -> PodSetInfo:
    return PodSetInfo(
        name=info.name,
        count=info.count,
        labels=union("label", info.labels, update.get("labels")),
        annotations=union("annotation", info.annotations, update.get("annotations")),
        node_selector=union("nodeSelector", info.node_selector, update.get("nodeSelector")),
        tolerations=tuple(distinct(info.tolerations, update.get("tolerations"))),
        scheduling_gates=info.scheduling_gates,
    )


def original_infos(workload: Obj) -> tuple[PodSetInfo, ...]:
    """Returns the pod templates' values at the creation of the Workload; stopping a job restores them."""
    return tuple(_original(pod_set) for pod_set in workload["spec"]["podSets"])


def _original(pod_set: Obj) -> PodSetInfo:
    template = pod_set.get("template") or {}
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    return PodSetInfo(
        name=pod_set["name"],
        count=pod_set.get("count", 1),
        labels=meta.get("labels") or {},
        annotations=meta.get("annotations") or {},
        node_selector=spec.get("nodeSelector") or {},
        tolerations=tuple(spec.get("tolerations") or ()),
        scheduling_gates=tuple(gate["name"] for gate in spec.get("schedulingGates") or ()),
    )


def placed(template: Obj, info: PodSetInfo) -> dict[str, Any]:
    """Returns a copy of the pod template with the info added.

    Raises PodSetInfoError if the template already has another value.
    """
    meta, spec = dict(template.get("metadata") or {}), dict(template.get("spec") or {})
    meta["labels"] = union("label", meta.get("labels"), info.labels)
    meta["annotations"] = union("annotation", meta.get("annotations"), info.annotations)
    spec["nodeSelector"] = union("nodeSelector", spec.get("nodeSelector"), info.node_selector)
    spec["tolerations"] = distinct(spec.get("tolerations"), info.tolerations)
    gates = ({"name": name} for name in info.scheduling_gates)
    spec["schedulingGates"] = distinct(spec.get("schedulingGates"), gates)
    for part, keys in (
        (meta, ("labels", "annotations")),
        (spec, ("nodeSelector", "tolerations", "schedulingGates")),
    ):
        for key in keys:
            if not part[key]:
                del part[key]
    return {**template, "metadata": meta, "spec": spec}


def queue_name(job: Obj) -> str:
    """Returns the LocalQueue that the job's label names, "" for none."""
    return str((job["metadata"].get("labels") or {}).get(QUEUE_NAME_LABEL) or "")


# --- pod templates of strangers ---------------------------------------------------------------------
# A custom resource may hold a pod template that no API server has checked.

_TEXT, _QUANTITY = "a text", "a quantity"
_Shape: TypeAlias = "str | Mapping[str, _Shape] | tuple[_Shape]"
"""The type of a value: a scalar, an object with these fields ("*": any field), or a list of one shape."""
_TEXTS: Final[_Shape] = {"*": _TEXT}
_AMOUNTS: Final[_Shape] = {"*": _QUANTITY}
_CONTAINER: Final[_Shape] = {
    "name": _TEXT,
    "env": ({"name": _TEXT},),
    "resources": {"requests": _AMOUNTS, "limits": _AMOUNTS},
}
_TERMS: Final[_Shape] = {"nodeSelectorTerms": ({"matchExpressions": ({},)},)}
_POD_TEMPLATE: Final[_Shape] = {
    "metadata": {"labels": _TEXTS, "annotations": _TEXTS},
    "spec": {
        "containers": (_CONTAINER,),
        "initContainers": (_CONTAINER,),
        "nodeSelector": _TEXTS,
        "tolerations": ({},),
        "schedulingGates": ({"name": _TEXT},),
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": _TERMS,
                "preferredDuringSchedulingIgnoredDuringExecution": ({},),
            }
        },
        "priorityClassName": _TEXT,
        "runtimeClassName": _TEXT,
        "serviceAccountName": _TEXT,
        "serviceAccount": _TEXT,
    },
}
"""The fields that are read of a pod template; the API server checks all of them when the pods are made."""


def template_problem(template: object, shape: _Shape = _POD_TEMPLATE, at: str = "") -> str:
    """Returns which field of a pod template has the wrong type; "" if none of those that are read has."""
    if isinstance(shape, str):
        types: tuple[type, ...] = (str,) if shape == _TEXT else (str, int, float)
        fits = isinstance(template, types) and not isinstance(template, bool)
        return "" if fits else f"{at} is not {shape}"
    if isinstance(shape, tuple):
        if not isinstance(template, list):
            return f"{at} is not a list"
        problems = (template_problem(item, shape[0], f"{at}[{index}]") for index, item in enumerate(template))
        return next(filter(None, problems), "")
    if not isinstance(template, Mapping):
        return f"{at or 'it'} is not an object"
    for name, value in template.items():
        inner = shape.get(str(name), shape.get("*"))
        problem = "" if inner is None or value is None else template_problem(value, inner, f"{at}.{name}")
        if problem:
            return problem.removeprefix(".")
    return ""


# --- requests in an annotation ----------------------------------------------------------------------
# The resource requests of an object without a pod template, from its annotation: "cpu=4,memory=8Gi".

REQUESTS_ANNOTATION: Final = "fournos.dev/requests"
_KONFLUX: Final = "kueue.konflux-ci.dev/requests-"
_RESERVED: Final = "pods"
"""Kueue counts pods under this name itself and refuses Workloads that request it."""
_TEXT_MAX: Final = 4096
_AMOUNT_MAX: Final = 32
_NAME: Final = re.compile(
    r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", re.ASCII
)


class RequestsError(ValueError):
    """The requests cannot be read; the message contains the correct form."""


def parse_requests(text: str) -> dict[str, str]:
    """ "cpu=4,memory=8Gi" → {"cpu": "4", "memory": "8Gi"}.  Raises RequestsError."""
    if len(text) > _TEXT_MAX:
        raise RequestsError(f"at most {_TEXT_MAX} characters, these are {len(text)}")
    amounts: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, amount = (word.strip() for word in part.partition("="))
        if not equals or not name:
            raise RequestsError(f"{part!r} is not a request: write name=quantity, as cpu=4,memory=8Gi")
        _checked_request(name, amount)
        if name in amounts:
            raise RequestsError(f"{name} is requested twice")
        amounts[name] = amount
    if not amounts:
        raise RequestsError("nothing is requested: write name=quantity, as cpu=4,memory=8Gi")
    return amounts


def _checked_request(name: str, amount: str) -> None:
    if not _NAME.fullmatch(name):
        raise RequestsError(f"{name!r} is not a resource name such as cpu or nvidia.com/gpu")
    amount_of(name, amount)
    if name == _RESERVED:
        raise RequestsError("pods cannot be requested: Kueue counts them itself")


def konflux_requests(annotations: Mapping[str, str]) -> dict[str, str]:
    """Returns what the annotations of Konflux' tekton-kueue request, one for each resource.

    Raises RequestsError.
    """
    amounts: dict[str, str] = {}
    for annotation in sorted(name for name in annotations if name.startswith(_KONFLUX)):
        name, amount = annotation.removeprefix(_KONFLUX), str(annotations[annotation])
        try:
            _checked_request(name, amount)
        except RequestsError as error:
            raise RequestsError(f"annotation {annotation}: {error}") from None
        amounts[name] = amount
    return amounts


def amount_of(name: str, amount: object) -> Decimal:
    """Returns the requested amount of a resource as a number.  Raises RequestsError."""
    text = str(amount)
    if len(text) > _AMOUNT_MAX:
        raise RequestsError(f"{name}: a quantity has at most {_AMOUNT_MAX} characters")
    try:
        number = parse_quantity(text)
    except ValueError as error:
        raise RequestsError(f"{name}: {error}") from None
    if number < 0:
        raise RequestsError(f"{name}: {text} is negative")
    if number >= LARGEST:
        raise RequestsError(f"{name}: {text} is more than can be counted")
    return number


def beyond(wanted: Mapping[str, str], stated: Mapping[str, Decimal]) -> dict[str, str]:
    """Returns what must be added to the stated amounts so that they reach the wanted ones."""
    missing = {name: amount_of(name, amount) - stated.get(name, 0) for name, amount in wanted.items()}
    return {name: f"{amount:f}" for name, amount in missing.items() if amount > 0}
