"""The Prometheus metrics of FournosClusters. They are computed from the cache; no cluster is contacted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from fournos.api.fournoscluster import KubeconfigStatus, LockState
from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.engine.kube.resource import Obj
from fournos.engine.runtime.controller import Caches, of_each
from fournos.engine.runtime.metrics import Gauge, Metric, Metrics
from fournos.systems.clusters.gpus import read

BY_STATE: Final = Gauge("fournos_clusters", "FournosClusters by status.kubeconfigStatus.", ("state",))
LOCKS: Final = Gauge("fournos_cluster_locks", "Locks of FournosClusters by state.", ("state",))
GPUS: Final = Gauge("fournos_cluster_gpus", "GPUs of FournosClusters by short name.", ("cluster", "model"))
METRICS: Final[tuple[Metric, ...]] = (BY_STATE, LOCKS, GPUS)

_STATES = (*(status.value for status in KubeconfigStatus), "Unknown")


def report(caches: Caches, metrics: Metrics) -> None:
    """Sets the gauges. Every state is set, so that a state without clusters is exported as 0."""
    statuses = [cluster.get("status") or {} for cluster in caches[FOURNOS_CLUSTER]]
    states = Counter(str(status.get("kubeconfigStatus") or "Unknown") for status in statuses)
    found = (status.get("lock") for status in statuses)
    locks = Counter(str(lock.get("state") or "") for lock in found if isinstance(lock, Mapping))
    for state in _STATES:
        metrics.set(BY_STATE, states[state], state)
    for lock in LockState:
        metrics.set(LOCKS, locks[lock.value], lock.value)
    metrics.clear(GPUS)

    def quotas(cluster: Obj) -> tuple[str, Mapping[str, int]]:
        status = cluster.get("status") or {}
        return cluster["metadata"]["name"], read(status.get("hardware") or {}).quotas

    for name, models in of_each(caches[FOURNOS_CLUSTER], quotas, "metrics of clusters"):
        for model, count in models.items():
            metrics.set(GPUS, count, name, model)
