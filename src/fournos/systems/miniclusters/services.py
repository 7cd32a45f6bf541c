"""The Services: a headless one that gives the pods their DNS names, and one per sidecar with ports.

Several MiniClusters of a namespace may share a headless Service; by default all do, under the name that the
page promises. It selects pods by a label with its own name. All MiniClusters that use it are its owners, so
Kubernetes garbage-collects it with the last one.
"""

from __future__ import annotations

from typing import Any, Final

from fournos.engine.kube.resource import SERVICE, Obj
from fournos.systems.miniclusters import names
from fournos.systems.miniclusters.cluster import Cluster

_LEAD_ONLY: Final = {names.COMPLETION_INDEX_LABEL: "0"}


def headless(cluster: Cluster, existing: Obj | None = None) -> dict[str, Any] | str:
    """Returns the Service that this MiniCluster needs, and keeps what others need of `existing`.

    With `minimalService` only lead brokers are reachable, unless another MiniCluster that shares the Service
    needs all pods. If `existing` cannot be used, the result is the message about it.
    """
    name = cluster.headless_name
    selector = {names.HEADLESS_LABEL: name}
    body: dict[str, Any] = {
        "apiVersion": SERVICE.api_version,
        "kind": SERVICE.kind,
        "metadata": {
            **cluster.metadata(name, controller=False),
            "labels": {names.HEADLESS_LABEL: name},
        },
        "spec": {
            "clusterIP": "None",
            # A broker becomes ready only after it has found the others, so unready pods need DNS names too.
            "publishNotReadyAddresses": True,
            "selector": {**selector, **(_LEAD_ONLY if cluster.spec.flux.minimal_service else {})},
        },
    }
    if existing is None:
        return body
    meta = existing["metadata"]
    if (meta.get("labels") or {}).get(names.HEADLESS_LABEL) != name:
        return (
            f"Service {name} belongs to somebody else: choose another name with network.headlessName, "
            "or delete that Service"
        )
    owners = list(meta.get("ownerReferences") or ())
    if cluster.uid and all(owner["uid"] != cluster.uid for owner in owners):
        owners.append(cluster.owner_reference(controller=False))
    service: dict[str, Any] = {**existing, "metadata": {**meta, "ownerReferences": owners}}
    if not cluster.spec.flux.minimal_service and existing["spec"].get("selector") != selector:
        service["spec"] = {**existing["spec"], "selector": selector}
    return service


def sidecars(cluster: Cluster) -> list[dict[str, Any]]:
    """Returns a Service per sidecar with ports. It has the container's name."""
    runner = cluster.spec.runner_index
    return [
        {
            "apiVersion": SERVICE.api_version,
            "kind": SERVICE.kind,
            "metadata": cluster.metadata(str(container.name)),
            "spec": {
                # Only the pods of its Job have both labels. The services pod and pods of others share the
                # name label.
                "selector": {names.MINICLUSTER_LABEL: cluster.name, names.SCALE_LABEL: cluster.name},
                "ports": [
                    {"name": f"port-{port}", "port": port, "targetPort": port, "protocol": "TCP"}
                    for port in dict.fromkeys(container.ports)
                ],
            },
        }
        for index, container in enumerate(cluster.spec.containers)
        if index != runner and container.ports
    ]
