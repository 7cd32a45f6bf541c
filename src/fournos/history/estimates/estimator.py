"""Estimates of live jobs: reads the queues from the recorder's caches and the durations from the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

from fournos.api.fournosjob import FournosJobSpec
from fournos.api.fournosjob_values import Hardware
from fournos.api.kinds import FOURNOS_CLUSTER, FOURNOS_JOB
from fournos.engine.kube.resource import NAMESPACE, Obj, uid_of
from fournos.engine.queueing.kinds import (
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    RESOURCE_FLAVOR,
    WORKLOAD,
    WORKLOAD_PRIORITY_CLASS,
)
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.controller import Caches
from fournos.history.estimates.durations import WorkProfile, closest
from fournos.history.estimates.live import (
    Objects,
    PastByNamespace,
    QueuedObject,
    QueueSnapshot,
    candidate,
    snapshot,
    works,
    works_of,
)
from fournos.history.estimates.models import JobEstimate
from fournos.history.estimates.simulate import Estimate, Range, WouldStart, estimates, remaining, would_start
from fournos.history.recorder.packed import unpack
from fournos.history.records import Identity
from fournos.insight.values import count, name_of, status_of

DEEPEST: Final = 200
"""Positions of a queue up to which its jobs are estimated: the time for it grows with the square."""
KUBE_SYSTEM: Final = "kube-system"
FRESH: Final = 5.0
"""Seconds for which the queues and their estimates are kept."""


PastReader: TypeAlias = Callable[[Iterable[tuple[str, WorkProfile]]], Awaitable[PastByNamespace]]


class NotReadyError(Exception):
    """The caches are not filled yet."""


@dataclass(frozen=True, slots=True)
class _CachedEstimates:
    """What is kept for FRESH seconds."""

    until: float
    objects: Objects
    past: PastByNamespace
    snapshot: QueueSnapshot
    estimates: dict[str, dict[Any, Estimate]]
    """By ClusterQueue, for the jobs up to DEEPEST; filled on demand."""


class Estimator:
    """Estimates live jobs.  Costs no request: it reads the caches that the recorder has anyway."""

    def __init__(
        self,
        objects: Callable[[], Awaitable[Objects]],
        past: PastReader,
        clock: Clock,
        *,
        gpu_prefix: str,
    ) -> None:
        """`objects()` raises NotReadyError until the caches are filled."""
        self._objects = objects
        self._past = past
        self._clock = clock
        self._gpu_prefix = gpu_prefix
        self._known: _CachedEstimates | None = None
        self._turn = asyncio.Lock()

    async def waiting(self, namespace: str = "") -> list[JobEstimate]:
        """Estimates the waiting objects of a namespace, or of all namespaces, by queue and position.

        Raises NotReadyError and the errors of the store.
        """
        async with self._turn:
            known = await self._current()
            places = [one for one in known.snapshot.waiting if namespace in ("", one.namespace)]
            return [await self._of(known, one) for one in places if one.position <= DEEPEST]

    async def predictions(self) -> list[tuple[Identity, Estimate]]:
        """Returns the estimates of all waiting objects, by their identity in the history."""
        waiting = await self.waiting()
        async with self._turn:
            cluster = (await self._current()).objects.namespaces.get(KUBE_SYSTEM, "")
        return [(Identity(cluster, one.namespace, one.uid), one.estimate) for one in waiting if cluster]

    async def one(self, namespace: str, asked: str) -> JobEstimate | None:
        """Estimates the object of this name or UID; None if it neither waits nor runs."""
        async with self._turn:
            cached = await self._current()
            place = cached.snapshot.place(namespace, asked)
            return None if place is None else await self._of(cached, place)

    async def would_start(self, namespace: str, spec: FournosJobSpec, local_queue: str) -> WouldStart:
        """Estimates a FournosJob that is not submitted yet, with those of its GPUs that are free first.

        Raises CannotEstimateError.
        """
        async with self._turn:
            cached = await self._current()
            now = self._clock.now()
            if spec.clusterless:
                values = spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
                past = cached.past.get(cached.objects.namespaces.get(namespace, ""), ())
                ends = remaining(closest(works_of(values, {}, ("",), {}), past), 0.0, now)
                return WouldStart(True, "", Estimate(Range(now, now), ends.end, ends.basis, ends.reason))
            starts = [
                await self._would_start(cached, namespace, choice, local_queue) for choice in _choices(spec)
            ]
            return min(starts, key=_first)

    async def _would_start(
        self, cached: _CachedEstimates, namespace: str, spec: FournosJobSpec, local_queue: str
    ) -> WouldStart:
        planned = candidate(
            cached.objects,
            cached.past,
            spec,
            namespace=namespace,
            local_queue=local_queue,
            gpu_prefix=self._gpu_prefix,
        )
        if planned.place >= DEEPEST:
            return WouldStart(False, "", _too_deep())
        queue = cached.snapshot.queues[planned.cluster_queue].first(DEEPEST)
        return await asyncio.to_thread(
            would_start, queue, planned.job, self._clock.now(), place=planned.place
        )

    async def _current(self) -> _CachedEstimates:
        if self._known is None or self._clock.monotonic() >= self._known.until:
            objects = await self._objects()
            past = await self._past(works(objects))
            shot = await asyncio.to_thread(snapshot, objects, past, self._clock.now())
            self._known = _CachedEstimates(self._clock.monotonic() + FRESH, objects, past, shot, {})
        return self._known

    async def _of(self, cached: _CachedEstimates, place: QueuedObject) -> JobEstimate:
        if not place.position:
            estimate = _running(cached.snapshot, place)
        elif place.position > DEEPEST:
            estimate = _too_deep()
        else:
            queue = cached.snapshot.queues[place.cluster_queue].first(DEEPEST)
            if place.cluster_queue not in cached.estimates:
                keys = [one.key for one in queue.waiting]
                cached.estimates[place.cluster_queue] = await asyncio.to_thread(
                    estimates, queue, keys, cached.snapshot.at
                )
            estimate = cached.estimates[place.cluster_queue][place.workload]
        return JobEstimate(place.kind, place.name, place.namespace, place.uid, place.position, estimate)


def _choices(spec: FournosJobSpec) -> tuple[FournosJobSpec, ...]:
    """Returns a spec for each of the GPUs that the job accepts; one without GPUs is its only choice."""
    choices = spec.hardware.choices if spec.hardware else ()
    hardware = (Hardware.model_validate(gpus.to_json()) for gpus in choices)
    return tuple(spec.model_copy(update={"hardware": gpus}) for gpus in hardware) or (spec,)


def _first(start: WouldStart) -> tuple[bool, datetime]:
    """The order of starts: now, then the earliest median, then those that are not known."""
    at = start.estimate.start
    return not start.now, at.median if at else datetime.max.replace(tzinfo=UTC)


def _running(shot: QueueSnapshot, place: QueuedObject) -> Estimate:
    job = next(one for one in shot.queues[place.cluster_queue].running if one.key == place.workload)
    return remaining(job.durations, job.elapsed, shot.at)


def _too_deep() -> Estimate:
    return Estimate(None, None, reason=f"more than {count(DEEPEST, 'job')} are before it")


async def read_objects(caches: Caches) -> Objects:
    """Returns the live objects from the caches of the recorder.  Raises NotReadyError."""
    kinds = (WORKLOAD, LOCAL_QUEUE, CLUSTER_QUEUE, RESOURCE_FLAVOR, NAMESPACE)
    if not all(kind in caches and (caches[kind].synced or not caches[kind].served) for kind in kinds):
        raise NotReadyError("the queues are not read yet")
    held = {
        kind: tuple(caches[kind]) if kind in caches else ()
        for kind in (*kinds, WORKLOAD_PRIORITY_CLASS, FOURNOS_JOB, FOURNOS_CLUSTER)
    }
    return await asyncio.to_thread(_unpacked, held)


def _unpacked(held: dict[Any, tuple[Obj, ...]]) -> Objects:
    workloads = tuple(unpack(workload) for workload in held[WORKLOAD] if not _finished(workload))
    owners = {
        str(owner.get("uid"))
        for workload in workloads
        for owner in workload["metadata"].get("ownerReferences") or ()
        if owner.get("kind") == FOURNOS_JOB.kind
    }
    return Objects(
        workloads=workloads,
        local_queues=held[LOCAL_QUEUE],
        cluster_queues=held[CLUSTER_QUEUE],
        flavors=held[RESOURCE_FLAVOR],
        priority_classes=held[WORKLOAD_PRIORITY_CLASS],
        jobs={uid_of(job): unpack(job) for job in held[FOURNOS_JOB] if uid_of(job) in owners},
        clusters={name_of(cluster): cluster for cluster in (*held[RESOURCE_FLAVOR], *held[FOURNOS_CLUSTER])},
        namespaces={name_of(namespace): uid_of(namespace) for namespace in held[NAMESPACE]},
    )


def _finished(packed: Obj) -> bool:
    conditions = status_of(packed).get("conditions") or ()
    return any(one.get("type") == "Finished" and one.get("status") == "True" for one in conditions)
