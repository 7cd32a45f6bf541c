"""Wiring: the three systems of the clusters as the runtime takes them."""

from __future__ import annotations

from functools import partial
from typing import Any

from fournos.clusters.clusterqueue import queue_controller
from fournos.clusters.context import Observed, Vanished
from fournos.clusters.decide import decide
from fournos.clusters.kubeconfig_secrets import secrets_controller
from fournos.clusters.observe import Observer, watches
from fournos.clusters.settings import ClusterSettings
from fournos.clusters.steps import Targets, executors
from fournos.runtime.controller import Controller

CLUSTERS = "clusters"
"""The system whose keys are FournosClusters: what a change of a connection wakes."""


def clusters_controller(settings: ClusterSettings, targets: Targets) -> Controller[Observed | Vanished]:
    return Controller(
        name=CLUSTERS,
        watches=watches(settings),
        observe=Observer(settings, targets),
        decide=partial(decide, settings=settings),
        primary=lambda observed: observed.cluster,
        executors=executors(targets),
    )


def cluster_controllers(settings: ClusterSettings, targets: Targets) -> list[Controller[Any]]:
    """Secrets become FournosClusters, those are looked after, and all of them make the queue."""
    return [secrets_controller(settings), clusters_controller(settings, targets), queue_controller(settings)]
