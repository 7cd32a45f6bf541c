"""What happens now: the clusters with their GPUs, the jobs on them, and the jobs that wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from fournos.api.phase import HOLDING, TERMINAL
from fournos.clusters.kinds import FOURNOS_CLUSTER
from fournos.insight.errors import MissingError
from fournos.insight.facts import everywhere
from fournos.insight.queues import QueueEntry, entries, gather_queue
from fournos.insight.source import Source, or_error
from fournos.insight.values import (
    created,
    hardware,
    name_of,
    one_line,
    phase_of,
    spec_of,
    status_of,
)
from fournos.jobs.kinds import FOURNOS_JOB
from fournos.kube.errors import KubeError
from fournos.kube.resource import Key, Obj, key_of
from fournos.queueing.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD

KINDS: Final = (FOURNOS_JOB, WORKLOAD, LOCAL_QUEUE, CLUSTER_QUEUE, RESOURCE_FLAVOR)
"""The kinds that are read, besides the FournosClusters of their own namespace."""
_NOT_WAITING: Final = HOLDING | TERMINAL
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

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


async def read(source: Source, namespace: str, clusters: str, now: datetime) -> Overview:
    """Reads the overview from a source; `clusters` is the namespace of the FournosClusters.

    Queues and clusters that may not be read are left out.
    """
    jobs = await everywhere(source, FOURNOS_JOB, namespace)
    found = await or_error(source.list(FOURNOS_CLUSTER, namespace=clusters))
    return overview(
        jobs, () if isinstance(found, KubeError) else found.items, await _queued(source, namespace, now)
    )


async def _queued(source: Source, namespace: str, now: datetime) -> list[QueueEntry]:
    """The entries of every ClusterQueue that has a LocalQueue with Workloads."""
    try:
        workloads = await everywhere(source, WORKLOAD, namespace)
        locals_ = {key_of(one): one for one in await everywhere(source, LOCAL_QUEUE, namespace)}
    except KubeError:
        return []
    used = {Key(key_of(one).namespace, str(spec_of(one).get("queueName"))) for one in workloads}
    ways = {str(spec_of(locals_[key]).get("clusterQueue")): key for key in sorted(used & locals_.keys())}
    result: list[QueueEntry] = []
    for key in ways.values():
        try:
            result += entries(await gather_queue(source, *key), now, most=EXPLAINED)
        except (MissingError, KubeError):
            continue
    return result


def overview(jobs: Sequence[Obj], clusters: Iterable[Obj], queued: Iterable[QueueEntry]) -> Overview:
    """Pure: `queued` are the entries of all queues, in their order."""
    running = [job for job in jobs if phase_of(job) in HOLDING]
    holding: dict[str, list[Obj]] = {}
    for job in running:
        holding.setdefault(str(status_of(job).get("cluster") or ""), []).append(job)
    places = {(one.namespace, one.name): one for one in queued if one.kind == FOURNOS_JOB.kind}
    waiting = [
        _job(job, places.get((key_of(job).namespace, name_of(job))))
        for job in jobs
        if phase_of(job) not in _NOT_WAITING
    ]
    return Overview(
        tuple(_cluster(one, holding.get(name_of(one), ())) for one in sorted(clusters, key=name_of)),
        tuple(sorted((_job(job, None) for job in running), key=_age)),
        tuple(sorted(waiting, key=lambda one: (not one.place, one.place, *_age(one)))),
    )


def _age(line: JobLine) -> tuple[str, str, str]:
    return line.since, line.namespace, line.name


def _job(job: Obj, entry: QueueEntry | None) -> JobLine:
    status, times = status_of(job), status_of(job).get("phaseTimes") or {}
    wanted = (status.get("resolved") or {}).get("hardware") or spec_of(job).get("hardware") or {}
    return JobLine(
        namespace=key_of(job).namespace,
        name=name_of(job),
        phase=phase_of(job),
        owner=str(spec_of(job).get("owner") or ""),
        cluster=str(status.get("cluster") or spec_of(job).get("cluster") or ""),
        hardware=hardware(job),
        gpus=int(wanted.get("gpuCount") or 0),
        since=str(times.get("running") or created(job)) if phase_of(job) in HOLDING else created(job),
        place=entry.place if entry else 0,
        reason=entry.reason if entry else one_line(status.get("message")),
    )


def _cluster(cluster: Obj, here: Sequence[Obj]) -> ClusterLine:
    """`here` are the jobs that hold it."""
    spec, status = spec_of(cluster), status_of(cluster)
    lock = status.get("lock") or {}
    states = [status.get("kubeconfigStatus"), lock.get("state"), "draining" if spec.get("drain") else ""]
    used = _used(here)
    total: dict[str, int] = {}
    for gpu in (status.get("hardware") or {}).get("gpus") or ():
        name = str(gpu.get("shortName") or gpu.get("model"))
        total[name] = total.get(name, 0) + int(gpu.get("count") or 0)
    return ClusterLine(
        name=name_of(cluster),
        state=", ".join(str(one) for one in states if one) or "-",
        owner=str(spec.get("owner") or ""),
        gpus=tuple(Gpus(name, used.get(name, 0), total.get(name, 0)) for name in sorted({*total, *used})),
        jobs=len(here),
    )


def _used(jobs: Iterable[Obj]) -> Mapping[str, int]:
    used: dict[str, int] = {}
    for job in jobs:
        wanted = (status_of(job).get("resolved") or {}).get("hardware") or spec_of(job).get("hardware") or {}
        if wanted.get("gpuType"):
            name = str(wanted["gpuType"])
            used[name] = used.get(name, 0) + int(wanted.get("gpuCount") or 0)
    return used
