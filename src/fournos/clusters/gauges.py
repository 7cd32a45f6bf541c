"""What /metrics says about the clusters, from the cache: no cluster is asked for it."""

from __future__ import annotations

from collections import Counter

from fournos.api.fournoscluster import KubeconfigStatus, LockState
from fournos.clusters.inventory import read
from fournos.clusters.kinds import FOURNOS_CLUSTER
from fournos.runtime.metrics import Metrics
from fournos.runtime.system import Caches

_STATES = (*(status.value for status in KubeconfigStatus), "Unknown")


def report(caches: Caches, metrics: Metrics) -> None:
    """Sets the gauges; all states always, so that one nobody is in any more says 0."""
    statuses = [cluster.get("status") or {} for cluster in caches[FOURNOS_CLUSTER]]
    states = Counter(str(status.get("kubeconfigStatus") or "Unknown") for status in statuses)
    locks = Counter(str((status.get("lock") or {}).get("state") or "") for status in statuses)
    for state in _STATES:
        metrics.set("fournos_clusters", states[state], state)
    for lock in LockState:
        metrics.set("fournos_cluster_locks", locks[lock.value], lock.value)
    metrics.clear("fournos_cluster_gpus")
    for cluster in caches[FOURNOS_CLUSTER]:
        for model, count in read((cluster.get("status") or {}).get("hardware") or {}).quotas.items():
            metrics.set("fournos_cluster_gpus", count, cluster["metadata"]["name"], model)
