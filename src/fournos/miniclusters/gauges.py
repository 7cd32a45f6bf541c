"""What /metrics says about the MiniClusters, from the cache."""

from __future__ import annotations

from collections import Counter
from typing import Final

from fournos.miniclusters.kinds import MINICLUSTER
from fournos.runtime.metrics import Metrics
from fournos.runtime.system import Caches

PHASES: Final = ("Waiting", "Running", "Ready", "Finished")


def report(caches: Caches, metrics: Metrics) -> None:
    """Sets the gauges; all phases always, so that one nobody is in any more says 0."""
    statuses = [one.get("status") or {} for one in caches[MINICLUSTER]]
    phases = Counter(str(status.get("phase") or "Waiting") for status in statuses)
    for phase in PHASES:
        metrics.set("fournos_miniclusters", phases[phase], phase)
    metrics.set("fournos_minicluster_brokers", sum(int(status.get("ready") or 0) for status in statuses))
