"""Workloads as a job kind asks for them: built here, pure (Kueue's Workload API, v1beta2)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fournos.kube.resource import Key, Obj
from fournos.queueing.kinds import GROUP, WORKLOAD

QUEUE_NAME_LABEL = "kueue.x-k8s.io/queue-name"
JOB_UID_LABEL = "kueue.x-k8s.io/job-uid"
HELD_BACK = "fournos.dev/held-back"
"""The annotation of a Workload that its job has deactivated: one that somebody else deactivated stays so."""
IN_USE = "kueue.x-k8s.io/resource-in-use"
"""The finalizer of Kueue's own job kinds: whoever runs the job takes it off."""
_GENERIC_NAME_MAX = 247
"""A Workload's name may have 253 characters; a dash and five hash digits end the generic one."""


@dataclass(frozen=True, slots=True)
class PodSet:
    name: str
    count: int
    template: Obj
    """A PodTemplateSpec; Kueue reads requests, node selector, affinity and tolerations from it."""
    min_count: int | None = None
    """Partial admission: fewer pods than `count` will do, down to this; at most one pod set may say so."""
    topology: Obj | None = None
    """A `topologyRequest`."""


@dataclass(frozen=True, slots=True)
class Priority:
    """A priority class with its value: Kueue fills the value for nobody but its own job kinds."""

    class_name: str
    """"" for a bare value."""
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
    """What a job kind wants queued."""

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
    """The name that Kueue's own job kinds give: `kind-name-hash`."""
    digest = hashlib.sha1(f"{kind}\n{group}\n{name}\n{uid}".encode(), usedforsecurity=False).hexdigest()
    return f"{kind.lower()}-{name}"[:_GENERIC_NAME_MAX] + f"-{digest[:5]}"


def build(request: WorkloadRequest) -> Obj:
    """The Workload to create.

    `priorityClassRef` comes with `priority`: the API refuses a reference without the value, and ignores
    v1beta1's `priorityClassName`.
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
    """The API refuses a Workload with a variable twice in a container; a pod uses the last one."""
    found = dict(pod_spec)
    for section in ("initContainers", "containers"):
        if section in found:
            found[section] = [
                {**one, "env": list({variable["name"]: variable for variable in one["env"]}.values())}
                if one.get("env")
                else one
                for one in found[section]
            ]
    return found
