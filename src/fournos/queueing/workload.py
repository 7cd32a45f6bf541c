"""Workloads as a job kind asks for them: built here, pure (Kueue's Workload API, v1beta2)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from fournos.kube.resource import Key, Obj
from fournos.queueing.kinds import GROUP, WORKLOAD

QUEUE_NAME_LABEL = "kueue.x-k8s.io/queue-name"
_GENERIC_NAME_MAX = 247
"""A Workload's name may have 253 characters; a dash and five hash digits end the generic one."""


@dataclass(frozen=True, slots=True)
class PodSet:
    name: str
    count: int
    template: Obj
    """A PodTemplateSpec; Kueue reads requests, node selector, affinity and tolerations from it."""


@dataclass(frozen=True, slots=True)
class Priority:
    """A WorkloadPriorityClass with its value: Kueue fills the value for nobody but its own job kinds."""

    class_name: str
    value: int


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
        "podSets": [
            {"name": pod_set.name, "count": pod_set.count, "template": pod_set.template}
            for pod_set in request.pod_sets
        ],
    }
    if request.priority:
        spec["priorityClassRef"] = {
            "group": GROUP,
            "kind": "WorkloadPriorityClass",
            "name": request.priority.class_name,
        }
        spec["priority"] = request.priority.value
    return {
        "apiVersion": WORKLOAD.api_version,
        "kind": WORKLOAD.kind,
        "metadata": {
            "name": request.key.name,
            "namespace": request.key.namespace,
            "labels": {**request.labels, QUEUE_NAME_LABEL: request.queue},
            "ownerReferences": [request.owner],
        },
        "spec": spec,
    }
