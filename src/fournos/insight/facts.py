"""Gathers the facts that explain why a job, or any queued object, waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, NamedTuple

from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB
from fournos.api.phase import HOLDING, UNQUEUED
from fournos.engine.kube.errors import ForbiddenError, KubeError
from fournos.engine.kube.resource import Key, Obj, Resource, key_of, uid_of
from fournos.engine.queueing.job import PRIORITY_BOOST
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from fournos.insight.children import Children, children, current_workload
from fournos.insight.quota import Quota, Quotas, members, usage_orders
from fournos.insight.source import DEFAULT_QUEUE, Source, clusters_namespace, or_error
from fournos.insight.starting import read_events
from fournos.insight.values import created, is_terminal, name_of, phase_of, spec_of, status_of

_VISIBILITY: Final = ("visibility.kueue.x-k8s.io", "v1beta2")
_NOT_WAITING: Final = frozenset({"QuotaReserved", "Finished"})
"""A Workload with one of these conditions has left the line."""


class Waiting(NamedTuple):
    """A pending Workload of a ClusterQueue."""

    key: Key
    priority: int


class Line(tuple[Waiting, ...]):
    """The pending Workloads of a ClusterQueue, in the order of admission."""

    def ahead(self, key: Key) -> tuple[str, ...] | None:
        """Returns the names of those before this key; None if it is not in the line."""
        place = self._places.get(key)
        return None if place is None else self._names[:place]

    @cached_property
    def _places(self) -> dict[Key, int]:
        return {waiting.key: number for number, waiting in enumerate(self)}

    @cached_property
    def _names(self) -> tuple[str, ...]:
        return tuple(str(waiting.key) for waiting in self)


class Holders(tuple[Obj, ...]):
    """Jobs that occupy clusters, the oldest first."""

    @cached_property
    def by_cluster(self) -> dict[str, list[int]]:
        """Cluster → the places of the jobs that occupy it."""
        places: dict[str, list[int]] = {}
        for place, job in enumerate(self):
            places.setdefault(str(status_of(job).get("cluster")), []).append(place)
        return places


@dataclass(frozen=True, slots=True)
class WaitFacts:
    """Everything that can explain why a job waits.  A KubeError stands in place of an unreadable object."""

    job: Obj
    found: Children = field(default_factory=Children)
    queue_name: str = DEFAULT_QUEUE
    local_queue: Obj | KubeError | None = None
    cluster_queue: Obj | KubeError | None = None
    flavors: tuple[Obj, ...] = ()
    holders: tuple[Obj, ...] = ()
    """Other jobs that occupy clusters, of all namespaces that RBAC lets us read."""
    line: Line = field(default_factory=Line)
    """The pending Workloads of the same ClusterQueue."""
    ordered: bool = True
    """False if that order is not known: it follows usage, and Kueue's own order may not be read."""
    cohort: tuple[Obj, ...] = ()
    """The other ClusterQueues of its cohort."""
    quotas: Quotas | None = field(default=None, compare=False, repr=False)
    """The quota of the ClusterQueue where several jobs are compared with it."""
    locks: Mapping[str, str] = field(default_factory=dict)
    """Cluster → when its lock ends, in RFC 3339."""
    events: tuple[Obj, ...] = ()
    """Those about pods of it that have not started."""

    def ahead(self, workload: Obj) -> tuple[str, ...] | None:
        """The keys of the Workloads before this one; None if it is not in the line or that is unordered."""
        return self.line.ahead(key_of(workload)) if self.ordered else None

    @property
    def place(self) -> int | None:
        """Its place in the queue, from 1; None if it is not in the line or that is unordered."""
        before = self.ahead(self.workload) if self.workload is not None else None
        return None if before is None else len(before) + 1

    def holders_on(self, clusters: tuple[str, ...]) -> tuple[Obj, ...]:
        """The holders on these clusters; all of them without any cluster."""
        if not clusters:
            return self.holders
        # Many jobs that wait ask the same holders: they are indexed once.
        holders = self.holders if isinstance(self.holders, Holders) else Holders(self.holders)
        places = sorted(place for cluster in clusters for place in holders.by_cluster.get(cluster, ()))
        return tuple(holders[place] for place in places)

    def quota(self, workload: Obj) -> Quota:
        """Compares a Workload with the quota of the ClusterQueue, which is known."""
        assert isinstance(self.cluster_queue, dict), "the ClusterQueue could be read"
        quotas = self.quotas or Quotas(self.cluster_queue, self.flavors, self.cohort)
        return quotas.of(workload)

    @property
    def workload(self) -> Obj | None:
        """The Workload of the current attempt; None if there is none."""
        return current_workload(self.found.workloads)


async def gather(source: Source, job: Obj, *, queue: str = DEFAULT_QUEUE) -> WaitFacts:
    """Gathers the facts about a job.  `queue` is the LocalQueue of a job that has no Workload yet.

    The queues are not read for a job that is not queued: one that is new, resolving or ended.
    """
    dependents = await children(source, job)
    draft = WaitFacts(job, dependents)
    if is_terminal(job):
        return draft
    events = await read_events(source, dependents)
    if phase_of(job) in UNQUEUED:
        return replace(draft, events=events)
    workload = draft.workload
    name = str(spec_of(workload).get("queueName") if workload else queue)
    return replace(
        await queue_facts(source, job, name),
        found=dependents,
        events=events,
        holders=await _holders(source, job),
    )


async def _locks(source: Source) -> dict[str, str]:
    listing = await or_error(source.list(FOURNOS_CLUSTER, namespace=clusters_namespace()))
    clusters = () if isinstance(listing, KubeError) else listing.items
    ends = {name_of(one): str(status_of(one).get("lockExpiresAt") or "") for one in clusters}
    return {name: end for name, end in ends.items() if end}


async def queue_facts(source: Source, obj: Obj, name: str) -> WaitFacts:
    """Reads the LocalQueue `name`, its ClusterQueue, the ResourceFlavors, locks and pending Workloads.

    `obj` is the queued object, of any kind.
    """
    namespace, _ = key_of(obj)
    local = await or_error(source.get(LOCAL_QUEUE, Key(namespace, name)))
    cluster: Obj | KubeError | None = None
    line = Line()
    cohort: tuple[Obj, ...] = ()
    ordered = True
    if not isinstance(local, KubeError):
        above = str(spec_of(local).get("clusterQueue") or "")
        cluster = await or_error(source.get(CLUSTER_QUEUE, Key("", above)))
        line, by_kueue = await _line(source, namespace, above)
        ordered = by_kueue or not usage_orders(cluster)
        cohort = await _cohort(source, cluster)
    listed = await or_error(source.list(RESOURCE_FLAVOR))
    flavors = () if isinstance(listed, KubeError) else tuple(listed.items)
    return WaitFacts(
        obj,
        queue_name=name,
        local_queue=local,
        cluster_queue=cluster,
        flavors=flavors,
        line=line,
        ordered=ordered,
        cohort=cohort,
        quotas=Quotas(cluster, flavors, cohort) if isinstance(cluster, dict) else None,
        locks=await _locks(source),
    )


async def _cohort(source: Source, cluster_queue: Obj | KubeError) -> tuple[Obj, ...]:
    if isinstance(cluster_queue, KubeError) or not spec_of(cluster_queue).get("cohortName"):
        return ()
    queues = await or_error(source.list(CLUSTER_QUEUE))
    return () if isinstance(queues, KubeError) else members(cluster_queue, queues.items)


async def everywhere(source: Source, resource: Resource, namespace: str, *, selector: str = "") -> list[Obj]:
    """Lists the objects of all namespaces, or only of `namespace` where RBAC forbids the former."""
    try:
        return (await source.list(resource, selector=selector)).items
    except ForbiddenError:
        return (await source.list(resource, namespace=namespace, selector=selector)).items


async def _holders(source: Source, job: Obj) -> tuple[Obj, ...]:
    jobs = await everywhere(source, FOURNOS_JOB, job["metadata"]["namespace"])
    return without(holders_among(jobs), job)


def holders_among(jobs: Iterable[Obj]) -> Holders:
    """The jobs that occupy clusters, the oldest first."""
    found = (job for job in jobs if phase_of(job) in HOLDING and status_of(job).get("cluster"))
    return Holders(sorted(found, key=born))


def born(obj: Obj) -> tuple[str, Key]:
    """Sorts by age, the oldest first."""
    return created(obj), key_of(obj)


def without(holders: tuple[Obj, ...], job: Obj) -> tuple[Obj, ...]:
    """The holders besides the job itself."""
    if phase_of(job) not in HOLDING:
        return holders
    return tuple(other for other in holders if uid_of(other) != uid_of(job))


async def _line(source: Source, namespace: str, cluster_queue: str) -> tuple[Line, bool]:
    """The pending Workloads of a ClusterQueue, in order, and whether that order is Kueue's own.

    The order comes from Kueue's visibility API where it is served and permitted, otherwise from priority and
    age.
    """
    pending = Resource(
        *_VISIBILITY,
        "PendingWorkload",
        f"clusterqueues/{cluster_queue}/pendingworkloads",
        namespaced=False,
        by_offset=True,
    )
    pending_list = await or_error(source.list(pending))
    if not isinstance(pending_list, KubeError):
        # One that moves up between two pages is in both of them.
        once = {key_of(item): item for item in pending_list.items}
        items = sorted(once.values(), key=lambda item: int(item.get("positionInClusterQueue") or 0))
        return Line(Waiting(key_of(item), int(item.get("priority") or 0)) for item in items), True
    try:
        queues = await everywhere(source, LOCAL_QUEUE, namespace)
        workloads = await everywhere(source, WORKLOAD, namespace)
    except KubeError:
        return Line(), False
    return in_line(workloads, queues, cluster_queue), False


def in_line(workloads: Iterable[Obj], queues: Iterable[Obj], cluster_queue: str) -> Line:
    """The Workloads that wait for a ClusterQueue, by descending priority, then by age, the oldest first."""
    ours = {key_of(queue) for queue in queues if spec_of(queue).get("clusterQueue") == cluster_queue}
    placed = sorted(
        (-_priority(workload), *born(workload)) for workload in workloads if waits_in(workload) in ours
    )
    return Line(Waiting(key, -negated) for negated, _, key in placed)


def waits_in(workload: Obj) -> Key | None:
    """The LocalQueue in which a Workload waits; None if it does not wait."""
    spec = workload.get("spec") or {}
    if not spec.get("active", True) or _reserved_or_finished(workload):
        return None
    return Key(workload["metadata"]["namespace"], str(spec.get("queueName")))


def _priority(workload: Obj) -> int:
    """The priority with what the annotation of Kueue's gate PriorityBoost adds."""
    annotations = workload["metadata"].get("annotations") or {}
    boost = str(annotations.get(PRIORITY_BOOST) or "0")
    added = int(boost) if boost.removeprefix("-").isdecimal() else 0
    return int(spec_of(workload).get("priority") or 0) + added


def _reserved_or_finished(workload: Obj) -> bool:
    for one in (workload.get("status") or {}).get("conditions") or ():
        if one.get("status") == "True" and one.get("type") in _NOT_WAITING:
            return True
    return False
