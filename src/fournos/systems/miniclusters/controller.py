"""Builds the controller of the MiniCluster operator."""

from __future__ import annotations

from functools import partial

from fournos.engine.queueing.managed import managed_elsewhere
from fournos.engine.runtime.controller import Controller
from fournos.systems.miniclusters.certificate import MakeCertificate, Maker
from fournos.systems.miniclusters.context import Observed
from fournos.systems.miniclusters.decide import decide
from fournos.systems.miniclusters.observe import observe, watches
from fournos.systems.miniclusters.settings import MiniClusterSettings

MINICLUSTERS = "miniclusters"
"""The name of the controller."""


def miniclusters_controller(settings: MiniClusterSettings) -> Controller[Observed]:
    """Returns the controller of MiniClusters."""
    return Controller(
        name=MINICLUSTERS,
        published_name="minicluster",
        watches=watches(),
        observe=observe,
        decide=partial(decide, settings=settings),
        primary=lambda observed: observed.minicluster,
        owns_status=lambda primary: not managed_elsewhere(primary.get("spec") or {}),
        executors={MakeCertificate: Maker(settings)},
    )
