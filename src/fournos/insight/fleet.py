"""The fleet: the clusters with their GPUs, locks and health, the jobs on them, and the jobs that wait."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from heapq import nsmallest
from typing import Final

from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB
from fournos.api.phase import HOLDING, TERMINAL
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.resource import Key, Obj, key_of
from fournos.engine.queueing.kinds import LOCAL_QUEUE, WORKLOAD
from fournos.insight import queues
from fournos.insight.clusters import KueueCluster, drained, gpus_of, lock_of, read_kueue_clusters
from fournos.insight.errors import MissingError
from fournos.insight.facts import born, everywhere, queue_facts, waits_in
from fournos.insight.jobs import JobRow
from fournos.insight.queues import Queued, QueueEntry, QueueFacts, entries
from fournos.insight.source import Source, or_error
from fournos.insight.values import (
    created,
    hardware_of,
    judged,
    name_of,
    one_line,
    phase_of,
    spec_of,
    status_of,
)

KINDS: Final = (*queues.KINDS, FOURNOS_CLUSTER)
"""The kinds that are read."""
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


@dataclass(frozen=True, slots=True)
class ClusterLock:
    """A lock that is requested or held."""

    state: str
    """Requested, Held, Expiring or Releasing."""
    owner: str
    since: str
    """When it was first held; RFC 3339, "" while it is only requested."""
    ends: str
    """When it ends by itself; "" if it has no ttl."""
    behind: tuple[str, ...]
    """The jobs that must end before it is held."""
    waiting: tuple[str, ...]
    """The jobs that wait for its end."""


@dataclass(frozen=True, slots=True)
class ClusterCard:
    """A cluster."""

    namespace: str
    name: str
    health: str
    """Valid, Missing, Invalid or Unreachable, as its kubeconfig is; Unknown before the first probe.

    "" for a cluster that only Kueue's quota names: no FournosCluster describes it.
    """
    problem: str
    """Why it cannot be reached, or why its GPUs could not be counted; "" if all is well."""
    version: str
    """The version of its Kubernetes."""
    lock: ClusterLock | None
    drain: str
    """Draining, Drained, Removing, or "" if it takes jobs."""
    gpus: tuple[GpuCounts, ...]
    running: tuple[JobLine, ...]
    """The jobs that hold it, the oldest first."""

    @property
    def state(self) -> str:
        """One word for what counts most: its health, then a drain, then a lock."""
        if self.health not in ("Valid", ""):
            return self.health
        return self.drain or (f"Lock {self.lock.state.lower()}" if self.lock else "Open")


@dataclass(frozen=True, slots=True)
class Details:
    """What the operator found out about a cluster.  Times are RFC 3339, "" if there is none."""

    secret: str
    """The Secret with its kubeconfig."""
    drain: bool
    """A drain is requested."""
    latency: str
    """How long it took to answer; "" if it has not answered."""
    certificate_ends: str
    unreachable_since: str
    counted: str
    """When its GPUs were counted."""
    shrinking: tuple[tuple[str, str], ...]
    """Models with fewer GPUs than before, and since when."""
    conditions: tuple[tuple[str, str, str, str, str], ...]
    """Type, status, reason, message and time of the last transition."""


@dataclass(frozen=True, slots=True)
class Fleet:
    clusters: tuple[ClusterCard, ...]
    """By name; numbers in names count as numbers."""
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
) -> Fleet:
    """Reads the fleet from a source; `clusters` is the namespace of the FournosClusters.

    Queues and clusters that may not be read are left out.  `most`: so many of the waiting jobs at most; no
    queue is read for none of them.
    """
    jobs = await everywhere(source, FOURNOS_JOB, namespace)
    described = await or_error(source.list(FOURNOS_CLUSTER, namespace=clusters))
    return fleet(
        jobs,
        () if isinstance(described, KubeError) else described.items,
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


def fleet(
    jobs: Sequence[Obj],
    clusters: Iterable[Obj],
    queued: Iterable[QueueEntry],
    *,
    kueue: Iterable[KueueCluster] = (),
    most: int | None = None,
) -> Fleet:
    """Returns the fleet.  Pure: `queued` are the entries of all queues, in their order.

    `kueue`: the clusters of the quota.  They are shown where no FournosCluster describes them.
    """
    holders, waiting = [], {}
    for job in jobs:
        phase = phase_of(job)
        if phase in HOLDING:
            holders.append(job)
        elif phase not in TERMINAL:  # it has neither a cluster nor an end
            waiting[key_of(job)] = job
    holders.sort(key=lambda job: (_since(job), key_of(job)))
    running = tuple(map(_job, holders))
    holding: dict[str, list[tuple[Obj, JobLine]]] = {}
    for job, line in zip(holders, running, strict=True):
        holding.setdefault(str(status_of(job).get("cluster") or ""), []).append((job, line))
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
    shown = (*(_job(job, entry) for entry, job in in_order[:most]), *map(_job, others))
    cards = {one.name: _kueue_card(one, holding.get(one.name, ())) for one in kueue}
    for cluster in clusters:
        here = holding.get(name_of(cluster), ())
        cards[name_of(cluster)] = judged(partial(_card, here=here), cluster, partial(_broken_card, cluster))
    return Fleet(
        tuple(cards[name] for name in sorted(cards, key=_natural)),
        running,
        shown,
        left_out=len(waiting) - len(shown),
        held=sum(map(_suspended, waiting.values())),
    )


def _suspended(job: Obj) -> bool:
    return bool(spec_of(job).get("suspend"))


def _holds(job: Obj) -> bool:
    return phase_of(job) in HOLDING


def _since(job: Obj) -> str:
    """Returns when the job began to run, to hold its cluster or to wait."""
    times = status_of(job).get("phaseTimes") if _holds(job) else None
    times = times if isinstance(times, Mapping) else {}  # a job of any shape has its place among the others
    return str(times.get("running") or times.get("admitted") or created(job))


def _job(job: Obj, entry: QueueEntry | None = None) -> JobLine:
    return judged(partial(_job_line, entry=entry), job, partial(_broken_job, job))


def _broken_job(job: Obj, problem: str) -> JobLine:
    return JobLine(*key_of(job), phase_of(job), "", "", "-", 0, created(job), 0, problem)


def _job_line(job: Obj, entry: QueueEntry | None) -> JobLine:
    row = JobRow.of(job)
    return JobLine(
        *(row.namespace, row.name, row.phase, row.owner, row.cluster, row.hardware or "-"),
        gpus=int(hardware_of(job).get("gpuCount") or 0),
        since=_since(job),
        place=entry.place if entry else 0,
        reason=entry.reason if entry else row.message,
        lock_only=bool(spec_of(job).get("lockOnly")),
    )


def _natural(name: str) -> list[tuple[int, str]]:
    parts = re.findall(r"\d+|\D+", name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _kueue_card(cluster: KueueCluster, holding: Sequence[tuple[Obj, JobLine]]) -> ClusterCard:
    """`holding`: the jobs that hold it; an exclusive one is the lock where no FournosCluster is."""
    here = [job for job, _ in holding]
    owner = next((str(spec_of(job).get("owner") or "") for job in here if _exclusive(job)), "")
    return ClusterCard(
        namespace="",
        name=cluster.name,
        health="",
        problem="",
        version="",
        lock=ClusterLock("Held", owner, _since(here[0]), "", (), ()) if owner else None,
        drain="",
        gpus=_gpus(cluster.gpus, here),
        running=tuple(line for _, line in holding),
    )


def _broken_card(cluster: Obj, problem: str) -> ClusterCard:
    return ClusterCard(*key_of(cluster), "Unknown", problem, "", None, "", (), ())


def _card(cluster: Obj, here: Sequence[tuple[Obj, JobLine]]) -> ClusterCard:
    status = status_of(cluster)
    connection, hardware = status.get("connection") or {}, status.get("hardware") or {}
    return ClusterCard(
        namespace=key_of(cluster).namespace,
        name=name_of(cluster),
        health=str(status.get("kubeconfigStatus") or "Unknown"),
        problem=one_line(connection.get("error") or hardware.get("lastError")),
        version=str(connection.get("version") or ""),
        lock=_lock(cluster),
        drain=_drain(cluster),
        gpus=_gpus(gpus_of(cluster), [job for job, _ in here]),
        running=tuple(line for _, line in here),
    )


def _exclusive(job: Obj) -> bool:
    return spec_of(job).get("exclusive") is not False


def _gpus(total: Mapping[str, int], here: Iterable[Obj]) -> tuple[GpuCounts, ...]:
    used = _used(here)
    return tuple(GpuCounts(name, used.get(name, 0), total.get(name, 0)) for name in sorted({*total, *used}))


def _used(jobs: Iterable[Obj]) -> Mapping[str, int]:
    used: dict[str, int] = {}
    for job in jobs:
        name, number = judged(_held_gpus, job, lambda problem: ("", 0))
        if name:
            used[name] = used.get(name, 0) + number
    return used


def _held_gpus(job: Obj) -> tuple[str, int]:
    gpus = hardware_of(job)
    return str(gpus.get("gpuType") or ""), int(gpus.get("gpuCount") or 0)


def _lock(cluster: Obj) -> ClusterLock | None:
    lock, status = lock_of(cluster), status_of(cluster)
    owner = str(lock.get("owner") or spec_of(cluster).get("owner") or "")
    if not owner and not lock:
        return None
    return ClusterLock(
        state=str(lock.get("state") or "Requested"),
        owner=owner,
        since=str(lock.get("heldSince") or ""),
        ends=str(status.get("lockExpiresAt") or ""),
        behind=tuple(map(str, lock.get("behind") or ())),
        waiting=tuple(map(str, lock.get("waiting") or ())),
    )


def _drain(cluster: Obj) -> str:
    if (gone := status_of(cluster).get("decommission")) is not None:
        return str(gone)
    if not spec_of(cluster).get("drain"):
        return ""
    return "Drained" if drained(cluster) else "Draining"


def details(cluster: Obj) -> Details:
    spec, status = spec_of(cluster), status_of(cluster)
    connection, hardware = status.get("connection") or {}, status.get("hardware") or {}
    latency = connection.get("latencyMs")
    names = ("type", "status", "reason", "message", "lastTransitionTime")
    return Details(
        secret=str(spec.get("kubeconfigSecret") or ""),
        drain=bool(spec.get("drain")),
        latency="" if latency is None else f"{latency} ms",
        certificate_ends=str(connection.get("certificateExpires") or ""),
        unreachable_since=str(connection.get("unreachableSince") or ""),
        counted=str(hardware.get("lastDiscovery") or ""),
        shrinking=tuple(
            (str(entry["model"]), str(entry["since"])) for entry in hardware.get("shrinking") or ()
        ),
        conditions=tuple(
            tuple(one_line(condition.get(name)) for name in names)  # type: ignore[misc]
            for condition in status.get("conditions") or ()
        ),
    )


def idle_locks(found: Iterable[ClusterCard]) -> tuple[ClusterCard, ...]:
    """The clusters that are held while nothing runs there, the longest held first."""
    idle = (one for one in found if one.lock and one.lock.since and all(job.lock_only for job in one.running))
    return tuple(sorted(idle, key=lambda one: one.lock.since if one.lock else ""))
