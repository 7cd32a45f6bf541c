"""The part `miniclusters`: MiniClusters."""

from __future__ import annotations

from functools import partial

from fournos.api.minicluster import DEFINITION
from fournos.engine.queueing.job import managed_elsewhere
from fournos.engine.queueing.workload import KUEUE
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.controller import Controller
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.part import MINICLUSTER as MINICLUSTER_API
from fournos.engine.runtime.part import Part, Running, Wake
from fournos.systems.miniclusters.decide import decide
from fournos.systems.miniclusters.metrics import report
from fournos.systems.miniclusters.observe import observe, watches
from fournos.systems.miniclusters.rules import RULES
from fournos.systems.miniclusters.settings import MiniClusterSettings
from fournos.systems.miniclusters.start import MakeCertificate, Maker
from fournos.systems.miniclusters.status import Observed

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


# --- the declaration -----------------------------------------------------------------------------------


def start(settings: MiniClusterSettings, clock: Clock, metrics: Metrics, wake: Wake) -> Running:
    return Running(
        [miniclusters_controller(settings)],
        refresh=lambda manager: report(manager.caches(MINICLUSTERS), metrics),
    )


PART = Part(
    name=MINICLUSTERS,
    title="MiniClusters (`fournos run --enable miniclusters`)",
    settings=MiniClusterSettings,
    start=start,
    lease="miniclusters",
    namespace="operator-system",
    required=(MINICLUSTER_API, KUEUE),
    kinds=((DEFINITION, RULES),),
)
