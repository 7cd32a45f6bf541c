"""Measures the dispatch of jobs to many MultiKueue workers, of which one hangs and one flaps.

First all workers answer, then the same load is dispatched with the faults.  The workers are namespaces of one
control plane with its own Kueue (`bench.doors`), and the benchmark plays their job controllers.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

import devcluster
from bench.dispatch import active, foo, our_adapter, queue, workload_of
from bench.doors import Door, doors
from bench.fleet import FOO, FOO_CRD, FRAMEWORKS, make, manager_config, typed, worker_config
from bench.result import RangedResult
from bench.soak import p99
from bench.tasks import background, until
from fournos.engine.api.conditions import is_true
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import load
from fournos.engine.kube.errors import ConflictError, NotFoundError
from fournos.engine.kube.kinds import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, SECRET
from fournos.engine.kube.reflector import Reflector
from fournos.engine.kube.resource import Key, Obj, Resource, key_of
from fournos.engine.kube.store import Store
from fournos.engine.queueing.kinds import ADMISSION_CHECK, RESOURCE_FLAVOR, WORKLOAD
from fournos.engine.queueing.report import finish_patch
from fournos.systems.multikueue import names
from fournos.systems.multikueue.kinds import MULTIKUEUE_CLUSTER, MULTIKUEUE_CONFIG

RUNS: Final = 5.0
"""Seconds that a job runs, so that it may be on a worker when that one flaps."""
FLAPS_EVERY: Final = 20.0
_AWAY: Final = 5.0
"""Seconds that a worker which flaps drops its connections each time."""
_KUEUE: Final = "kueue-system"
_KINDS: Final = FRAMEWORKS[:1]
_LIMIT: Final = 300.0


HOPS: Final = ("created", "reserved", "admitted", "copied")
"""Between them act: Kueue; the adapter and the Kueue of a worker; the adapter."""


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Seconds from one of the HOPS to the next, of one job."""

    reserved: float
    admitted: float
    copied: float

    @property
    def whole(self) -> float:
        return self.reserved + self.admitted + self.copied


@dataclass(frozen=True, slots=True)
class Dispatches(RangedResult):
    """The dispatch of all jobs, from their creation to their copy on a worker."""

    workers: int
    jobs: int
    rate: float
    quiet: list[Dispatch]
    """While all workers answered."""
    faulty: list[Dispatch]
    evicted: list[str]
    moved: list[str]
    """Jobs with copies on more than one worker."""
    lost: list[str]
    """Jobs that did not finish when all workers answered again."""

    def to_json(self) -> dict[str, Any]:
        halves = {"quiet": self.quiet, "faulty": self.faulty}
        return {
            **RangedResult.to_json(self),
            "percentiles": {name: percentiles(half) for name, half in halves.items()},
        }

    def quotients(self) -> dict[str, float]:
        """Returns the times over those without faults."""
        quiet, faulty = percentiles(self.quiet)["whole"], percentiles(self.faulty)["whole"]
        return {name: faulty[name] / quiet[name] for name in quiet}

    def wrong(self) -> dict[str, Sequence[str]]:
        return {"evicted": self.evicted, "moved": self.moved, "lost": self.lost}


def percentiles(dispatches: Sequence[Dispatch]) -> dict[str, dict[str, float]]:
    """Returns p50 and p99 of each part, and of the whole."""
    parts = {name: [getattr(each, name) for each in dispatches] for name in (*HOPS[1:], "whole")}
    return {name: {"p50": median(times), "p99": p99(times)} for name, times in parts.items()}


async def measure(
    cluster: str, *, workers: int, jobs: int, rate: float, directory: Path, keep: bool
) -> Dispatches:
    """Dispatches `jobs` jobs, `rate` a second, twice.  `cluster` is the prefix of the names of two clusters.

    Raises DevclusterError, TimeoutError.
    """
    clusters = {
        "manager": devcluster.ensure(
            f"{cluster}-manager", profile="control-plane", kueue_config=manager_config(_KINDS)
        ),
        "worker": devcluster.ensure(
            f"{cluster}-worker", profile="control-plane", kueue_config=worker_config(_KINDS)
        ),
    }
    tag = f"bench-{uuid.uuid4().hex[:6]}"
    try:
        async with AsyncExitStack() as stack:
            manager, worker = [
                await stack.enter_async_context(
                    Client(load(found.kubeconfig_path), qps=2000, burst=4000, name=name)
                )
                for name, found in clusters.items()
            ]
            private = Path(stack.enter_context(TemporaryDirectory()))
            insides = [f"{tag}-w{number:02}" for number in range(1, workers + 1)]
            entrances = await stack.enter_async_context(
                doors(clusters["worker"].kubeconfig_path, tag, insides, private)
            )
            await _set_up(manager, worker, tag, entrances)
            log = directory / "adapter.log"
            stack.enter_context(
                our_adapter(clusters["manager"].kubeconfig_path, tag, tag, frameworks=_KINDS, log=log)
            )
            await active(manager, tag)
            return await _dispatched(manager, worker, tag, entrances, jobs, rate)
    finally:
        if not keep:
            for name in clusters:
                devcluster.down(f"{cluster}-{name}")


async def _set_up(manager: Client, worker: Client, tag: str, entrances: list[Door]) -> None:
    for client in (manager, worker):
        await make(client, CUSTOM_RESOURCE_DEFINITION, FOO_CRD)
        await make(client, RESOURCE_FLAVOR, typed(RESOURCE_FLAVOR, tag, spec={}))
    for door in entrances:
        await make(worker, NAMESPACE, typed(NAMESPACE, door.inside))
        await queue(worker, door.inside, tag, 1)
        kubeconfig = {"kubeconfig": door.kubeconfig()}
        secret = typed(SECRET, door.inside, namespace=_KUEUE, stringData=kubeconfig)
        await manager.create(SECRET, secret)
        source = {"clusterSource": {"kubeConfig": {"location": door.inside, "locationType": "Secret"}}}
        await manager.create(MULTIKUEUE_CLUSTER, typed(MULTIKUEUE_CLUSTER, door.inside, spec=source))
    await make(manager, NAMESPACE, typed(NAMESPACE, tag))
    named = {"clusters": [door.inside for door in entrances]}
    await manager.create(MULTIKUEUE_CONFIG, typed(MULTIKUEUE_CONFIG, tag, spec=named))
    parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": tag}
    check = {"controllerName": names.CONTROLLER, "parameters": parameters}
    await manager.create(ADMISSION_CHECK, typed(ADMISSION_CHECK, tag, spec=check))
    await queue(manager, tag, tag, len(entrances), check=tag)


async def _dispatched(
    manager: Client, worker: Client, tag: str, entrances: list[Door], jobs: int, rate: float
) -> Dispatches:
    load_ = Load(manager, worker, tag)
    async with load_.watched():
        quiet = await load_.submitted("quiet", jobs, rate)
        await load_.finished(quiet)
        entrances[0].hang()
        try:
            async with background(_flap(entrances[-1])):
                faulty = await load_.submitted("faulty", jobs, rate)
                await asyncio.sleep(RUNS)
        finally:
            for door in entrances:
                door.open()
        with suppress(TimeoutError):
            await load_.finished(faulty)
    return Dispatches(
        len(entrances),
        jobs,
        rate,
        load_.dispatches(quiet),
        load_.dispatches(faulty),
        sorted(load_.evicted),
        sorted(name for name, places in load_.places.items() if len(places) > 1),
        sorted({*quiet, *faulty} - load_.ended),
    )


async def _flap(door: Door) -> None:
    while True:
        door.drop()
        await asyncio.sleep(_AWAY)
        door.open()
        await asyncio.sleep(FLAPS_EVERY - _AWAY)


@dataclass(slots=True)
class Load:
    """Submits jobs to the manager, plays the job controllers of the workers, and sees what becomes of it."""

    manager: Client
    worker: Client
    namespace: str
    seen: dict[str, dict[str, float]] = field(default_factory=dict)
    """Job → when it was first seen at each of the HOPS, in `time.perf_counter` seconds."""
    places: dict[str, set[str]] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    evicted: set[str] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        stores = [
            self._watch(self.manager, WORKLOAD, self._see_workload, namespace=self.namespace),
            self._watch(self.worker, WORKLOAD, self._see_twin),
            self._watch(self.worker, FOO, self._see_copy),
        ]
        try:
            await until(lambda: all(store.synced for store in stores))
            yield
        finally:
            tasks = tuple(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def submitted(self, prefix: str, jobs: int, rate: float) -> list[str]:
        """Submits the jobs at this rate, and returns their names."""
        begun = time.perf_counter()
        made = [f"{prefix}-{number}" for number in range(jobs)]
        for number, name in enumerate(made):
            await asyncio.sleep(max(0.0, begun + number / rate - time.perf_counter()))
            body = await self.manager.create(FOO, foo(name, self.namespace))
            self._note(name, "created")
            await self.manager.create(WORKLOAD, workload_of(body))
        return made

    async def finished(self, jobs: list[str]) -> None:
        """Waits until the manager has seen the end of each of them.  Raises TimeoutError."""
        async with asyncio.timeout(_LIMIT):
            await until(lambda: self.ended.issuperset(jobs), every=0.1)

    def dispatches(self, jobs: list[str]) -> list[Dispatch]:
        """Returns the dispatch of each job that has a copy on a worker."""
        whole = [self.seen[name] for name in jobs if self.seen[name].keys() >= set(HOPS)]
        return [
            Dispatch(*(max(0.0, seen[then] - seen[first]) for first, then in pairwise(HOPS)))
            for seen in whole
        ]

    def _note(self, name: str, hop: str) -> None:
        self.seen.setdefault(name, {}).setdefault(hop, time.perf_counter())

    def _watch(
        self, client: Client, resource: Resource, see: Callable[[Obj], None], *, namespace: str = ""
    ) -> Store:
        store = Store()

        def changed(_type: str, _old: Obj | None, new: Obj | None) -> None:
            if new is not None and new["metadata"]["namespace"].startswith(self.namespace):
                see(new)

        self._begin(Reflector(client, resource, store, namespace=namespace, on_change=changed).run())
        return store

    def _begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _see_workload(self, workload: Obj) -> None:
        name = _job_of(workload)
        if is_true(workload, "QuotaReserved"):
            self._note(name, "reserved")
        if is_true(workload, "Finished"):
            self.ended.add(name)
        elif is_true(workload, "Evicted"):
            self.evicted.add(name)

    def _see_twin(self, twin: Obj) -> None:
        if is_true(twin, "Admitted"):
            self._note(_job_of(twin), "admitted")

    def _see_copy(self, job: Obj) -> None:
        name, place = job["metadata"]["name"], job["metadata"]["namespace"]
        self._note(name, "copied")
        if place not in self.places.setdefault(name, set()):
            self.places[name].add(place)
            self._begin(self._run(job))

    async def _run(self, job: Obj) -> None:
        await asyncio.sleep(RUNS)
        with suppress(NotFoundError):  # it was withdrawn
            await self.worker.patch(
                FOO, key_of(job), {"status": {"phase": "Succeeded"}}, subresource="status"
            )
            await self._finish(Key(job["metadata"]["namespace"], f"foo-{job['metadata']['name']}"))

    async def _finish(self, key: Key) -> None:
        while True:
            twin = await self.worker.get(WORKLOAD, key)
            patch = finish_patch(twin, "Succeeded", "done", datetime.now(UTC))
            with suppress(ConflictError):
                await self.worker.patch(WORKLOAD, key, patch.body, subresource="status")
                return


def _job_of(workload: Obj) -> str:
    return str(workload["metadata"]["name"]).removeprefix("foo-")
