"""Builds the three controllers of the FournosCluster operator."""

from __future__ import annotations

from functools import partial
from typing import Any

from fournos.engine.runtime.controller import Controller
from fournos.systems.clusters.clusterqueue import queue_controller
from fournos.systems.clusters.context import DeletedCluster, Observed
from fournos.systems.clusters.decide import decide
from fournos.systems.clusters.kubeconfig_secrets import secrets_controller
from fournos.systems.clusters.observe import Observer, watches
from fournos.systems.clusters.settings import ClusterSettings
from fournos.systems.clusters.steps import Targets, executors

CLUSTERS = "clusters"
"""The name of the controller whose keys are FournosClusters. A change of a connection enqueues its keys."""


def clusters_controller(settings: ClusterSettings, targets: Targets) -> Controller[Observed | DeletedCluster]:
    """Returns the controller of FournosClusters."""
    return Controller(
        name=CLUSTERS,
        watches=watches(settings),
        observe=Observer(settings, targets),
        decide=partial(decide, settings=settings),
        primary=lambda observed: observed.cluster,
        owns_status=lambda cluster: True,
        executors=executors(targets),
    )


def cluster_controllers(settings: ClusterSettings, targets: Targets) -> list[Controller[Any]]:
    """Returns the controllers of kubeconfig Secrets, of FournosClusters, and of the ClusterQueue."""
    return [secrets_controller(settings), clusters_controller(settings, targets), queue_controller(settings)]
