"""The part `clusters`: FournosClusters, and the connections to their API servers."""

from __future__ import annotations

from fournos.api.fournoscluster import DEFINITION
from fournos.api.required import FOURNOS
from fournos.clusters.controller import CLUSTERS, cluster_controllers
from fournos.clusters.metrics import report
from fournos.clusters.observe import project_node
from fournos.clusters.rights import RIGHTS
from fournos.clusters.rules import RULES
from fournos.clusters.settings import ClusterSettings
from fournos.kube.fleet import Fleet, FleetWatch
from fournos.kube.kinds import NODE
from fournos.kube.resource import Key
from fournos.queueing.kinds import KUEUE
from fournos.runtime.clock import Clock
from fournos.runtime.metrics import Metrics
from fournos.runtime.part import Part, Running, Wake


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
    rights=RIGHTS,
    required=(FOURNOS, KUEUE),
    collect_interval=lambda settings: settings.reconcile_interval_sec,
    kinds=((DEFINITION, RULES),),
)
