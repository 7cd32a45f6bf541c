"""A whole queue: who waits, in which order, and why each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from fournos.insight.children import Children
from fournos.insight.errors import MissingError
from fournos.insight.facts import Facts, everywhere, holders_among, queue_facts
from fournos.insight.reasons import explain, queue_trouble
from fournos.insight.source import Source
from fournos.insight.values import created, one_line, spec_of
from fournos.jobs.kinds import FOURNOS_JOB
from fournos.kube.resource import Key, Obj, controller_of, key_of, uid_of
from fournos.queueing.kinds import WORKLOAD
from fournos.queueing.state import view


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """One that waits."""

    place: int
    """From 1; by priority and age where Kueue's own order may not be read."""
    namespace: str
    kind: str
    """Of what waits, such as FournosJob; "Workload" where we may not see it."""
    name: str
    owner: str
    priority: int
    since: str
    """When its Workload was made."""
    reason: str

    def as_data(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """What bears on a queue; `base` is without a job."""

    base: Facts
    workloads: Mapping[Key, Obj]
    jobs: Mapping[str, Obj]
    """FournosJobs by UID, as far as we may see them."""


async def gather_queue(source: Source, namespace: str, name: str) -> QueueFacts:
    """All that wait for the ClusterQueue of a LocalQueue; as many requests for any number."""
    place: Obj = {"metadata": {"namespace": namespace, "name": name}}
    base = await queue_facts(source, place, name)
    workloads = await everywhere(source, WORKLOAD, namespace)
    jobs = await everywhere(source, FOURNOS_JOB, namespace)
    return QueueFacts(base, {key_of(one): one for one in workloads}, {uid_of(one): one for one in jobs})


def entries(found: QueueFacts, now: datetime) -> list[QueueEntry]:
    """In order.  Raises MissingError where there is no such queue."""
    broken = queue_trouble(found.base)
    if broken and not isinstance(found.base.cluster_queue, Mapping):
        text = broken.verdict.replace(f"{found.base.queue_name} waits for ", "there is no ", 1)
        raise MissingError(text, fix="; ".join(broken.advice))
    jobs = tuple(found.jobs.values())
    return [
        _entry(place, waiting.key, waiting.priority, found, jobs, now)
        for place, waiting in enumerate(found.base.line, start=1)
    ]


def _entry(
    place: int, key: Key, priority: int, found: QueueFacts, jobs: Sequence[Obj], now: datetime
) -> QueueEntry:
    workload = found.workloads.get(key)
    if workload is None:
        text = "it is in a namespace that you may not read"
        return QueueEntry(place, key.namespace, "Workload", key.name, "", priority, "", text)
    controller = controller_of(workload) or {}
    kind, name = str(controller.get("kind") or "Workload"), str(controller.get("name") or key.name)
    job = found.jobs.get(str(controller.get("uid") or ""))
    since = created(workload)
    if job is None:
        reason = one_line(view(workload).message) or "Kueue has not looked at it yet"
        return QueueEntry(place, key.namespace, kind, name, "", priority, since, reason)
    facts = replace(
        found.base, job=job, found=Children(workloads=(workload,)), holders=holders_among(jobs, job)
    )
    owner = str(spec_of(job).get("owner") or "")
    return QueueEntry(place, key.namespace, kind, name, owner, priority, since, explain(facts, now).verdict)
