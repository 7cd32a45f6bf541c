"""Builds the objects that the FournosCluster operator creates. All functions here are pure."""

from __future__ import annotations

from typing import Any, Final

from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB
from fournos.engine.api.values import escaped_line
from fournos.engine.kube.resource import Key, Obj
from fournos.engine.queueing.kinds import WORKLOAD_PRIORITY_CLASS
from fournos.engine.queueing.priority import LOCK_HELD, LOCK_HELD_CLASS
from fournos.systems.clusters import names

_DISPLAY_NAME_MAX: Final = 253
_OWNER_MAX: Final = 1024
_PRIORITIES: Final = {names.LOCK_REQUESTED_CLASS: -LOCK_HELD, LOCK_HELD_CLASS: LOCK_HELD}
_MEANINGS: Final = {
    names.LOCK_REQUESTED_CLASS: "A cluster lock that is not held yet: it pushes nobody out.",
    LOCK_HELD_CLASS: "A cluster lock that is held: nobody pushes it out.",
}


def lock_owner(cluster: str, owner: str) -> dict[str, Any]:
    """Returns the fields of the lock's FournosJob that name its owner.

    The text is escaped and cut to the lengths that FournosJob allows. An owner that was stored before its
    rule existed must not prevent the creation of the lock.
    """
    owner = escaped_line(owner)[:_OWNER_MAX]
    return {
        "owner": owner,
        "displayName": f"Cluster lock: {cluster} (owner: {owner})"[:_DISPLAY_NAME_MAX],
    }


def lock_job(cluster: str, owner: str, *, namespace: str) -> Obj:
    """Returns the FournosJob that takes all slots of a cluster and starts no pods."""
    return {
        "apiVersion": FOURNOS_JOB.api_version,
        "kind": FOURNOS_JOB.kind,
        "metadata": {
            "name": names.lock_name(cluster),
            "namespace": namespace,
            "labels": {names.LOCK_LABEL: cluster, names.MANAGED_BY_LABEL: names.MANAGED_BY},
        },
        "spec": {
            **lock_owner(cluster, owner),
            "cluster": cluster,
            "exclusive": True,
            "lockOnly": True,
            "priority": names.LOCK_REQUESTED_CLASS,
        },
    }


def held_priority() -> dict[str, Any]:
    """Returns the priority fields of the `spec` of a held lock's Workload."""
    reference = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": LOCK_HELD_CLASS}
    return {"priority": LOCK_HELD, "priorityClassRef": reference}


def priority_class(name: str) -> Obj:
    """Returns a WorkloadPriorityClass for locks; `name` is one of `PRIORITY_CLASSES`."""
    return {
        "apiVersion": WORKLOAD_PRIORITY_CLASS.api_version,
        "kind": WORKLOAD_PRIORITY_CLASS.kind,
        "metadata": {"name": name, "labels": {names.MANAGED_BY_LABEL: names.MANAGED_BY}},
        "value": _PRIORITIES[name],
        "description": _MEANINGS[name],
    }


PRIORITY_CLASSES: Final = tuple(_PRIORITIES)


def cluster_of_secret(key: Key, *, secret: str, owner: str | None) -> Obj:
    """Returns the FournosCluster of a labelled kubeconfig Secret."""
    return {
        "apiVersion": FOURNOS_CLUSTER.api_version,
        "kind": FOURNOS_CLUSTER.kind,
        "metadata": {
            "name": key.name,
            "namespace": key.namespace,
            "labels": {
                names.AUTO_DISCOVERED_LABEL: "true",
                names.MANAGED_BY_LABEL: names.MANAGED_BY,
            },
        },
        "spec": {"kubeconfigSecret": secret, **({"owner": owner} if owner else {})},
    }
