"""Clusters: those of the quota, and the changes of a FournosCluster with the checks that each is done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fournos.api.kinds import DISCOVER_ANNOTATION
from fournos.api.slots import GPU_PREFIX, SLOT_RESOURCE
from fournos.engine.api.conditions import condition
from fournos.engine.api.values import parse_time, parse_ttl, quantity_of
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.resource import Obj
from fournos.engine.queueing.kinds import CLUSTER_QUEUE
from fournos.engine.queueing.kinds import RESOURCE_FLAVOR as RESOURCE_FLAVOR
from fournos.insight.errors import FournosError
from fournos.insight.source import Source, or_error
from fournos.insight.values import name_of, spec_of, status_of


def lock_change(cluster: Obj, owner: str, *, ttl: str | None, drain: str | None, now: datetime) -> Obj:
    """Returns the merge patch that locks the cluster for `owner`.

    Raises FournosError if the cluster is locked for another owner, or if `ttl` has already expired.
    """
    changes = {"owner": owner, "ttl": ttl_of(ttl), **drain_change(drain)}
    current = spec_of(cluster).get("owner")
    if current and current != owner:
        raise FournosError(
            f"{name_of(cluster)} is locked for {current}",
            fix=f"ask {current}, or take it away from them: fournos cluster unlock {name_of(cluster)}",
        )
    begun = status_of(cluster).get("ownerSetAt")
    # A ttl counts from when the owner was first set, also when it is changed later.
    if ttl and begun and current == owner and parse_time(begun) + parse_ttl(ttl) <= now:
        raise FournosError(
            f"{ttl} after {begun}, when this lock began, has passed already",
            fix="give a longer --ttl, or unlock first",
        )
    return {"spec": changes}


def unlock_change(cluster: Obj) -> Obj:
    """Returns the merge patch that releases the cluster; it stays drained if it was before it was locked."""
    drain = {} if lock_of(cluster).get("drainedBefore") else {"drain": None}
    return {"spec": {"owner": "", "ttl": None, **drain}}


def ttl_of(text: str | None) -> str | None:
    """Returns `text` if it is a valid time to live.  Raises FournosError otherwise."""
    try:
        if text:
            parse_ttl(text)
    except ValueError as error:
        raise FournosError(str(error), fix="write a number and m, h or d, such as --ttl 4h") from None
    return text


def drain_change(text: str | None) -> dict[str, Any]:
    """Returns the spec field for a drain mode, {} for None.  Raises FournosError for an unknown mode."""
    if text is None:
        return {}
    mode = {"wait": "Wait", "stop": "Stop"}.get(text.lower())
    if mode is None:
        raise FournosError(f"{text} is not a way to drain", fix="write wait or stop")
    return {"drain": mode}


def discover_change(asked: str) -> Obj:
    """Returns the merge patch that requests a new discovery; `asked` is the current time in RFC 3339."""
    return {"metadata": {"annotations": {DISCOVER_ANNOTATION: asked}}}


def lock_of(cluster: Obj) -> Mapping[str, Any]:
    return status_of(cluster).get("lock") or {}


def gpus_of(cluster: Obj) -> dict[str, int]:
    """Returns GPU type → number, as Hearth has found them; models of one type count together."""
    total: dict[str, int] = {}
    for gpu in (status_of(cluster).get("hardware") or {}).get("gpus") or ():
        name = str(gpu.get("shortName") or gpu.get("model"))
        total[name] = total.get(name, 0) + int(gpu.get("count") or 0)
    return total


def locked_for(cluster: Obj, owner: str) -> bool:
    """True if `owner` holds the lock, by a status of the current spec: then its end is that of this ttl."""
    status, generation = status_of(cluster), cluster["metadata"].get("generation") or 0
    current = (status.get("observedGeneration") or generation) >= generation
    return current and bool(status.get("locked")) and lock_of(cluster).get("owner") == owner


def drained(cluster: Obj) -> bool:
    """True if the cluster is drained: no job runs on it."""
    return (condition(cluster, "Draining") or {}).get("reason") == "Drained"


def looked_at(cluster: Obj, asked: str) -> bool:
    """True if the discovery that was requested at `asked` has been attempted."""
    status = status_of(cluster)
    return status.get("discoverRequested") == asked and bool(
        (status.get("hardware") or {}).get("lastAttempt")
    )


# --- clusters of the quota ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KueueCluster:
    """A ResourceFlavor with cluster slots."""

    name: str
    gpus: Mapping[str, int]
    """GPU type → the nominal quota of all ClusterQueues."""
    closed: str
    """Why it takes no jobs; "" if it takes jobs."""


async def read_kueue_clusters(source: Source) -> tuple[KueueCluster, ...]:
    """Reads them; without ClusterQueues that may be read there are none."""
    queues, flavors = await or_error(source.list(CLUSTER_QUEUE)), await or_error(source.list(RESOURCE_FLAVOR))
    return kueue_clusters(
        () if isinstance(queues, KubeError) else queues.items,
        () if isinstance(flavors, KubeError) else flavors.items,
    )


def kueue_clusters(queues: Iterable[Obj], flavors: Iterable[Obj]) -> tuple[KueueCluster, ...]:
    # Not above: it loads the job framework, which programs with the client alone never need.
    from fournos.insight.quota import closed_flavors

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
        name, nominal = str(resource["name"]), int(quantity_of(resource.get("nominalQuota") or 0))
        if name.startswith(GPU_PREFIX) and nominal:
            short = name.removeprefix(GPU_PREFIX)
            gpus[short] = gpus.get(short, 0) + nominal
