"""Builds the controller of the MiniCluster operator."""

from __future__ import annotations

from functools import partial

from fournos.miniclusters.certificate import MakeCertificate, Maker
from fournos.miniclusters.context import Observed
from fournos.miniclusters.decide import decide
from fournos.miniclusters.observe import observe, watches
from fournos.miniclusters.settings import MiniClusterSettings
from fournos.queueing.managed import managed_elsewhere
from fournos.runtime.controller import Controller

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
