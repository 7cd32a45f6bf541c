"""What happens now: the clusters with their GPUs, the jobs on them, and the jobs that wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from heapq import nsmallest
from operator import attrgetter
from typing import Any, Final

from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB
from fournos.api.phase import HOLDING, TERMINAL
from fournos.insight.errors import MissingError
from fournos.insight.facts import everywhere, queue_facts
from fournos.insight.kueue_clusters import KueueCluster
from fournos.insight.kueue_clusters import read as read_kueue_clusters
from fournos.insight.queues import Queued, QueueEntry, entries
from fournos.insight.source import Source, derived, or_error
from fournos.insight.values import (
    created,
    hardware_of,
    hardware_text,
    name_of,
    one_line,
    phase_of,
    spec_of,
    status_of,
)
from fournos.kube.errors import KubeError
from fournos.kube.resource import Key, Obj, key_of
from fournos.queueing.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD

KINDS: Final = (FOURNOS_JOB, WORKLOAD, LOCAL_QUEUE, CLUSTER_QUEUE, RESOURCE_FLAVOR)
"""The kinds that are read, besides the FournosClusters of their own namespace."""
EXPLAINED: Final = 100
"""The number of entries of a queue that are explained: more do not fit on a screen."""


@dataclass(frozen=True, slots=True)
class Gpus:
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
    gpus: tuple[Gpus, ...]
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


@dataclass(frozen=True, slots=True)
class Overview:
    clusters: tuple[ClusterLine, ...]
    running: tuple[JobLine, ...]
    """The oldest first."""
    waiting: tuple[JobLine, ...]
    """In the order of their queues; those that are not queued last."""
    left_out: int = 0
    """The number of further jobs that wait."""

    def as_data(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "left_out"}


async def read(
    source: Source, namespace: str, clusters: str, now: datetime, *, most: int | None = None
) -> Overview:
    """Reads the overview from a source; `clusters` is the namespace of the FournosClusters.

    Queues and clusters that may not be read are left out.  `most`: so many of the waiting jobs at most; no
    queue is read for none of them.
    """
    jobs = await everywhere(source, FOURNOS_JOB, namespace)
    found = await or_error(source.list(FOURNOS_CLUSTER, namespace=clusters))
    return overview(
        jobs,
        () if isinstance(found, KubeError) else found.items,
        () if most == 0 else await _queued(source, namespace, jobs, now),
        kueue=await read_kueue_clusters(source),
        most=most,
    )


async def _queued(source: Source, namespace: str, jobs: Sequence[Obj], now: datetime) -> list[QueueEntry]:
    """The entries of every ClusterQueue that has a LocalQueue with Workloads."""
    try:
        workloads = await everywhere(source, WORKLOAD, namespace)
        locals_ = {key_of(one): one for one in await everywhere(source, LOCAL_QUEUE, namespace)}
    except KubeError:
        return []
    used = derived(workloads, _queues)
    ways = {str(spec_of(one).get("clusterQueue")): key for key, one in sorted(locals_.items()) if key in used}
    shared = Queued.of(workloads, jobs)
    result: list[QueueEntry] = []
    for key in ways.values():
        queue: Obj = {"metadata": {"namespace": key.namespace, "name": key.name}}
        try:
            result += entries(shared.at(await queue_facts(source, queue, key.name)), now, most=EXPLAINED)
        except (MissingError, KubeError):
            continue
    return result


def _queues(workloads: Iterable[Obj]) -> frozenset[Key]:
    """The LocalQueues that the Workloads name."""
    return frozenset(
        Key(one["metadata"]["namespace"], str((one.get("spec") or {}).get("queueName"))) for one in workloads
    )


def overview(
    jobs: Sequence[Obj],
    clusters: Iterable[Obj],
    queued: Iterable[QueueEntry],
    *,
    kueue: Iterable[KueueCluster] = (),
    most: int | None = None,
) -> Overview:
    """Pure: `queued` are the entries of all queues, in their order.

    `kueue`: the clusters of the quota.  They are shown where no FournosCluster describes them.
    """
    running: list[JobLine] = []
    placed: list[tuple[int, str, Obj, QueueEntry]] = []
    others: list[tuple[str, Obj]] = []
    holding: dict[str, list[Obj]] = {}
    places = {Key(one.namespace, one.name): one for one in queued if one.kind == FOURNOS_JOB.kind}
    for job in jobs:
        phase = phase_of(job)
        if phase in HOLDING:
            running.append(_job(job, phase, None))
            holding.setdefault(str(status_of(job).get("cluster") or ""), []).append(job)
        elif phase not in TERMINAL:
            entry = places.get(key_of(job)) if places else None
            if entry is not None:
                placed.append((entry.place, phase, job, entry))
            else:
                others.append((phase, job))
    placed.sort(key=lambda one: (one[0], *_born((one[1], one[2]))))  # several queues have a first place
    wanted = None if most is None else max(0, most - len(placed))
    shown = (
        *(_job(job, phase, entry) for _, phase, job, entry in placed[:most]),
        *(_job(job, phase, None) for phase, job in _oldest(others, wanted)),
    )
    described = {name_of(one): one for one in clusters}
    lines = [_cluster(one, holding.get(name, ())) for name, one in described.items()]
    lines += [_kueue_cluster(one, holding.get(one.name, ())) for one in kueue if one.name not in described]
    return Overview(
        tuple(sorted(lines, key=attrgetter("name"))),
        tuple(sorted(running, key=_age)),
        shown,
        left_out=len(placed) + len(others) - len(shown),
    )


def _oldest(waiting: Iterable[tuple[str, Obj]], most: int | None) -> Iterable[tuple[str, Obj]]:
    """The first so many by age; all for None."""
    if most == 0:
        return ()
    return sorted(waiting, key=_born) if most is None else nsmallest(most, waiting, key=_born)


def _born(one: tuple[str, Obj]) -> tuple[str, Key]:
    return created(one[1]), key_of(one[1])


def _age(line: JobLine) -> tuple[str, str, str]:
    return line.since, line.namespace, line.name


def _job(job: Obj, phase: str, entry: QueueEntry | None) -> JobLine:
    spec, status, key = spec_of(job), status_of(job), key_of(job)
    wanted = hardware_of(job)
    began = (status.get("phaseTimes") or {}).get("running") if phase in HOLDING else None
    return JobLine(
        namespace=key.namespace,
        name=key.name,
        phase=phase,
        owner=str(spec.get("owner") or ""),
        cluster=str(status.get("cluster") or spec.get("cluster") or ""),
        hardware=hardware_text(wanted),
        gpus=int(wanted.get("gpuCount") or 0),
        since=str(began or created(job)),
        place=entry.place if entry else 0,
        reason=entry.reason if entry else one_line(status.get("message")),
    )


def _cluster(cluster: Obj, here: Sequence[Obj]) -> ClusterLine:
    """`here` are the jobs that hold it."""
    spec, status = spec_of(cluster), status_of(cluster)
    lock = status.get("lock") or {}
    states = [status.get("kubeconfigStatus"), lock.get("state"), "draining" if spec.get("drain") else ""]
    total: dict[str, int] = {}
    for gpu in (status.get("hardware") or {}).get("gpus") or ():
        name = str(gpu.get("shortName") or gpu.get("model"))
        total[name] = total.get(name, 0) + int(gpu.get("count") or 0)
    return ClusterLine(
        name=name_of(cluster),
        state=", ".join(str(one) for one in states if one) or "-",
        owner=str(spec.get("owner") or ""),
        gpus=_gpus(total, here),
        jobs=len(here),
    )


def _kueue_cluster(cluster: KueueCluster, here: Sequence[Obj]) -> ClusterLine:
    """An exclusive job is the lock of a cluster that has no FournosCluster."""
    owner = next((str(spec_of(job).get("owner") or "") for job in here if _exclusive(job)), "")
    state = ", ".join(one for one in (cluster.closed, "Held" if owner else "") if one)
    return ClusterLine(cluster.name, state or "-", owner, _gpus(cluster.gpus, here), len(here))


def _exclusive(job: Obj) -> bool:
    return spec_of(job).get("exclusive") is not False


def _gpus(total: Mapping[str, int], here: Iterable[Obj]) -> tuple[Gpus, ...]:
    used = _used(here)
    return tuple(Gpus(name, used.get(name, 0), total.get(name, 0)) for name in sorted({*total, *used}))


def _used(jobs: Iterable[Obj]) -> Mapping[str, int]:
    used: dict[str, int] = {}
    for job in jobs:
        wanted = hardware_of(job)
        if wanted.get("gpuType"):
            name = str(wanted["gpuType"])
            used[name] = used.get(name, 0) + int(wanted.get("gpuCount") or 0)
    return used
