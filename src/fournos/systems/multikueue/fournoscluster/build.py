"""Builders of the objects that are created for a FournosCluster."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fournos.engine.kube.resource import Obj, owner_reference
from fournos.systems.multikueue import names
from fournos.systems.multikueue.kinds import MULTIKUEUE_CLUSTER


def secret_name(cluster: str) -> str:
    return f"fournos-{cluster}-kubeconfig"


def worker_of(name: str) -> Obj:
    """Returns the MultiKueueCluster of a FournosCluster; both have the same name."""
    return {
        "apiVersion": MULTIKUEUE_CLUSTER.api_version,
        "kind": MULTIKUEUE_CLUSTER.kind,
        "metadata": {"name": name, "labels": {names.MADE_FOR: name}},
        "spec": {"clusterSource": {"kubeConfig": {"location": secret_name(name), "locationType": "Secret"}}},
    }


def copy_metadata(worker: Obj, namespace: str, *, renewed: bool) -> Mapping[str, Any]:
    """Returns the metadata of the kubeconfig Secret's copy.

    `renewed`: its token is replaced before it expires.
    """
    name = worker["metadata"]["name"]
    # Without blockOwnerDeletion: the adapter has no right to the finalizers of MultiKueueClusters.
    owner = owner_reference(MULTIKUEUE_CLUSTER, worker, block_deletion=False)
    return {
        "name": secret_name(name),
        "namespace": namespace,
        "labels": {names.MADE_FOR: name} | ({names.RENEW: "true"} if renewed else {}),
        "ownerReferences": [owner],
    }
