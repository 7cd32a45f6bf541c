"""Names, labels and fixed words of the cluster system (the Hearth README and its published manifests)."""

from __future__ import annotations

MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGED_BY = "hearth"
SECRET_LABEL = "fournos.dev/cluster-kubeconfig"  # noqa: S105
SECRET_SELECTOR = f"{SECRET_LABEL}=true"
SECRET_KEY = "kubeconfig"  # noqa: S105
AUTO_DISCOVERED_LABEL = "fournos.dev/auto-discovered"
OWNER_ANNOTATION = "fournos.dev/owner"
"""On a Secret: the owner that the new FournosCluster begins with."""
DISCOVER_ANNOTATION = "fournos.dev/discover"
"""On a FournosCluster: a new value asks for a discovery now."""
RESOURCES_ANNOTATION = "fournos.dev/cluster-resources"
"""On the ClusterQueue: resources that stand in coveredResources because a cluster has them."""
FINALIZER = "fournos.dev/cluster"

LOCK_LABEL = "fournos.dev/cluster-lock"
"""On a lock's FournosJob: the name of the cluster."""
LOCK_PREFIX = "cluster-lock-"
LOCK_REQUESTED_CLASS = "fournos-lock-requested"
LOCK_HELD_CLASS = "fournos-lock-held"
REMOVED_CONFIG_MAP = "clusters-removed"
"""Which version of a Secret belonged to a FournosCluster that somebody deleted."""

DRAINING, REMOVING = "Draining", "Removing"
"""The values of `status.decommission`."""
HOLDING = frozenset({"Admitted", "Running", "Stopping"})
"""Phases of a FournosJob in which it occupies its cluster."""
TERMINAL = frozenset({"Succeeded", "Failed", "Stopped"})


def lock_name(cluster: str) -> str:
    return f"{LOCK_PREFIX}{cluster}"
