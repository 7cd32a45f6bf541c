"""Names, labels and fixed values of the FournosCluster operator.

They come from the Hearth README and its published manifests.
"""

from __future__ import annotations

MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGED_BY = "hearth"
SECRET_LABEL = "fournos.dev/cluster-kubeconfig"  # noqa: S105
SECRET_SELECTOR = f"{SECRET_LABEL}=true"
SECRET_KEY = "kubeconfig"  # noqa: S105
AUTO_DISCOVERED_LABEL = "fournos.dev/auto-discovered"
OWNER_ANNOTATION = "fournos.dev/owner"
"""On a Secret: the initial owner of the FournosCluster that is created for it."""
DISCOVER_ANNOTATION = "fournos.dev/discover"
"""On a FournosCluster: a new value requests a discovery at once."""
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
