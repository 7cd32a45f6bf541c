"""Services: the headless one that gives the pods their names, and one for each sidecar with ports.

Several MiniClusters of a namespace may share a headless Service (all of them do by default, under the name
that the page promises).  It selects pods by a label with its own name, and is owned by all that use it, so
that Kubernetes removes it with the last one.
"""

from __future__ import annotations

from typing import Any, Final

from fournos.kube.resource import Obj
from fournos.miniclusters import names
from fournos.miniclusters.cluster import Cluster
from fournos.miniclusters.kinds import SERVICE

_LEAD_ONLY: Final = {names.COMPLETION_INDEX_LABEL: "0"}


def headless(cluster: Cluster, existing: Obj | None = None) -> dict[str, Any] | str:
    """The Service as this MiniCluster wants it, keeping what others want of `existing`.

    With `minimalService` only lead brokers are reachable, unless another MiniCluster that shares the
    Service needs them all.  A text says why `existing` cannot be used.
    """
    name = cluster.headless_name
    selector = {names.HEADLESS_LABEL: name}
    wanted: dict[str, Any] = {
        "apiVersion": SERVICE.api_version,
        "kind": SERVICE.kind,
        "metadata": {
            **cluster.metadata(name, controller=False),
            "labels": {names.HEADLESS_LABEL: name},
        },
        "spec": {
            "clusterIP": "None",
            # A broker is ready only when it has found the others.
            "publishNotReadyAddresses": True,
            "selector": {**selector, **(_LEAD_ONLY if cluster.spec.flux.minimal_service else {})},
        },
    }
    if existing is None:
        return wanted
    meta = existing["metadata"]
    if (meta.get("labels") or {}).get(names.HEADLESS_LABEL) != name:
        return (
            f"Service {name} belongs to somebody else: choose another name with network.headlessName, "
            "or delete that Service"
        )
    owners = list(meta.get("ownerReferences") or ())
    if cluster.uid and all(owner["uid"] != cluster.uid for owner in owners):
        owners.append(cluster.owner_reference(controller=False))
    found: dict[str, Any] = {**existing, "metadata": {**meta, "ownerReferences": owners}}
    if not cluster.spec.flux.minimal_service and existing["spec"].get("selector") != selector:
        found["spec"] = {**existing["spec"], "selector": selector}
    return found


def sidecars(cluster: Cluster) -> list[dict[str, Any]]:
    """A Service named as the container, for each sidecar with ports."""
    runner = cluster.spec.runner_index
    return [
        {
            "apiVersion": SERVICE.api_version,
            "kind": SERVICE.kind,
            "metadata": cluster.metadata(str(container.name)),
            "spec": {
                # The pods of its Job alone have both: the services pod and pods of others share the name.
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
