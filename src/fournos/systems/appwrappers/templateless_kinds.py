"""Kinds without a pod template: the quota that they request, and the place of an admission's changes.

The requests follow from the object's spec, and the annotation fournos.dev/requests may add to them. If
neither states anything, the request is one object of the kind. Kueue's own AppWrapper integration does not
support these kinds: they need Workloads that this operator creates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

from fournos.api.kinds import RUN_POD_TEMPLATE
from fournos.api.slots import (
    CLUSTER_NODE_LABEL,
    GPU_PREFIX,
    SLOT_RESOURCE,
    SLOTS_PER_CLUSTER,
    UNAVAILABLE_TAINT,
)
from fournos.engine.kube.resource import Obj
from fournos.engine.queueing.podsets import PodSetInfo, PodSetInfoError, distinct, union
from fournos.engine.queueing.requests import REQUESTS_ANNOTATION, amount_of, beyond, parse_requests
from fournos.systems.appwrappers.annotations import INT32_MAX
from fournos.systems.appwrappers.names import COMPONENT_ANNOTATION, LABEL

WHOLE: Final = "template"
"""The path of the only pod set of most of these kinds."""
_CONTAINERS, _SERVICES = "template.spec.containers", "template.spec.services"
_PLACEMENT: Final = ("nodeSelector", "tolerations")
_TRAINER: Final = "node"
"""The training Job of a TrainJob, in the runtimes that Kubeflow ships."""


@dataclass(frozen=True, slots=True)
class PodRequest:
    """A number of equal pods."""

    path: str
    count: int
    pod: Obj
    """A pod template with the requests of one pod."""


@dataclass(frozen=True, slots=True)
class Templateless:
    """How a kind without a pod template requests quota and takes an admission."""

    plain_requests: Callable[[Obj], Iterator[PodRequest]]
    """Yields the requests. Raises ValueError with a remedy."""
    place: Callable[[Obj, Sequence[PodSetInfo]], Obj]
    """Returns the object with one PodSetInfo per request. Raises PodSetInfoError."""
    failed_pods: bool = False
    """True if a failed pod of the object is a failure.

    It is not if failed tasks are retried, or if one pod's exit code is the result of all.
    """
    prefixed_requests: Callable[[Obj, str], Iterator[PodRequest]] | None = None
    """Replaces `plain_requests` for a kind that names GPUs by short types, which get a prefix."""

    def requests(self, template: Obj, gpu_prefix: str) -> Iterator[PodRequest]:
        if self.prefixed_requests is not None:
            return self.prefixed_requests(template, gpu_prefix)
        return self.plain_requests(template)


def _pod(requests: Mapping[str, Any], *, limits: Mapping[str, Any] | None = None, **spec: Any) -> Obj:
    resources = {"requests": dict(requests), **({"limits": dict(limits)} if limits else {})}
    container = {"name": "main", "image": "main", "resources": resources}
    kept = {name: value for name, value in spec.items() if value}
    return {"spec": {"restartPolicy": "Never", **kept, "containers": [container]}}


def _annotated(template: Obj) -> dict[str, str] | None:
    text = ((template.get("metadata") or {}).get("annotations") or {}).get(REQUESTS_ANNOTATION)
    if text is None:
        return None
    try:
        return parse_requests(str(text))
    except ValueError as error:
        raise ValueError(f"annotation {REQUESTS_ANNOTATION}: {error}") from None


def _at_least(template: Obj, stated: Mapping[str, Any]) -> dict[str, str]:
    """Returns the requests of the spec and what the annotation adds. It never lowers a request."""
    known = {name: amount_of(name, amount) for name, amount in stated.items()}
    wanted = _annotated(template) or {}
    more = beyond(wanted, known)
    return {**{name: str(amount) for name, amount in stated.items()}, **{name: wanted[name] for name in more}}


def _count(value: Any, where: str, default: int = 1) -> int:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= INT32_MAX:
        raise ValueError(f"{where} is not a whole number from 0 to {INT32_MAX}")
    return value


def _section(obj: Any, *names: str) -> Mapping[str, Any]:
    """Returns the section; {} if there is none."""
    for name in names:
        obj = obj.get(name) if isinstance(obj, Mapping) else None
    return obj if isinstance(obj, Mapping) else {}


def _placement(of: Mapping[str, Any]) -> dict[str, Any]:
    return {name: of[name] for name in _PLACEMENT if of.get(name)}


def _placed(of: Mapping[str, Any], info: PodSetInfo) -> dict[str, Any]:
    selector = union("nodeSelector", of.get("nodeSelector"), info.node_selector)
    tolerations = distinct(of.get("tolerations"), info.tolerations)
    found = {"nodeSelector": selector, "tolerations": tolerations}
    return {**of, **{name: value for name, value in found.items() if value}}


def _with(obj: Obj, value: Any, *path: str) -> Obj:
    """Returns a copy with the value at this path."""
    name, *rest = path
    return {**obj, name: _with(obj.get(name) or {}, value, *rest) if rest else value}


def _one(infos: Sequence[PodSetInfo]) -> PodSetInfo:
    return infos[0] if infos else PodSetInfo(WHOLE, 1)


def _no_topology(kind: str, infos: Sequence[PodSetInfo]) -> None:
    if any(info.scheduling_gates for info in infos):
        raise PodSetInfoError(f"a topology was assigned, which the pods of a {kind} cannot follow")


# --- TrainJob --------------------------------------------------------------------------------------------


def _train_job(template: Obj) -> Iterator[PodRequest]:
    trainer = _section(template, "spec", "trainer")
    resources = _section(trainer, "resourcesPerNode")
    requests = _at_least(template, {**_section(resources, "limits"), **_section(resources, "requests")})
    pod = _pod(requests or {"trainer.kubeflow.org/trainjobs": "1"})
    yield PodRequest(WHOLE, _count(trainer.get("numNodes"), "spec.trainer.numNodes"), pod)


def _place_train_job(body: Obj, infos: Sequence[PodSetInfo]) -> Obj:
    info = _one(infos)
    override = {
        "targetJobs": [{"name": _TRAINER}],
        "metadata": {"labels": dict(info.labels), "annotations": dict(info.annotations)},
        "spec": _placed({}, info),
    }
    overrides = [*(_section(body, "spec").get("podTemplateOverrides") or ()), override]
    return _with(body, overrides, "spec", "podTemplateOverrides")


# --- PipelineRun -----------------------------------------------------------------------------------------

_RUN_PODS: Final = tuple(RUN_POD_TEMPLATE.split("."))


def _pipeline_run(template: Obj) -> Iterator[PodRequest]:
    requests = _annotated(template) or {"tekton.dev/pipelineruns": "1"}
    yield PodRequest(WHOLE, 1, _pod(requests, **_placement(_section(template, *_RUN_PODS))))


def _place_pipeline_run(body: Obj, infos: Sequence[PodSetInfo]) -> Obj:
    """Returns the run with the admission's changes. Tekton copies its labels and annotations to its pods."""
    _no_topology("PipelineRun", infos)
    info = _one(infos)
    marked = _marked(body, ("metadata",), info)
    pods = _placed(_section(marked, *_RUN_PODS), info)
    return _with(marked, pods, *_RUN_PODS) if pods else marked


def _marked(body: Obj, at: Sequence[str], info: PodSetInfo) -> Obj:
    for name, wanted in (("labels", info.labels), ("annotations", info.annotations)):
        found = union(name[:-1], _section(body, *at, name), wanted)
        body = _with(body, found, *at, name) if found else body
    return body


# --- FournosJob ------------------------------------------------------------------------------------------


def _fournos_job(template: Obj, gpu_prefix: str = GPU_PREFIX) -> Iterator[PodRequest]:
    spec = _section(template, "spec")
    hardware = _section(spec, "hardware")
    lock = spec.get("lockOnly")
    # The API server replaces null with the default, true.
    whole = spec.get("exclusive") is not False or lock
    requests = {SLOT_RESOURCE: str(SLOTS_PER_CLUSTER if whole else 1)}
    gpus = _count(hardware.get("gpuCount"), "spec.hardware.gpuCount", 0)
    if hardware.get("gpuType") and gpus:
        requests[f"{gpu_prefix}{str(hardware['gpuType']).lower()}"] = str(gpus)
    cluster = spec.get("cluster")
    yield PodRequest(
        WHOLE,
        1,
        _pod(
            _at_least(template, requests),
            nodeSelector={CLUSTER_NODE_LABEL: cluster} if cluster else {},
            tolerations=[{"key": UNAVAILABLE_TAINT, "operator": "Exists"}] if lock else [],
        ),
    )


def _place_fournos_job(body: Obj, infos: Sequence[PodSetInfo]) -> Obj:
    """Returns the job with the cluster of the admitted flavor.

    A FournosJob runs on another cluster, so of a flavor only the cluster's name applies.
    """
    given = _one(infos).node_selector.get(CLUSTER_NODE_LABEL)
    requested = _section(body, "spec").get("cluster")
    if given and requested and given != requested:
        raise PodSetInfoError(f"admitted on cluster {given}, and spec.cluster is {requested}")
    return _with(body, given, "spec", "cluster") if given else body


# --- MiniCluster -----------------------------------------------------------------------------------------


def _mini_cluster(template: Obj) -> Iterator[PodRequest]:
    spec = _section(template, "spec")
    placement = _placement(_section(spec, "pod"))
    sizes = [_count(spec.get(name), f"spec.{name}") for name in ("size", "maxSize")]
    containers = _containers(spec, "containers")
    if not containers:
        raise ValueError("spec has no containers")
    more = beyond(_annotated(template) or {}, _total(containers))
    if more:
        containers.append({"name": "requested", "image": "requested", "resources": {"requests": more}})
    yield PodRequest(_CONTAINERS, max(sizes), {"spec": {**placement, "containers": containers}})
    services = _containers(spec, "services")
    if services:
        yield PodRequest(_SERVICES, 1, {"spec": {**placement, "containers": services}})


def _containers(spec: Mapping[str, Any], section: str) -> list[dict[str, Any]]:
    return [
        {
            "name": str(container.get("name") or f"{section}-{number}"),
            "image": str(container.get("image") or ""),
            "resources": dict(_section(container, "resources")),
        }
        for number, container in enumerate(spec.get(section) or ())
    ]


def _total(containers: Sequence[Obj]) -> dict[str, Decimal]:
    """Returns the sum of all requests. A limit without a request counts as a request."""
    totals: dict[str, Decimal] = {}
    for one in containers:
        resources = one["resources"]
        requests = {**_section(resources, "limits"), **_section(resources, "requests")}
        for name, amount in requests.items():
            totals[name] = totals.get(name, Decimal(0)) + amount_of(name, amount)
    return totals


def _place_mini_cluster(body: Obj, infos: Sequence[PodSetInfo]) -> Obj:
    """Returns the MiniCluster with the admission's changes.

    All its pods share one description, so the changes of its pod sets must agree.
    """
    _no_topology("MiniCluster", infos)
    first, *others = infos or (PodSetInfo(WHOLE, 1),)
    if any(
        (info.node_selector, info.tolerations) != (first.node_selector, first.tolerations) for info in others
    ):
        raise PodSetInfoError("the pods of a MiniCluster were given different flavors")
    agreed = PodSetInfo(
        first.name,
        first.count,
        labels=_common([info.labels for info in infos]),
        annotations=_common([info.annotations for info in infos]),
        node_selector=first.node_selector,
        tolerations=first.tolerations,
    )
    marked = _marked(body, ("spec", "pod"), agreed)
    return _with(marked, _placed(_section(marked, "spec", "pod"), agreed), "spec", "pod")


def _common(maps: Sequence[Mapping[str, str]]) -> dict[str, str]:
    first, *others = maps or ({},)
    return {key: value for key, value in first.items() if all(one.get(key) == value for one in others)}


TRAIN_JOB: Final = Templateless(_train_job, _place_train_job, failed_pods=True)
PIPELINE_RUN: Final = Templateless(_pipeline_run, _place_pipeline_run)
FOURNOS_JOB: Final = Templateless(_fournos_job, _place_fournos_job, prefixed_requests=_fournos_job)
MINI_CLUSTER: Final = Templateless(_mini_cluster, _place_mini_cluster)


def marks(name: str, index: int, info: PodSetInfo) -> PodSetInfo:
    """Returns the info with the label and annotation that assign pods to their AppWrapper and component."""
    return replace(
        info,
        labels={LABEL: name, **info.labels},
        annotations={COMPONENT_ANNOTATION: str(index), **info.annotations},
    )
