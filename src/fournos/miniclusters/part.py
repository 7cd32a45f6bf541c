"""The part `miniclusters`: MiniClusters."""

from __future__ import annotations

from fournos.api.minicluster import DEFINITION
from fournos.api.required import MINICLUSTER
from fournos.miniclusters.controller import MINICLUSTERS, miniclusters_controller
from fournos.miniclusters.metrics import report
from fournos.miniclusters.rights import RIGHTS
from fournos.miniclusters.rules import RULES
from fournos.miniclusters.settings import MiniClusterSettings
from fournos.queueing.kinds import KUEUE
from fournos.runtime.clock import Clock
from fournos.runtime.metrics import Metrics
from fournos.runtime.part import Part, Running, Wake


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
    rights=RIGHTS,
    required=(MINICLUSTER, KUEUE),
    kinds=((DEFINITION, RULES),),
)
