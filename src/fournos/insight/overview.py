"""What happens now: the clusters with their GPUs, the jobs on them, and the jobs that wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import nsmallest
from operator import attrgetter
from typing import Final

from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB
from fournos.api.phase import HOLDING, TERMINAL
from fournos.api.slots import GPU_PREFIX, SLOT_RESOURCE
from fournos.engine.api.values import parse_quantity
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.resource import Key, Obj, key_of
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from fournos.engine.queueing.kinds import RESOURCE_FLAVOR as RESOURCE_FLAVOR
from fournos.insight.clusters import gpus_of
from fournos.insight.errors import MissingError
from fournos.insight.facts import born, everywhere, queue_facts, waits_in
from fournos.insight.jobs import JobRow
from fournos.insight.queues import Queued, QueueEntry, QueueFacts, entries
from fournos.insight.quota import closed_flavors
from fournos.insight.source import Source, or_error
from fournos.insight.values import (
    created,
    hardware_of,
    name_of,
    phase_of,
    spec_of,
    status_of,
)


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


KINDS: Final = (FOURNOS_JOB, WORKLOAD, LOCAL_QUEUE, CLUSTER_QUEUE, RESOURCE_FLAVOR)
"""The kinds that are read, besides the FournosClusters of their own namespace."""
EXPLAINED: Final = 100
"""The number of entries of a queue that are explained: more do not fit on a screen."""


@dataclass(frozen=True, slots=True)
class GpuCounts:
    """The GPUs of one type in a cluster."""

    type: str
    used: int
    """The GPUs of the jobs that hold the cluster."""
    total: int


@dataclass(frozen=True, slots=True)
class ClusterLine:
    """A cluster."""

    name: str
    state: str
    """The state of its kubeconfig, of its lock, and whether it is drained."""
    owner: str
    gpus: tuple[GpuCounts, ...]
    jobs: int


@dataclass(frozen=True, slots=True)
class JobLine:
    """A job that runs or waits."""

    namespace: str
    name: str
    phase: str
    owner: str
    cluster: str
    hardware: str
    gpus: int
    since: str
    """When it began to run, or to wait; RFC 3339."""
    place: int
    """The position in its queue, from 1; 0 if it runs or is not queued."""
    reason: str
    """Why it waits, or the message of a job that runs."""
    lock_only: bool = False
    """It only holds its cluster: nothing of it runs."""
    held: bool = False
    """Its owner holds it: it waits for nothing else (spec.suspend)."""


@dataclass(frozen=True, slots=True)
class Overview:
    clusters: tuple[ClusterLine, ...]
    running: tuple[JobLine, ...]
    """The oldest first."""
    waiting: tuple[JobLine, ...]
    """In the order of their queues; those that are not queued last."""
    left_out: int = 0
    """The number of further jobs that wait."""
    held: int = 0
    """How many of all that wait are held by their owners."""


async def read(
    source: Source, namespace: str, clusters: str, now: datetime, *, most: int | None = None
) -> Overview:
    """Reads the overview from a source; `clusters` is the namespace of the FournosClusters.

    Queues and clusters that may not be read are left out.  `most`: so many of the waiting jobs at most; no
    queue is read for none of them.
    """
    jobs = await everywhere(source, FOURNOS_JOB, namespace)
    clusters_read = await or_error(source.list(FOURNOS_CLUSTER, namespace=clusters))
    return overview(
        jobs,
        () if isinstance(clusters_read, KubeError) else clusters_read.items,
        () if most == 0 else await _queued(source, namespace, jobs, now),
        kueue=await read_kueue_clusters(source),
        most=most,
    )


async def _queued(source: Source, namespace: str, jobs: Sequence[Obj], now: datetime) -> list[QueueEntry]:
    """Returns the entries of every ClusterQueue that has a LocalQueue in which a Workload waits."""
    try:
        workloads = await everywhere(source, WORKLOAD, namespace)
        locals_ = {
            key_of(local_queue): local_queue
            for local_queue in await everywhere(source, LOCAL_QUEUE, namespace)
        }
    except KubeError:
        return []
    used = {waits_in(workload) for workload in workloads}
    ways = {
        str(spec_of(local_queue).get("clusterQueue")): key
        for key, local_queue in sorted(locals_.items())
        if key in used
    }
    shared = Queued.of(workloads, jobs)
    result: list[QueueEntry] = []
    for key in ways.values():
        queue: Obj = {"metadata": {"namespace": key.namespace, "name": key.name}}
        try:
            facts = QueueFacts(await queue_facts(source, queue, key.name), shared)
            result += entries(facts, now, most=EXPLAINED)
        except (MissingError, KubeError):
            continue
    return result


def overview(
    jobs: Sequence[Obj],
    clusters: Iterable[Obj],
    queued: Iterable[QueueEntry],
    *,
    kueue: Iterable[KueueCluster] = (),
    most: int | None = None,
) -> Overview:
    """Returns the overview.  Pure: `queued` are the entries of all queues, in their order.

    `kueue`: the clusters of the quota.  They are shown where no FournosCluster describes them.
    """
    holders = sorted((job for job in jobs if _holds(job)), key=lambda job: (_since(job), key_of(job)))
    holding: dict[str, list[Obj]] = {}
    for job in holders:
        holding.setdefault(str(status_of(job).get("cluster") or ""), []).append(job)
    waiting = {key_of(job): job for job in jobs if _waits(job)}
    held = sum(map(_suspended, waiting.values()))
    placed = {
        key: (entry, waiting[key])
        for entry in queued
        if entry.kind == FOURNOS_JOB.kind and (key := Key(entry.namespace, entry.name)) in waiting
    }
    # Several queues have a first place.
    in_order = sorted(placed.values(), key=lambda placement: (placement[0].place, *born(placement[1])))
    unplaced = (job for key, job in waiting.items() if key not in placed)
    room = len(waiting) if most is None else max(0, most - len(placed))
    others = nsmallest(room, unplaced, key=lambda job: (_suspended(job), *born(job)))
    shown = (
        *(_job(job, entry) for entry, job in in_order[:most]),
        *map(_job, others),
    )
    described = {name_of(cluster): cluster for cluster in clusters}
    lines = [_cluster(cluster, holding.get(name, ())) for name, cluster in described.items()]
    lines += [
        _kueue_cluster(cluster, holding.get(cluster.name, ()))
        for cluster in kueue
        if cluster.name not in described
    ]
    return Overview(
        tuple(sorted(lines, key=attrgetter("name"))),
        tuple(map(_job, holders)),
        shown,
        left_out=len(waiting) - len(shown),
        held=held,
    )


_SETTLED: Final = HOLDING | TERMINAL


def _waits(job: Obj) -> bool:
    """True if the job has neither a cluster nor an end."""
    return phase_of(job) not in _SETTLED


def _suspended(job: Obj) -> bool:
    return bool(spec_of(job).get("suspend"))


def waiting_text(waiting: int, held: int) -> str:
    """Returns how many jobs wait, and how many of the `waiting` are held instead, in words."""
    return f"{waiting - held} waiting" + (f", {held} held" if held else "")


def _holds(job: Obj) -> bool:
    return phase_of(job) in HOLDING


def _since(job: Obj) -> str:
    """Returns when the job began to run, to hold its cluster or to wait."""
    times = (status_of(job).get("phaseTimes") or {}) if _holds(job) else {}
    return str(times.get("running") or times.get("admitted") or created(job))


def _job(job: Obj, entry: QueueEntry | None = None) -> JobLine:
    row = JobRow.of(job)
    return JobLine(
        *(row.namespace, row.name, row.phase, row.owner, row.cluster, row.hardware or "-"),
        gpus=int(hardware_of(job).get("gpuCount") or 0),
        since=_since(job),
        place=entry.place if entry else 0,
        reason=entry.reason if entry else row.message,
        lock_only=bool(spec_of(job).get("lockOnly")),
        held=_waits(job) and _suspended(job),
    )


def _cluster(cluster: Obj, here: Sequence[Obj]) -> ClusterLine:
    """`here` are the jobs that hold it."""
    spec, status = spec_of(cluster), status_of(cluster)
    lock = status.get("lock") or {}
    states = [status.get("kubeconfigStatus"), lock.get("state"), "draining" if spec.get("drain") else ""]
    return ClusterLine(
        name=name_of(cluster),
        state=", ".join(str(one) for one in states if one) or "-",
        owner=str(spec.get("owner") or ""),
        gpus=_gpus(gpus_of(cluster), here),
        jobs=len(here),
    )


def _kueue_cluster(cluster: KueueCluster, here: Sequence[Obj]) -> ClusterLine:
    """An exclusive job is the lock of a cluster that has no FournosCluster."""
    owner = next((str(spec_of(job).get("owner") or "") for job in here if _exclusive(job)), "")
    state = ", ".join(one for one in (cluster.closed, "Held" if owner else "") if one)
    return ClusterLine(cluster.name, state or "-", owner, _gpus(cluster.gpus, here), len(here))


def _exclusive(job: Obj) -> bool:
    return spec_of(job).get("exclusive") is not False


def _gpus(total: Mapping[str, int], here: Iterable[Obj]) -> tuple[GpuCounts, ...]:
    used = _used(here)
    return tuple(GpuCounts(name, used.get(name, 0), total.get(name, 0)) for name in sorted({*total, *used}))


def _used(jobs: Iterable[Obj]) -> Mapping[str, int]:
    used: dict[str, int] = {}
    for job in jobs:
        gpus = hardware_of(job)
        if gpus.get("gpuType"):
            name = str(gpus["gpuType"])
            used[name] = used.get(name, 0) + int(gpus.get("gpuCount") or 0)
    return used
