"""Builds the Workload of a job (Kueue's Workload API, v1beta2).  Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fournos.engine.kube.resource import Key, Obj
from fournos.engine.queueing.kinds import GROUP, WORKLOAD

QUEUE_NAME_LABEL = "kueue.x-k8s.io/queue-name"
JOB_UID_LABEL = "kueue.x-k8s.io/job-uid"
HELD_BACK = "fournos.dev/held-back"
"""Annotation of a Workload that its job has deactivated.  Without it, the job never reactivates a Workload,
because another client has deactivated it."""
IN_USE = "kueue.x-k8s.io/resource-in-use"
"""The finalizer of Kueue's own job kinds; the controller that runs the job removes it."""
_GENERIC_NAME_MAX = 247
"""Length of the generic name before its suffix: at most 253 characters with a dash and five hash digits."""


@dataclass(frozen=True, slots=True)
class PodSet:
    """The pods of a Workload with one template."""

    name: str
    count: int
    template: Obj
    """A PodTemplateSpec; Kueue reads requests, node selector, affinity and tolerations from it."""
    min_count: int | None = None
    """Partial admission: the smallest acceptable number of pods; at most one pod set may have it."""
    topology: Obj | None = None
    """A `topologyRequest`."""


@dataclass(frozen=True, slots=True)
class Priority:
    """A priority class with its value, because Kueue sets the value only for its own job kinds."""

    class_name: str
    """Name of the class; "" for a value without a class."""
    value: int
    group: str = GROUP
    kind: str = "WorkloadPriorityClass"

    @property
    def reference(self) -> dict[str, str] | None:
        if not self.class_name:
            return None
        return {"group": self.group, "kind": self.kind, "name": self.class_name}


@dataclass(frozen=True, slots=True)
class WorkloadRequest:
    """The properties of the Workload that a job kind requests."""

    key: Key
    queue: str
    pod_sets: tuple[PodSet, ...]
    owner: Obj
    """The controller ownerReference."""
    labels: Mapping[str, str] = field(default_factory=dict)
    priority: Priority | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    max_execution_seconds: int | None = None


def generic_name(*, kind: str, group: str, name: str, uid: str) -> str:
    """Returns the name that Kueue's own job kinds use: `kind-name-hash`."""
    digest = hashlib.sha1(f"{kind}\n{group}\n{name}\n{uid}".encode(), usedforsecurity=False).hexdigest()
    return f"{kind.lower()}-{name}"[:_GENERIC_NAME_MAX] + f"-{digest[:5]}"


def build(request: WorkloadRequest) -> Obj:
    """Returns the Workload to create.

    `priorityClassRef` is set together with `priority`: the API refuses a reference without the value, and
    ignores the `priorityClassName` of v1beta1.
    """
    spec: dict[str, object] = {
        "queueName": request.queue,
        "podSets": [_pod_set(pod_set) for pod_set in request.pod_sets],
    }
    if request.priority:
        if request.priority.reference:
            spec["priorityClassRef"] = request.priority.reference
        spec["priority"] = request.priority.value
    if request.max_execution_seconds:
        spec["maximumExecutionTimeSeconds"] = request.max_execution_seconds
    metadata: dict[str, object] = {
        "name": request.key.name,
        "namespace": request.key.namespace,
        "labels": {**request.labels, QUEUE_NAME_LABEL: request.queue},
        "ownerReferences": [request.owner],
    }
    if request.annotations:
        metadata["annotations"] = dict(request.annotations)
    if request.finalizers:
        metadata["finalizers"] = list(request.finalizers)
    return {
        "apiVersion": WORKLOAD.api_version,
        "kind": WORKLOAD.kind,
        "metadata": metadata,
        "spec": spec,
    }


def _pod_set(pod_set: PodSet) -> dict[str, object]:
    template = {**pod_set.template, "spec": _one_of_each_variable(pod_set.template.get("spec") or {})}
    body: dict[str, object] = {"name": pod_set.name, "count": pod_set.count, "template": template}
    if pod_set.min_count is not None:
        body["minCount"] = pod_set.min_count
    if pod_set.topology:
        body["topologyRequest"] = pod_set.topology
    return body


def _one_of_each_variable(pod_spec: Obj) -> dict[str, Any]:
    """Returns the pod spec with each environment variable once per container.

    The API refuses a Workload with a duplicate variable; a pod uses the last one, so the last one is kept.
    """
    spec = dict(pod_spec)
    for section in ("initContainers", "containers"):
        if section in spec:
            spec[section] = [
                {
                    **container,
                    "env": list({variable["name"]: variable for variable in container["env"]}.values()),
                }
                if container.get("env")
                else container
                for container in spec[section]
            ]
    return spec
