"""A queue: its pending objects in order, why each waits, its quota, and what of it is short."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.api.values import quantity_of
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.resource import Key, Obj, controller_of, key_of, uid_of
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from fournos.engine.queueing.observe import quotas_of, reserved
from fournos.engine.queueing.workload import view
from fournos.insight.children import Children
from fournos.insight.errors import MissingError
from fournos.insight.facts import WaitFacts, Waiting, everywhere, holders_among, queue_facts, without
from fournos.insight.queue_reasons import queue_problem
from fournos.insight.quota import ZERO, Quotas, closed_flavors
from fournos.insight.reasons import explain
from fournos.insight.source import Source
from fournos.insight.values import created, judged, name_of, one_line, spec_of

KINDS: Final = (FOURNOS_JOB, WORKLOAD, LOCAL_QUEUE, CLUSTER_QUEUE, RESOURCE_FLAVOR)
"""The kinds that are read to explain why jobs wait."""


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """A pending object of a queue."""

    place: int
    """The position, from 1; by priority and age where Kueue's own order is not readable.

    0 if it is not known: the order follows usage (AdmissionFairSharing), and Kueue's own is not readable.
    """
    namespace: str
    kind: str
    """The kind of the queued object, such as FournosJob; "Workload" if its Workload is not readable."""
    name: str
    owner: str
    priority: int
    since: str
    """The creation time of its Workload."""
    reason: str
    """Why it waits, without its name, which stands beside it."""
    kept: str = ""
    """What keeps it whatever its place, as `Explanation.kept`: a queue that is stopped, a lock."""

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Queued:
    """What the facts of several queues share, so that it is looked up once for all of them."""

    workloads: Mapping[Key, Obj]
    jobs: Mapping[str, Obj]
    """The readable FournosJobs by UID."""
    holders: tuple[Obj, ...]
    """Those of them that occupy clusters, the oldest first."""

    @staticmethod
    def of(workloads: Iterable[Obj], jobs: Sequence[Obj]) -> Queued:
        return Queued(
            {key_of(one): one for one in workloads}, {uid_of(one): one for one in jobs}, holders_among(jobs)
        )


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """The facts of a queue.  `base` holds the queue's own facts; its `job` is only a placeholder."""

    base: WaitFacts
    queued: Queued


async def gather_queue(source: Source, namespace: str, name: str) -> QueueFacts:
    """Reads all objects that wait for the ClusterQueue of a LocalQueue.

    The number of API requests does not depend on the number of objects.
    """
    place: Obj = {"metadata": {"namespace": namespace, "name": name}}
    base = await queue_facts(source, place, name)
    workloads = await everywhere(source, WORKLOAD, namespace)
    jobs = await everywhere(source, FOURNOS_JOB, namespace)
    return QueueFacts(base, Queued.of(workloads, jobs))


def entries(facts: QueueFacts, now: datetime, *, first: int = 1, most: int | None = None) -> list[QueueEntry]:
    """The entries of the queue, in order: `most` of them from the place `first` on.

    Raises MissingError if the queue does not exist.
    """
    broken = queue_problem(facts.base)
    if broken and not isinstance(facts.base.cluster_queue, Mapping):
        text = broken.verdict.replace(f"{facts.base.queue_name} waits for ", "there is no ", 1)
        raise MissingError(text, fix="; ".join(broken.advice))
    last = None if most is None else first - 1 + most
    return [
        _entry(place if facts.base.ordered else 0, waiting, facts, now)
        for place, waiting in enumerate(facts.base.line[first - 1 : last], start=first)
    ]


def _entry(place: int, waiting: Waiting, facts: QueueFacts, now: datetime) -> QueueEntry:
    def unlike(problem: str) -> QueueEntry:
        key = waiting.key
        return QueueEntry(place, key.namespace, "Workload", key.name, "", waiting.priority, "", problem)

    return judged(lambda one: _explained(place, one.key, one.priority, facts, now), waiting, unlike)


def _explained(place: int, key: Key, priority: int, queue_read: QueueFacts, now: datetime) -> QueueEntry:
    workload = queue_read.queued.workloads.get(key)
    if workload is None:
        text = "it is in a namespace that you may not read"
        return QueueEntry(place, key.namespace, "Workload", key.name, "", priority, "", text)
    controller = controller_of(workload) or {}
    kind, name = str(controller.get("kind") or "Workload"), str(controller.get("name") or key.name)
    job = queue_read.queued.jobs.get(str(controller.get("uid") or ""))
    since = created(workload)
    if job is None:
        reason = one_line(view(workload).message) or "Kueue has not looked at it yet"
        return QueueEntry(place, key.namespace, kind, name, "", priority, since, reason)
    holders = without(queue_read.queued.holders, job)
    facts = replace(queue_read.base, job=job, found=Children(workloads=(workload,)), holders=holders)
    owner = str(spec_of(job).get("owner") or "")
    explanation = explain(facts, now)
    reason = explanation.verdict
    if explanation.by_turn and explanation.kept:
        reason = f"{reason.removesuffix('.')}: {explanation.kept.removeprefix(f'{name} waits: ')}."
    reason = reason.removeprefix(f"{name} ")
    return QueueEntry(place, key.namespace, kind, name, owner, priority, since, reason, explanation.kept)


# --- a ClusterQueue at a glance ---------------------------------------------------------------------------


COMPARED: Final = 100
"""The first entries of the queue whose requests are compared with the quota."""


@dataclass(frozen=True, slots=True)
class QuotaBar:
    """The quota of one resource in one flavor."""

    flavor: str
    resource: str
    used: Decimal
    nominal: Decimal
    short: int
    """The waiting Workloads that could use it and find too little of it free."""
    closed: str
    """Why the cluster of the flavor takes no jobs; "" if it does."""

    @property
    def free(self) -> Decimal:
        return max(Decimal(0), self.nominal - self.used)


@dataclass(frozen=True, slots=True)
class Board:
    """A ClusterQueue with those of its entries that are shown."""

    name: str
    queues: tuple[Key, ...]
    """The LocalQueues that lead to it."""
    problem: str
    """Why it admits nothing; "" if it works."""
    bars: tuple[QuotaBar, ...]
    """In the order of the ClusterQueue; resources without quota and use are left out."""
    entries: tuple[QueueEntry, ...]
    pending: int
    """The number of all entries."""

    @property
    def short(self) -> tuple[QuotaBar, ...]:
        """The bars that something waits for, the most wanted first."""
        return tuple(sorted((one for one in self.bars if one.short), key=lambda one: -one.short))


async def ways(source: Source, namespace: str) -> dict[str, tuple[Key, ...]]:
    """Returns ClusterQueue → the readable LocalQueues that lead to it, by name.  Raises KubeError."""
    local_queues: dict[str, list[Key]] = {}
    for one in await everywhere(source, LOCAL_QUEUE, namespace):
        local_queues.setdefault(str(spec_of(one).get("clusterQueue") or ""), []).append(key_of(one))
    return {name: tuple(sorted(local_queues[name])) for name in sorted(local_queues)}


async def board(
    source: Source, queues: tuple[Key, ...], now: datetime, *, first: int = 1, most: int = 100
) -> Board | None:
    """Reads the ClusterQueue that these LocalQueues lead to; None if it is not there or not readable."""
    try:
        found = await gather_queue(source, *queues[0])
        shown = entries(found, now, first=first, most=most)
    except (MissingError, KubeError):
        return None
    base, workloads = found.base, found.queued.workloads
    problem, above = queue_problem(base), base.cluster_queue
    assert isinstance(above, Mapping), "a queue with entries has a ClusterQueue"
    compared = [workloads[one.key] for one in base.line[:COMPARED] if one.key in workloads]
    return Board(
        name=name_of(above),
        queues=queues,
        problem=problem.verdict if problem else "",
        bars=bars(above, base.flavors, compared, base.cohort),
        entries=tuple(shown),
        pending=len(base.line),
    )


def bars(
    cluster_queue: Obj, flavors: tuple[Obj, ...], waiting: Iterable[Obj], cohort: tuple[Obj, ...] = ()
) -> tuple[QuotaBar, ...]:
    """The quota of a ClusterQueue, and how many of the waiting Workloads find too little of each."""
    short: dict[tuple[str, str], int] = {}
    quotas = Quotas(cluster_queue, flavors, cohort)
    for workload in waiting:
        for line in judged(lambda one: quotas.of(one).lines, workload, lambda problem: ()):
            if not line.fits:
                short[line.flavor, line.resource] = short.get((line.flavor, line.resource), 0) + 1
    used, closed = reserved(cluster_queue), closed_flavors(flavors)
    result = []
    for at, written in quotas_of(cluster_queue):
        nominal, taken = quantity_of(written.get("nominalQuota") or 0), used.get(at, ZERO)
        if nominal or taken:
            result.append(QuotaBar(*at, taken, nominal, short.get(at, 0), closed.get(at[0], "")))
    return tuple(result)
