"""The Prometheus metrics of MiniClusters, computed from the cache."""

from __future__ import annotations

from collections import Counter
from typing import Final

from fournos.api.kinds import MINICLUSTER
from fournos.api.phase import OF_MINICLUSTERS
from fournos.engine.runtime.controller import Caches, of_each
from fournos.engine.runtime.metrics import Gauge, Metric, Metrics
from fournos.systems.miniclusters.status import summary_of

BY_PHASE: Final = Gauge("fournos_miniclusters", "MiniClusters by status.phase.", ("phase",))
BROKERS: Final = Gauge("fournos_minicluster_brokers", "Brokers of all MiniClusters that are up.")
METRICS: Final[tuple[Metric, ...]] = (BY_PHASE, BROKERS)


def report(caches: Caches, metrics: Metrics) -> None:
    """Sets the gauges. Every phase is set, so that a phase without MiniClusters is exported as 0."""
    statuses = list(of_each(caches[MINICLUSTER], summary_of, "metrics of MiniClusters"))
    phases = Counter(status.phase or OF_MINICLUSTERS[0] for status in statuses)
    for phase in OF_MINICLUSTERS:
        metrics.set(BY_PHASE, phases[phase], phase)
    metrics.set(BROKERS, sum(status.ready or 0 for status in statuses))
