"""Gathers the facts that explain why a job, or any queued object, waits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from fournos.api.conditions import is_true
from fournos.api.kinds import FOURNOS_JOB
from fournos.api.phase import HOLDING
from fournos.insight.children import Children, children
from fournos.insight.source import DEFAULT_QUEUE, Source, or_error
from fournos.insight.values import created, is_terminal, phase_of, spec_of, status_of
from fournos.kube.errors import ForbiddenError, KubeError
from fournos.kube.resource import Key, Obj, Resource, key_of, uid_of
from fournos.queueing.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD

_VISIBILITY: Final = ("visibility.kueue.x-k8s.io", "v1beta2")
_NOT_WAITING: Final = frozenset({"QuotaReserved", "Finished"})
"""A Workload with one of these conditions has left the line."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A pending Workload of a ClusterQueue."""

    key: Key
    priority: int


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that can explain why a job waits.  A KubeError stands in place of an unreadable object."""

    job: Obj
    found: Children = field(default_factory=Children)
    queue_name: str = DEFAULT_QUEUE
    local_queue: Obj | KubeError | None = None
    cluster_queue: Obj | KubeError | None = None
    flavors: tuple[Obj, ...] = ()
    holders: tuple[Obj, ...] = ()
    """Other jobs that occupy clusters, of all namespaces that RBAC lets us read."""
    line: tuple[Waiting, ...] = ()
    """The pending Workloads of the same ClusterQueue, in the order of admission."""

    def ahead(self, workload: Obj) -> tuple[str, ...] | None:
        """The keys of the Workloads before this one; None if it is not in the line."""
        key = key_of(workload)
        place = next((number for number, one in enumerate(self.line) if one.key == key), None)
        return None if place is None else tuple(str(one.key) for one in self.line[:place])

    @property
    def workload(self) -> Obj | None:
        """The Workload of the current attempt; None if there is none."""
        live = [w for w in self.found.workloads if not is_true(w, "Finished")]
        return live[-1] if live else None


async def gather(source: Source, job: Obj, *, queue: str = DEFAULT_QUEUE) -> Facts:
    """Gathers the facts about a job.  `queue` is the LocalQueue of a job that has no Workload yet.

    The queues are not read for a job that is not queued: one that is new, resolving or ended.
    """
    found = await children(source, job)
    draft = Facts(job, found)
    if is_terminal(job) or phase_of(job) in ("New", "Resolving"):
        return draft
    workload = draft.workload
    name = str(spec_of(workload).get("queueName") if workload else queue)
    return replace(await queue_facts(source, job, name), found=found, holders=await _holders(source, job))


async def queue_facts(source: Source, obj: Obj, name: str) -> Facts:
    """Reads the LocalQueue `name`, its ClusterQueue, the ResourceFlavors and the pending Workloads.

    `obj` is the queued object, of any kind.
    """
    namespace, _ = key_of(obj)
    local = await or_error(source.get(LOCAL_QUEUE, Key(namespace, name)))
    cluster: Obj | KubeError | None = None
    line: tuple[Waiting, ...] = ()
    if not isinstance(local, KubeError):
        above = str(spec_of(local).get("clusterQueue") or "")
        cluster = await or_error(source.get(CLUSTER_QUEUE, Key("", above)))
        line = await _line(source, namespace, above)
    flavors = await or_error(source.list(RESOURCE_FLAVOR))
    return Facts(
        obj,
        queue_name=name,
        local_queue=local,
        cluster_queue=cluster,
        flavors=() if isinstance(flavors, KubeError) else tuple(flavors.items),
        line=line,
    )


async def everywhere(source: Source, resource: Resource, namespace: str) -> list[Obj]:
    """Lists the objects of all namespaces, or only of `namespace` where RBAC forbids the former."""
    try:
        return (await source.list(resource)).items
    except ForbiddenError:
        return (await source.list(resource, namespace=namespace)).items


async def _holders(source: Source, job: Obj) -> tuple[Obj, ...]:
    jobs = await everywhere(source, FOURNOS_JOB, job["metadata"]["namespace"])
    return without(holders_among(jobs), job)


def holders_among(jobs: Iterable[Obj]) -> tuple[Obj, ...]:
    """The jobs that occupy clusters, the oldest first."""
    holding = [one for one in jobs if phase_of(one) in HOLDING and status_of(one).get("cluster")]
    return tuple(sorted(holding, key=created))


def without(holders: tuple[Obj, ...], job: Obj) -> tuple[Obj, ...]:
    """The holders besides the job itself."""
    if phase_of(job) not in HOLDING:
        return holders
    return tuple(other for other in holders if uid_of(other) != uid_of(job))


async def _line(source: Source, namespace: str, cluster_queue: str) -> tuple[Waiting, ...]:
    """The pending Workloads of a ClusterQueue, in order.

    The order comes from Kueue's visibility API where it is served and permitted, otherwise from priority and
    age.
    """
    pending = Resource(
        *_VISIBILITY,
        "PendingWorkload",
        f"clusterqueues/{cluster_queue}/pendingworkloads",
        namespaced=False,
    )
    pending_list = await or_error(source.list(pending))
    if not isinstance(pending_list, KubeError):
        items = sorted(pending_list.items, key=lambda item: int(item.get("positionInClusterQueue") or 0))
        return tuple(Waiting(key_of(item), int(item.get("priority") or 0)) for item in items)
    try:
        queues = await everywhere(source, LOCAL_QUEUE, namespace)
        workloads = await everywhere(source, WORKLOAD, namespace)
    except KubeError:
        return ()
    return in_line(workloads, queues, cluster_queue)


def in_line(workloads: Iterable[Obj], queues: Iterable[Obj], cluster_queue: str) -> tuple[Waiting, ...]:
    """The Workloads that wait for a ClusterQueue, by descending priority, then by age, the oldest first."""
    ours = {key_of(queue) for queue in queues if spec_of(queue).get("clusterQueue") == cluster_queue}
    waiting: list[tuple[int, str, Key]] = []
    for workload in workloads:
        spec, key = spec_of(workload), key_of(workload)
        if (
            (key.namespace, str(spec.get("queueName"))) in ours
            and spec.get("active", True)
            and not _reserved_or_finished(workload)
        ):
            waiting.append((-int(spec.get("priority") or 0), created(workload), key))
    waiting.sort()
    return tuple(Waiting(key, -below) for below, _, key in waiting)


def _reserved_or_finished(workload: Obj) -> bool:
    return any(
        one.get("status") == "True" and one.get("type") in _NOT_WAITING
        for one in status_of(workload).get("conditions") or ()
    )
