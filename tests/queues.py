"""Kueue's objects as tests set them up: a ClusterQueue of a namespace's own, whose usage is one test's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fournos.engine.kube.resource import NAMESPACE, Resource
from fournos.engine.queueing.kinds import (
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    RESOURCE_FLAVOR,
    WORKLOAD_PRIORITY_CLASS,
)

Quotas = Mapping[str, Mapping[str, int | str]]
"""Flavor → resource → quota; all flavors of a group have the same resources."""


def whole(resource: Resource, name: str, *, namespace: str = "", **content: Any) -> dict[str, Any]:
    """Returns an object; `content` is what it has beside its metadata."""
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **content}


def cluster_queue(namespace: str, *groups: Quotas, **spec: Any) -> dict[str, Any]:
    """Returns the ClusterQueue of the namespace's name, which jobs of other namespaces may not use."""
    own: dict[str, Any] = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "resourceGroups": [
            {
                "coveredResources": list(next(iter(group.values()))),
                "flavors": [
                    {
                        "name": flavor,
                        "resources": [{"name": name, "nominalQuota": n} for name, n in quotas.items()],
                    }
                    for flavor, quotas in group.items()
                ],
            }
            for group in groups
        ],
    }
    return whole(CLUSTER_QUEUE, namespace, spec={**own, **spec})


def local_queue(name: str, namespace: str) -> dict[str, Any]:
    """Returns a LocalQueue of the ClusterQueue of its namespace's name."""
    return whole(LOCAL_QUEUE, name, namespace=namespace, spec={"clusterQueue": namespace})


def queues(namespace: str, local: str, quotas: Mapping[str, int | str]) -> list[dict[str, Any]]:
    """Returns a namespace with its LocalQueue, and a flavor and classes `-low` and `-high` of its name."""
    levels = {"low": 10, "high": 100}
    return [
        whole(NAMESPACE, namespace),
        whole(RESOURCE_FLAVOR, namespace),
        cluster_queue(namespace, {namespace: quotas}),
        *(whole(WORKLOAD_PRIORITY_CLASS, f"{namespace}-{level}", value=n) for level, n in levels.items()),
        local_queue(local, namespace),
    ]
