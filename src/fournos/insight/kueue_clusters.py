"""The clusters that Kueue's quota names: those of an installation without FournosClusters, too.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fournos.api.slots import GPU_PREFIX, SLOT_RESOURCE
from fournos.engine.api.values import parse_quantity
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.resource import Obj
from fournos.engine.queueing.workload import CLUSTER_QUEUE
from fournos.engine.queueing.workload import RESOURCE_FLAVOR as RESOURCE_FLAVOR
from fournos.insight.quota import closed_flavors
from fournos.insight.source import Source, or_error
from fournos.insight.values import spec_of


@dataclass(frozen=True, slots=True)
class KueueCluster:
    """A ResourceFlavor with cluster slots."""

    name: str
    gpus: Mapping[str, int]
    """GPU type → the nominal quota of all ClusterQueues."""
    closed: str
    """Why it takes no jobs; "" if it takes jobs."""


async def read(source: Source) -> tuple[KueueCluster, ...]:
    """Reads them; without ClusterQueues that may be read there are none."""
    queues, flavors = await or_error(source.list(CLUSTER_QUEUE)), await or_error(source.list(RESOURCE_FLAVOR))
    return kueue_clusters(
        () if isinstance(queues, KubeError) else queues.items,
        () if isinstance(flavors, KubeError) else flavors.items,
    )


def kueue_clusters(queues: Iterable[Obj], flavors: Iterable[Obj]) -> tuple[KueueCluster, ...]:
    closed = closed_flavors(flavors)
    clusters: dict[str, dict[str, int]] = {}
    for queue in queues:
        for group in spec_of(queue).get("resourceGroups") or ():
            if SLOT_RESOURCE in (group.get("coveredResources") or ()):
                for flavor in group.get("flavors") or ():
                    _add(clusters.setdefault(str(flavor["name"]), {}), flavor)
    return tuple(KueueCluster(name, gpus, closed.get(name, "")) for name, gpus in sorted(clusters.items()))


def _add(gpus: dict[str, int], flavor: Mapping[str, object]) -> None:
    resources = flavor.get("resources")
    for resource in resources if isinstance(resources, list) else ():
        name, nominal = str(resource["name"]), int(parse_quantity(resource.get("nominalQuota") or 0))
        if name.startswith(GPU_PREFIX) and nominal:
            short = name.removeprefix(GPU_PREFIX)
            gpus[short] = gpus.get(short, 0) + nominal
