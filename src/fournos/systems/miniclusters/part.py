"""The part `miniclusters`: MiniClusters."""

from __future__ import annotations

from fournos.api.minicluster import DEFINITION
from fournos.engine.queueing.kinds import KUEUE
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.part import Part, Running, Wake
from fournos.engine.runtime.preflight import MINICLUSTER
from fournos.systems.miniclusters.controller import MINICLUSTERS, miniclusters_controller
from fournos.systems.miniclusters.metrics import report
from fournos.systems.miniclusters.rules import RULES
from fournos.systems.miniclusters.settings import MiniClusterSettings


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
    required=(MINICLUSTER, KUEUE),
    kinds=((DEFINITION, RULES),),
)
