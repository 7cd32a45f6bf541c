"""Lists the pending objects of a queue, their order, and the reason why each waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.resource import Key, Obj, controller_of, key_of, uid_of
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.workload import view
from fournos.insight.children import Children
from fournos.insight.errors import MissingError
from fournos.insight.facts import WaitFacts, everywhere, holders_among, queue_facts, without
from fournos.insight.queue_reasons import queue_problem
from fournos.insight.reasons import explain
from fournos.insight.source import Source
from fournos.insight.values import created, one_line, spec_of


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
        _entry(place if facts.base.ordered else 0, waiting.key, waiting.priority, facts, now)
        for place, waiting in enumerate(facts.base.line[first - 1 : last], start=first)
    ]


def _entry(place: int, key: Key, priority: int, queue_read: QueueFacts, now: datetime) -> QueueEntry:
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
    reason = explain(facts, now).verdict.removeprefix(f"{name} ")
    return QueueEntry(place, key.namespace, kind, name, owner, priority, since, reason)
