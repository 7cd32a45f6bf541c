"""Names and fixed values of the FournosCluster operator, and the objects and steps that it makes.  Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB
from fournos.engine.api.values import escaped_line
from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import CredentialsError
from fournos.engine.kube.fleet import Fleet
from fournos.engine.kube.resource import SECRET, Key, Obj
from fournos.engine.queueing.job import LOCK_HELD, LOCK_HELD_CLASS
from fournos.engine.queueing.kinds import WORKLOAD_PRIORITY_CLASS
from fournos.engine.runtime.controller import Executor
from fournos.engine.runtime.decision import Custom

MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGED_BY = "hearth"
SECRET_LABEL = "fournos.dev/cluster-kubeconfig"  # noqa: S105
SECRET_SELECTOR = f"{SECRET_LABEL}=true"
SECRET_KEY = "kubeconfig"  # noqa: S105
AUTO_DISCOVERED_LABEL = "fournos.dev/auto-discovered"
OWNER_ANNOTATION = "fournos.dev/owner"
"""On a Secret: the initial owner of the FournosCluster that is created for it."""
RESOURCES_ANNOTATION = "fournos.dev/cluster-resources"
"""On the ClusterQueue: the resources that were added to coveredResources for the sake of a cluster."""
FINALIZER = "fournos.dev/cluster"

LOCK_LABEL = "fournos.dev/cluster-lock"
"""On a lock's FournosJob: the name of the cluster."""
LOCK_PREFIX = "cluster-lock-"
LOCK_REQUESTED_CLASS = "fournos-lock-requested"
REMOVED_CONFIG_MAP = "clusters-removed"
"""The ConfigMap that records, per cluster that a person deleted, the version of its Secret."""

DRAINING, REMOVING = "Draining", "Removing"
"""The values of `status.decommission`."""


def lock_name(cluster: str) -> str:
    """Returns the name of the cluster's lock FournosJob."""
    return f"{LOCK_PREFIX}{cluster}"


# --- objects -------------------------------------------------------------------------------------------

_DISPLAY_NAME_MAX: Final = 253
_OWNER_MAX: Final = 1024
_PRIORITIES: Final = {LOCK_REQUESTED_CLASS: -LOCK_HELD, LOCK_HELD_CLASS: LOCK_HELD}
_MEANINGS: Final = {
    LOCK_REQUESTED_CLASS: "A cluster lock that is not held yet: it pushes nobody out.",
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
            "name": lock_name(cluster),
            "namespace": namespace,
            "labels": {LOCK_LABEL: cluster, MANAGED_BY_LABEL: MANAGED_BY},
        },
        "spec": {
            **lock_owner(cluster, owner),
            "cluster": cluster,
            "exclusive": True,
            "lockOnly": True,
            "priority": LOCK_REQUESTED_CLASS,
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
        "metadata": {"name": name, "labels": {MANAGED_BY_LABEL: MANAGED_BY}},
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
                AUTO_DISCOVERED_LABEL: "true",
                MANAGED_BY_LABEL: MANAGED_BY,
            },
        },
        "spec": {"kubeconfigSecret": secret, **({"owner": owner} if owner else {})},
    }


# --- steps on connections ------------------------------------------------------------------------------
# The steps that open and close this process's connections to other clusters.


@dataclass(frozen=True, slots=True)
class Connect(Custom):
    """Opens a connection with the kubeconfig of this Secret.

    The executor reads the bytes, so that they never pass through a decision. Raises CredentialsError if they
    are not base64.
    """

    secret: Key
    cluster: str
    version: str
    unreachable_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class Disconnect(Custom):
    """Closes the connection, if there is one."""

    cluster: str


def executors(fleet: Fleet) -> Mapping[type[Custom], Executor]:
    """Returns the executor of each step."""

    async def connect(step: Connect, api: Api) -> None:
        secret = await api.get(SECRET, step.secret)
        try:
            content = base64.b64decode((secret.get("data") or {}).get(SECRET_KEY) or "", validate=True)
        except (binascii.Error, ValueError):
            raise CredentialsError(f"Secret {step.secret}: {SECRET_KEY} is not base64") from None
        fleet.connect(step.cluster, content, version=step.version, unreachable_since=step.unreachable_since)

    async def disconnect(step: Disconnect, api: Api) -> None:
        fleet.disconnect(step.cluster)

    return {Connect: connect, Disconnect: disconnect}
