"""The part `clusters`: FournosClusters, and the connections to their API servers."""

from __future__ import annotations

from fournos.api.fournoscluster import DEFINITION
from fournos.engine.kube.fleet import Fleet, FleetWatch
from fournos.engine.kube.resource import NODE, Key
from fournos.engine.queueing.kinds import KUEUE
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.part import Part, Running, Wake
from fournos.engine.runtime.preflight import FOURNOS
from fournos.systems.clusters.controller import CLUSTERS, cluster_controllers
from fournos.systems.clusters.metrics import report
from fournos.systems.clusters.observe import project_node
from fournos.systems.clusters.rules import RULES
from fournos.systems.clusters.settings import ClusterSettings


def start(settings: ClusterSettings, clock: Clock, metrics: Metrics, wake: Wake) -> Running:
    fleet = Fleet(
        watches=[FleetWatch(NODE, project=project_node)],
        on_change=lambda name: wake(CLUSTERS, Key(settings.namespace, name)),
        now=clock.now,
        monotonic=clock.monotonic,
        probe_interval=settings.reconcile_interval_sec,
        timeout=settings.gpu_discovery_timeout_sec,
        observer=metrics.requests("target"),
    )
    return Running(
        cluster_controllers(settings, fleet),
        background={"fleet": fleet.run},
        refresh=lambda manager: report(manager.caches(CLUSTERS), metrics),
    )


PART = Part(
    name="clusters",
    title="The clusters (`fournos run --enable clusters`)",
    settings=ClusterSettings,
    start=start,
    lease="hearth",
    required=(FOURNOS, KUEUE),
    collect_interval=lambda settings: settings.reconcile_interval_sec,
    kinds=((DEFINITION, RULES),),
)
