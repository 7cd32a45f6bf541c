"""The queues as they are, from live objects and from the durations of earlier runs.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, Final

from fournos.api.fournosjob import FournosJobSpec
from fournos.api.fournosjob_values import Hardware
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.api.values import parse_quantity
from fournos.engine.kube.resource import Key, Obj, controller_of, key_of, uid_of
from fournos.engine.queueing.quotas import reserved
from fournos.history.estimates.durations import Durations, Past, WorkProfile, closest
from fournos.history.estimates.queue import QueueModel, RunningJob, WaitingJob, capacity_of
from fournos.history.fingerprint import fingerprint, gpu_type_of, target_class
from fournos.insight.facts import in_line
from fournos.insight.quota import Quotas
from fournos.insight.values import moment, name_of, spec_of, status_of
from fournos.systems.jobs.build import placeholder_pod, slots_and_gpus

NOWHERE: Final = Key("", "")
"""The key of quota that is held by Workloads that are not readable."""


@dataclass(frozen=True, slots=True)
class Objects:
    """The live objects that queues are made of."""

    workloads: Sequence[Obj] = ()
    """Those that have not finished."""
    local_queues: Sequence[Obj] = ()
    cluster_queues: Sequence[Obj] = ()
    flavors: Sequence[Obj] = ()
    priority_classes: Sequence[Obj] = ()
    jobs: Mapping[str, Obj] = field(default_factory=dict)
    """The FournosJobs by UID."""
    clusters: Mapping[str, Obj] = field(default_factory=dict)
    """The FournosClusters by name; where there is none, the flavor."""
    namespaces: Mapping[str, str] = field(default_factory=dict)
    """Name → UID."""


@dataclass(frozen=True, slots=True)
class QueuedObject:
    """A queued object: where it waits or runs."""

    workload: Key
    kind: str
    """The kind of the object, such as FournosJob."""
    name: str
    uid: str
    cluster_queue: str
    position: int = 0
    """From 1, in the order of admission; 0 for one that holds quota."""

    @property
    def namespace(self) -> str:
        return self.workload.namespace


@dataclass(frozen=True, slots=True)
class QueueSnapshot:
    """All queues at one time."""

    at: datetime
    queues: Mapping[str, QueueModel] = field(default_factory=dict)
    """By the name of the ClusterQueue."""
    waiting: tuple[QueuedObject, ...] = ()
    running: tuple[QueuedObject, ...] = ()

    def place(self, namespace: str, asked: str) -> QueuedObject | None:
        """Returns the object of this name or UID in the namespace; a FournosJob comes before other kinds."""
        matching = [
            queued
            for queued in (*self.waiting, *self.running)
            if queued.namespace == namespace and asked in (queued.name, queued.uid)
        ]
        return min(matching, key=lambda queued: queued.kind != "FournosJob", default=None)


PastByNamespace = Mapping[str, Sequence[Past]]
"""UID of a namespace → its runs, the newest first.  A job is compared with runs of its own namespace alone:
an estimate shows nothing of others."""


def works_of(
    spec: Mapping[str, Any],
    resolved: Mapping[str, Any],
    flavors: Iterable[str],
    clusters: Mapping[str, Obj],
) -> tuple[WorkProfile, ...]:
    """What a FournosJob may become on each of these flavors, which are clusters.

    A lock is no work: a person ends it, so that no earlier run shows how long it lasts.
    """
    if spec.get("lockOnly"):
        return ()
    gpu_type = gpu_type_of(spec, resolved)
    profiles: dict[WorkProfile, None] = {}
    for flavor in flavors:
        what = fingerprint(spec, resolved, target_class(flavor, clusters.get(flavor), gpu_type))
        profiles[WorkProfile(what.id, str(what.pipeline), what.project, what.gpu_type, what.gpu_count)] = None
    return tuple(profiles)


def works(objects: Objects) -> dict[tuple[str, WorkProfile], None]:
    """The UID of the namespace and the work of each FournosJob that is queued or runs."""
    profiles: dict[tuple[str, WorkProfile], None] = {}
    names = [name_of(flavor) for flavor in objects.flavors]
    for workload in objects.workloads:
        job = objects.jobs.get(_owner(workload)[2])
        if job is not None:
            uid = objects.namespaces.get(key_of(workload).namespace, "")
            profiles |= dict.fromkeys((uid, work) for work in _works(job, names, objects.clusters))
    return profiles


def _works(job: Obj, flavors: Iterable[str], clusters: Mapping[str, Obj]) -> tuple[WorkProfile, ...]:
    cluster = str(status_of(job).get("cluster") or spec_of(job).get("cluster") or "")
    return works_of(
        spec_of(job), status_of(job).get("resolved") or {}, [cluster] if cluster else flavors, clusters
    )


def snapshot(objects: Objects, past: PastByNamespace, now: datetime) -> QueueSnapshot:
    """Returns the queues with the jobs that wait in them and that hold their quota."""
    durations = _LiveDurations(objects, past)
    queues: dict[str, QueueModel] = {}
    waiting: list[QueuedObject] = []
    running: list[QueuedObject] = []
    workloads = {key_of(workload): workload for workload in objects.workloads}
    for cluster_queue in objects.cluster_queues:
        name = name_of(cluster_queue)
        line = in_line(objects.workloads, objects.local_queues, name)
        quotas = Quotas(cluster_queue, objects.flavors)
        jobs = [
            WaitingJob.of(
                pending.key,
                quotas.of(workloads[pending.key]),
                durations.of(workloads[pending.key]),
            )
            for pending in line
        ]
        holding = [workload for workload in objects.workloads if _admitted_by(workload) == name]
        held = [part for workload in holding for part in _running(workload, durations.of(workload), now)]
        queues[name] = QueueModel(
            capacity=capacity_of(cluster_queue),
            waiting=tuple(jobs),
            running=(*held, *_unaccounted(cluster_queue, held)),
            strict=spec_of(cluster_queue).get("queueingStrategy") == "StrictFIFO",
            stopped=_stopped(cluster_queue),
        )
        waiting += (
            _place(workloads[pending.key], name, position) for position, pending in enumerate(line, start=1)
        )
        running += (_place(workload, name, 0) for workload in holding)
    return QueueSnapshot(now, queues, tuple(waiting), tuple(running))


class _LiveDurations:
    """The durations of live jobs, looked up once for jobs that are alike."""

    def __init__(self, objects: Objects, past: PastByNamespace) -> None:
        self._objects = objects
        self._flavors = tuple(name_of(flavor) for flavor in objects.flavors)
        self._closest = cache(lambda namespace, works: closest(works, past.get(namespace, ())))

    def of(self, workload: Obj) -> Durations | None:
        job = self._objects.jobs.get(_owner(workload)[2])
        if job is None:
            return None
        uid = self._objects.namespaces.get(key_of(workload).namespace, "")
        found: Durations | None = self._closest(uid, _works(job, self._flavors, self._objects.clusters))
        return found


def _owner(workload: Obj) -> tuple[str, str, str]:
    """Kind, name and UID of the queued object."""
    owner = controller_of(workload) or {}
    return (
        str(owner.get("kind") or "Workload"),
        str(owner.get("name") or name_of(workload)),
        str(owner.get("uid") or uid_of(workload)),
    )


def _place(workload: Obj, cluster_queue: str, position: int) -> QueuedObject:
    return QueuedObject(key_of(workload), *_owner(workload), cluster_queue, position)


def _admitted_by(workload: Obj) -> str:
    """Returns the ClusterQueue whose quota the Workload holds; "" if it holds none."""
    if is_true(workload, "Finished") or not is_true(workload, "QuotaReserved"):
        return ""
    return str((status_of(workload).get("admission") or {}).get("clusterQueue") or "")


def _running(workload: Obj, durations: Durations | None, now: datetime) -> Iterator[RunningJob]:
    """A Workload that holds quota, once for each of its flavors."""
    held: dict[str, dict[str, float]] = {}
    for one in (status_of(workload).get("admission") or {}).get("podSetAssignments") or ():
        for resource, flavor in (one.get("flavors") or {}).items():
            amount = float(parse_quantity((one.get("resourceUsage") or {}).get(resource) or 0))
            amounts = held.setdefault(str(flavor), {})
            amounts[resource] = amounts.get(resource, 0.0) + amount
    since = moment((condition(workload, "QuotaReserved") or {}).get("lastTransitionTime")) or now
    elapsed = max(0.0, (now - since).total_seconds())
    for flavor, amounts in held.items():
        yield RunningJob(key_of(workload), flavor, amounts, elapsed, durations)


def _unaccounted(cluster_queue: Obj, held: Iterable[RunningJob]) -> Iterator[RunningJob]:
    """Quota that the ClusterQueue reports as reserved, by Workloads that are not readable."""
    accounted: dict[tuple[str, str], float] = {}
    for job in held:
        for resource, amount in job.holds.items():
            accounted[job.flavor, resource] = accounted.get((job.flavor, resource), 0.0) + amount
    more: dict[str, dict[str, float]] = {}
    for (flavor, resource), total in reserved(cluster_queue).items():
        rest = float(total) - accounted.get((flavor, resource), 0.0)
        if rest > 0:
            more.setdefault(flavor, {})[resource] = rest
    for flavor, amounts in more.items():
        yield RunningJob(NOWHERE, flavor, amounts, 0.0)


def _stopped(cluster_queue: Obj) -> bool:
    policy = spec_of(cluster_queue).get("stopPolicy") or "None"
    return policy != "None" or (condition(cluster_queue, "Active") or {}).get("status") == "False"


# --- a job that is not submitted yet --------------------------------------------------------------------


class CannotEstimateError(Exception):
    """A spec for which there is no estimate; the message is for people."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A job that is not submitted yet, in the queue that would take it."""

    cluster_queue: str
    job: WaitingJob
    place: int
    """Its index in the order of admission."""


def candidate(
    objects: Objects,
    past: PastByNamespace,
    spec: FournosJobSpec,
    *,
    namespace: str,
    local_queue: str,
    gpu_prefix: str,
) -> Candidate:
    """Returns a FournosJob of this spec as it would wait.  Raises CannotEstimateError."""
    above = _cluster_queue(objects, Key(namespace, local_queue))
    hardware = spec.hardware
    if hardware is None and not (spec.exclusive or spec.lock_only):
        raise CannotEstimateError(
            "spec.hardware is not set, so how many GPUs it asks for is known only when it is resolved"
        )
    priority = _priority(objects, spec.priority)
    workload = _workload(namespace, spec, hardware, priority, gpu_prefix)
    quota = Quotas(above, objects.flavors).of(workload)
    values = spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    names = [spec.cluster] if spec.cluster else [name_of(flavor) for flavor in objects.flavors]
    uid = objects.namespaces.get(namespace, "")
    durations = closest(works_of(values, {}, names, objects.clusters), past.get(uid, ()))
    line = in_line(objects.workloads, objects.local_queues, name_of(above))
    before = sum(one.priority >= priority for one in line)
    return Candidate(name_of(above), WaitingJob.of(key_of(workload), quota, durations), before)


def _cluster_queue(objects: Objects, local: Key) -> Obj:
    queue = next((one for one in objects.local_queues if key_of(one) == local), None)
    name = str(spec_of(queue or {}).get("clusterQueue") or "")
    cluster_queue = next((one for one in objects.cluster_queues if name_of(one) == name), None)
    if cluster_queue is None:
        raise CannotEstimateError(
            f"namespace {local.namespace} has no LocalQueue {local.name} that admits jobs"
        )
    return cluster_queue


def _priority(objects: Objects, name: str | None) -> int:
    if not name:
        return 0
    for one in objects.priority_classes:
        if name_of(one) == name:
            return int(one.get("value") or 0)
    raise CannotEstimateError(f"WorkloadPriorityClass '{name}' not found")


def _workload(
    namespace: str, spec: FournosJobSpec, hardware: Hardware | None, priority: int, gpu_prefix: str
) -> Obj:
    pod = placeholder_pod(spec, slots_and_gpus(spec, hardware, gpu_prefix))
    return {
        # The API server gives no object an empty name.
        "metadata": {"namespace": namespace, "name": "", "uid": ""},
        "spec": {"priority": priority, "podSets": [{"count": 1, "template": {"spec": pod}}]},
    }
