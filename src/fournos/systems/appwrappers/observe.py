"""Turns the caches into the input of a decision: watches, projections and indexes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from fournos.api.kinds import APPWRAPPER
from fournos.engine.api.conditions import is_true
from fournos.engine.kube.resource import NODE, POD, Key, Obj, controls, key_of
from fournos.engine.queueing.job import QueueInputs
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.observe import queue_inputs, queue_watches
from fournos.engine.runtime.controller import (
    Caches,
    Watch,
    indexed,
    metadata,
    of_label,
    of_owners,
    own_key,
    project_metadata,
    waking,
)
from fournos.systems.appwrappers import names
from fournos.systems.appwrappers.health import end_conditions, evicting
from fournos.systems.appwrappers.kinds import WRAPPED, resource_of, wrapped_kind
from fournos.systems.appwrappers.settings import AppWrapperSettings
from fournos.systems.appwrappers.status import Observed, component_status

NODE_NAME, WRAPPER = "node", "wrapper"


_labelled = partial(of_label, label=names.LABEL)
_owners = partial(of_owners, resource=APPWRAPPER)
"""Workloads of an earlier AppWrapper with the same name count too, because they must be deleted."""


def watches(settings: AppWrapperSettings) -> tuple[Watch, ...]:
    """Returns the watches of all namespaces. Other kinds are limited to objects with the AppWrapper label."""
    components = tuple(
        Watch(
            kind.resource,
            selector=names.LABEL,
            wakes=waking(_labelled),
            indexes={WRAPPER: indexed(_labelled), NODE_NAME: _node_name} if kind.resource == POD else {},
            project=project_pod if kind.resource == POD else project_component,
            required=False,
        )
        for kind in WRAPPED
    )
    return (
        Watch(APPWRAPPER, wakes=own_key),
        *components,
        Watch(NODE, wakes=_on_node, project=project_metadata),
        *(
            queue_watches(wakes=waking(_owners), owners=indexed(_owners))
            if settings.workloads == "own"
            else ()
        ),
    )


def follow(wrapper: Obj) -> tuple[Watch, ...]:
    """Returns watches of the unknown kinds of a wrapper, as long as objects of them may exist."""
    spec = wrapper.get("spec") or {}
    if not is_true(wrapper, "ResourcesDeployed") or spec.get("managedBy") not in names.MANAGED_BY_US:
        return ()
    templates = [component["template"] for component in spec.get("components") or ()]
    unknown = {resource_of(one): None for one in templates if wrapped_kind(one) is None}
    return tuple(
        Watch(resource, selector=names.LABEL, wakes=waking(_labelled), project=project_other, required=False)
        for resource in unknown
    )


class Observer:
    """Collects the input of a decision for one AppWrapper from the caches."""

    def __call__(self, caches: Caches, key: Key) -> Observed | None:
        wrapper = caches[APPWRAPPER].get(key)
        if wrapper is None:
            return None
        pods = caches[POD].by(WRAPPER, str(key))
        components = [self._component(caches, wrapper, index) for index in range(_size(wrapper))]
        return Observed(
            key=key,
            wrapper=wrapper,
            components=tuple(obj for obj, _ in components),
            watched=tuple(watched for _, watched in components),
            pods=pods,
            evicting=self._evicting(caches, pods),
            inputs=queue_inputs(caches, wrapper, str(key)) if WORKLOAD in caches else QueueInputs(),
        )

    def _component(self, caches: Caches, wrapper: Obj, index: int) -> tuple[Obj | None, bool]:
        template = wrapper["spec"]["components"][index]["template"]
        resource = resource_of(template)
        if resource not in caches or (wrapped_kind(template) is None and not caches[resource].synced):
            return None, False
        status = component_status(wrapper.get("status") or {}, index)
        name = status.name if status is not None else ""
        obj = caches[resource].get(Key(key_of(wrapper).namespace, name)) if name else None
        controlled = obj is not None and controls(wrapper, obj)
        return obj if controlled else None, True

    def _evicting(self, caches: Caches, pods: tuple[Obj, ...]) -> dict[str, frozenset[str]]:
        if NODE not in caches:
            return {}
        wanted = {str(pod["spec"]["nodeName"]) for pod in pods if pod["spec"].get("nodeName")}
        nodes = ((name, caches[NODE].get(Key("", name))) for name in sorted(wanted))
        found = {name: evicting(node) for name, node in nodes if node is not None}
        return {name: resources for name, resources in found.items() if resources}


def _size(wrapper: Obj) -> int:
    return len((wrapper.get("spec") or {}).get("components") or ())


# --- indexes -----------------------------------------------------------------------------------------


def _node_name(pod: Obj) -> Iterable[str]:
    name = (pod.get("spec") or {}).get("nodeName")
    return (name,) if name else ()


# --- event handlers ----------------------------------------------------------------------------------


def _on_node(node: Obj, caches: Caches) -> Iterable[Key]:
    pods = caches[POD].by(NODE_NAME, node["metadata"]["name"])
    return tuple(dict.fromkeys(key for pod in pods for key in _labelled(pod)))


# --- projections: only the fields that decisions read -----------------------------------------------

_HEALTH_FIELDS = (
    "phase",
    "state",
    "reason",
    "message",
    "conditions",
    "observedGeneration",
    "ready",
    "succeeded",
    "failedIndexes",
    "availableReplicas",
    "readyReplicas",
    "replicatedJobsStatus",
    "jobsStatus",
    "jobStatus",
    "jobDeploymentStatus",
    "completionTime",
    "exitCode",
)
"""The status fields that decisions read. The status of some kinds also lists every pod or step."""


def project_component(obj: Obj) -> Obj:
    """Returns the counts of the spec, and the status fields that decisions read."""
    spec = obj.get("spec") or {}
    counts = {name: spec[name] for name in ("replicas", "parallelism", "completions") if name in spec}
    if "replicatedJobs" in spec:
        counts["replicatedJobs"] = [
            {"name": one["name"], "replicas": one.get("replicas", 1)} for one in spec["replicatedJobs"]
        ]
    status = obj.get("status") or {}
    kept_status = {name: status[name] for name in _HEALTH_FIELDS if name in status}
    return {"metadata": metadata(obj), "spec": counts, "status": kept_status}


def project_other(obj: Obj) -> Obj:
    """Returns metadata and conditions only: an unknown kind has any shape, and may contain secrets."""
    return {"metadata": metadata(obj), "status": {"conditions": end_conditions(obj)}}


def project_pod(pod: Obj) -> Obj:
    """Returns what counting needs: node, resources, phase, readiness and exit codes."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    annotation = (pod["metadata"].get("annotations") or {}).get(names.COMPONENT_ANNOTATION)
    meta = metadata(pod)
    if annotation is not None:
        meta["annotations"] = {names.COMPONENT_ANNOTATION: annotation}
    ready = [condition for condition in status.get("conditions") or () if condition.get("type") == "Ready"]
    containers = [
        {"resources": container.get("resources") or {}} for container in spec.get("containers") or ()
    ]
    ended = [
        {"state": {"terminated": {name: terminated.get(name) for name in ("exitCode", "finishedAt")}}}
        for container in status.get("containerStatuses") or ()
        if (terminated := (container.get("state") or {}).get("terminated"))
    ]
    return {
        "metadata": meta,
        "spec": {"nodeName": spec.get("nodeName"), "containers": containers},
        "status": {"phase": status.get("phase"), "conditions": ready, "containerStatuses": ended},
    }
