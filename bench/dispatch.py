"""Measures the dispatch of jobs to two workers, by our adapter and by Kueue's, in one run on one fleet.

No job runs: the benchmark marks a copy as succeeded as soon as it exists.  All times come from the
benchmark's own watches on the three API servers.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import devcluster
from bench.fleet import FOO, FOO_CRD, FRAMEWORKS, make, manager_config, typed, worker_config
from bench.machine import until
from bench.operator import ROOT, free_port
from fournos.app.parts import kinds
from fournos.engine.api.conditions import is_true
from fournos.engine.api.crd import crd
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import load
from fournos.engine.kube.errors import ConflictError, NotFoundError
from fournos.engine.kube.reflector import Reflector
from fournos.engine.kube.resource import (
    CUSTOM_RESOURCE_DEFINITION,
    NAMESPACE,
    SECRET,
    Key,
    Obj,
    Resource,
    key_of,
    uid_of,
)
from fournos.engine.kube.store import Store
from fournos.engine.queueing.kinds import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    RESOURCE_FLAVOR,
    WORKLOAD,
)
from fournos.engine.queueing.report import finish_patch
from fournos.systems.multikueue import names
from fournos.systems.multikueue.config import MULTIKUEUE_CLUSTER, MULTIKUEUE_CONFIG

ADAPTERS = {"ours": names.CONTROLLER, "Kueue's": names.MULTIKUEUE}
_LIMIT = 300.0
_ALONE = 10
"""The number of jobs of a round that runs one job at a time."""
_KUEUE = "kueue-system"


@dataclass(frozen=True, slots=True)
class Dispatched:
    """The result of a round of one adapter; times in seconds."""

    adapter: str
    jobs: int
    mirror_p50: float
    """From the admission of the Workload's copy on a worker to the creation of the job's copy there."""
    status_p50: float
    """From the status of the job's copy to the same status on the manager cluster."""
    seconds: float
    """From the creation of the first Workload to the last finished Workload."""

    @property
    def rate(self) -> float:
        return self.jobs / self.seconds


@dataclass
class Seen:
    """The time at which each step was first seen, by job.

    `admitted`, `mirrored` and `reported` are seen on a worker, `returned` and `finished` on the manager
    cluster; `reported` and `returned` are the job's status.
    """

    admitted: dict[str, float] = field(default_factory=dict)
    mirrored: dict[str, float] = field(default_factory=dict)
    reported: dict[str, float] = field(default_factory=dict)
    returned: dict[str, float] = field(default_factory=dict)
    finished: dict[str, float] = field(default_factory=dict)
    done: asyncio.Event = field(default_factory=asyncio.Event)


class Fleet:
    """The manager cluster and the workers, with the objects that both adapters need."""

    def __init__(self, manager: Client, workers: dict[str, Client]) -> None:
        self.manager = manager
        self.workers = workers
        self.tag = f"bench-{uuid.uuid4().hex[:6]}"

    def namespace(self, adapter: str) -> str:
        return f"{self.tag}-{'ours' if adapter == 'ours' else 'kueues'}"

    async def set_up(self, kubeconfigs: dict[str, str]) -> None:
        """Creates CRDs, queues, MultiKueueClusters and AdmissionChecks.  `kubeconfigs` is worker → text."""
        definitions = (FOO_CRD, *(crd(definition, rules=rules) for definition, rules in kinds()))
        for client in (self.manager, *self.workers.values()):
            for one in definitions:
                await make(client, CUSTOM_RESOURCE_DEFINITION, one)
            await make(client, RESOURCE_FLAVOR, typed(RESOURCE_FLAVOR, self.tag, spec={}))
            for adapter in ADAPTERS:
                await make(client, NAMESPACE, typed(NAMESPACE, self.namespace(adapter)))
        for name, kubeconfig in kubeconfigs.items():
            key = f"{self.tag}-{name}"
            body = typed(SECRET, key, namespace=_KUEUE, stringData={"kubeconfig": kubeconfig})
            await self.manager.create(SECRET, body)
            source = {"clusterSource": {"kubeConfig": {"location": key, "locationType": "Secret"}}}
            await self.manager.create(MULTIKUEUE_CLUSTER, typed(MULTIKUEUE_CLUSTER, key, spec=source))
        clusters = {"clusters": [f"{self.tag}-{name}" for name in kubeconfigs]}
        await self.manager.create(MULTIKUEUE_CONFIG, typed(MULTIKUEUE_CONFIG, self.tag, spec=clusters))
        for adapter, controller in ADAPTERS.items():
            namespace = self.namespace(adapter)
            parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": self.tag}
            check = {"controllerName": controller, "parameters": parameters}
            await self.manager.create(ADMISSION_CHECK, typed(ADMISSION_CHECK, namespace, spec=check))
            await queue(self.manager, namespace, self.tag, 2, check=namespace)
            for client in self.workers.values():
                await queue(client, namespace, self.tag, 1)

    async def tear_down(self) -> None:
        """Deletes what `set_up` created for this run."""
        for adapter in ADAPTERS:
            namespace = self.namespace(adapter)
            for client in (self.manager, *self.workers.values()):
                await client.delete(CLUSTER_QUEUE, Key("", namespace))
                await client.delete(NAMESPACE, Key("", namespace))
            await self.manager.delete(ADMISSION_CHECK, Key("", namespace))
        await self.manager.delete(MULTIKUEUE_CONFIG, Key("", self.tag))
        for name in self.workers:
            await self.manager.delete(MULTIKUEUE_CLUSTER, Key("", f"{self.tag}-{name}"))
            await self.manager.delete(SECRET, Key(_KUEUE, f"{self.tag}-{name}"))
        for client in (self.manager, *self.workers.values()):
            await client.delete(RESOURCE_FLAVOR, Key("", self.tag))

    async def round(self, adapter: str, jobs: int) -> Dispatched:
        """Dispatches `jobs` jobs concurrently with one adapter and measures them.  Raises TimeoutError."""
        namespace, times = self.namespace(adapter), Seen()
        batch = uuid.uuid4().hex[:4]
        wanted = {f"{batch}-{number}" for number in range(jobs)}
        async with self._watching(namespace, times, wanted):
            bodies = [await self.manager.create(FOO, foo(name, namespace)) for name in sorted(wanted)]
            began = time.perf_counter()
            await asyncio.gather(*(self.manager.create(WORKLOAD, workload_of(body)) for body in bodies))
            async with asyncio.timeout(_LIMIT):
                await times.done.wait()
        return Dispatched(
            adapter,
            jobs,
            _between(times.admitted, times.mirrored),
            _between(times.reported, times.returned),
            max(times.finished.values()) - began,
        )

    @asynccontextmanager
    async def _watching(self, namespace: str, times: Seen, wanted: set[str]) -> AsyncIterator[None]:
        tasks: set[asyncio.Task[Any]] = set()

        def watch(client: Client, resource: Resource, changed: Any) -> Store:
            store = Store()

            def on_change(_: str, old: Obj | None, new: Obj | None) -> None:
                if new is not None:
                    changed(new)

            reflector = Reflector(client, resource, store, namespace=namespace, on_change=on_change)
            tasks.add(asyncio.create_task(reflector.run()))
            return store

        def on_manager(job: Obj) -> None:
            if (job.get("status") or {}).get("phase"):
                times.returned.setdefault(job["metadata"]["name"], time.perf_counter())

        def finished(workload: Obj) -> None:
            if is_true(workload, "Finished"):
                times.finished.setdefault(
                    workload["metadata"]["name"].removeprefix("foo-"), time.perf_counter()
                )
                if wanted <= times.finished.keys():
                    times.done.set()

        stores = [watch(self.manager, FOO, on_manager), watch(self.manager, WORKLOAD, finished)]
        for client in self.workers.values():
            worker = _Worker(client, times, tasks)
            stores += [watch(client, WORKLOAD, worker.twin), watch(client, FOO, worker.copy)]
        await until(lambda: all(store.synced for store in stores))
        try:
            yield
        finally:
            for task in tuple(tasks):
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


@dataclass
class _Worker:
    """Simulates a worker's job controller: a job's copy succeeds as soon as it is seen."""

    client: Client
    seen: Seen
    tasks: set[asyncio.Task[Any]]

    def twin(self, workload: Obj) -> None:
        if is_true(workload, "Admitted"):
            self.seen.admitted.setdefault(
                workload["metadata"]["name"].removeprefix("foo-"), time.perf_counter()
            )

    def copy(self, job: Obj) -> None:
        name = job["metadata"]["name"]
        if name in self.seen.mirrored:
            if (job.get("status") or {}).get("phase"):
                self.seen.reported.setdefault(name, time.perf_counter())
            return
        self.seen.mirrored[name] = time.perf_counter()
        task = asyncio.create_task(self._end(job))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _end(self, job: Obj) -> None:
        body, name = {"status": {"phase": "Succeeded"}}, job["metadata"]["name"]
        try:
            await self.client.patch(FOO, key_of(job), body, subresource="status")
        except NotFoundError:  # the copy was withdrawn, to be created on the other worker
            del self.seen.mirrored[name]
            return
        await until(lambda: name in self.seen.returned, every=0.01)  # the Workload ends after it
        key = Key(job["metadata"]["namespace"], f"foo-{name}")
        while True:
            with suppress(ConflictError, NotFoundError):
                twin = await self.client.get(WORKLOAD, key)
                patch = finish_patch(twin, "Succeeded", "done", datetime.now(UTC))
                await self.client.patch(WORKLOAD, key, patch.body, subresource="status")
                return
            await asyncio.sleep(0.05)


def _between(first: dict[str, float], then: dict[str, float]) -> float:
    """Returns the median of the differences, in seconds.

    Negative differences count as 0: the status may reach the manager cluster before the benchmark's watch of
    the worker delivers it.
    """
    return median(max(0.0, then[name] - first[name]) for name in then if name in first)


async def queue(client: Client, namespace: str, flavor: str, share: int, *, check: str = "") -> None:
    """Creates the queues of a namespace, with quota for `share` workers; `check` is an AdmissionCheck."""
    quota = {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": str(10_000 * share)}]}
    spec: dict[str, Any] = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}],
    }
    if check:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": check}]}
    await client.create(CLUSTER_QUEUE, typed(CLUSTER_QUEUE, namespace, spec=spec))
    local = typed(LOCAL_QUEUE, "q", namespace=namespace, spec={"clusterQueue": namespace})
    await client.create(LOCAL_QUEUE, local)


def foo(name: str, namespace: str) -> Obj:
    return typed(FOO, name, namespace=namespace, spec={"managedBy": names.MULTIKUEUE, "suspend": True})


def workload_of(job: Obj) -> Obj:
    meta = job["metadata"]
    owner = {"apiVersion": FOO.api_version, "kind": FOO.kind, "name": meta["name"], "uid": uid_of(job)}
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    pods = [{"name": "main", "count": 1, "template": template}]
    body = typed(WORKLOAD, f"foo-{meta['name']}", namespace=meta["namespace"])
    body["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    return {**body, "spec": {"queueName": "q", "podSets": pods, "priority": 0}}


@contextmanager
def our_adapter(
    kubeconfig: Path,
    namespace: str,
    origin: str,
    *,
    frameworks: Sequence[str] = FRAMEWORKS,
    log: Path | None = None,
) -> Iterator[None]:
    """Runs our adapter on the manager cluster.  `namespace` has its Lease."""
    section = {"origin": origin, "externalFrameworks": [{"name": name} for name in frameworks]}
    file = Path(tempfile.mkdtemp(prefix="fournos-bench-")) / "configuration.yaml"
    file.write_text(json.dumps({"multiKueue": section}))
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("FOURNOS_", "HEARTH_"))} | {
        "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
        "KUBECONFIG": str(kubeconfig),
        "FOURNOS_CONTROLLER_NAMESPACE": namespace,
        "FOURNOS_MULTIKUEUE_CONFIG_FILE": str(file),
    }
    words = ["-m", "fournos", "run", "--enable", "multikueue", "--health-port", str(free_port())]
    with log.open("wb") if log else nullcontext() as out:
        process = subprocess.Popen([sys.executable, *words], cwd=ROOT, env=environment, stderr=out)
        try:
            yield
        finally:
            process.terminate()
            process.wait(timeout=40)


async def active(client: Client, check: str) -> None:
    """Waits until the AdmissionCheck is active.  Raises TimeoutError."""
    async with asyncio.timeout(60):
        while True:
            found = await client.get(ADMISSION_CHECK, Key("", check))
            if is_true(found, "Active"):
                return
            await asyncio.sleep(0.2)


async def _measured(fleet: Fleet, adapter: str, jobs: int) -> Dispatched:
    """Measures a round.  `jobs` 1 stands for _ALONE jobs, one after another, and returns their medians."""
    if jobs > 1:
        return await fleet.round(adapter, jobs)
    rounds = [await fleet.round(adapter, 1) for _ in range(_ALONE)]
    mirrors, statuses = [one.mirror_p50 for one in rounds], [one.status_p50 for one in rounds]
    return Dispatched(adapter, 1, median(mirrors), median(statuses), median(one.seconds for one in rounds))


async def measure(cluster: str, sizes: list[int], *, keep: bool) -> list[Dispatched]:
    """Measures both adapters.  `cluster` is the prefix of the names of the three clusters.

    Raises DevclusterError, TimeoutError.
    """
    manager = devcluster.ensure(f"{cluster}-manager", profile="control-plane", kueue_config=manager_config())
    workers = {
        name: devcluster.ensure(f"{cluster}-{name}", profile="control-plane", kueue_config=worker_config())
        for name in ("worker1", "worker2")
    }
    try:
        async with AsyncExitStack() as stack:
            clients = {
                name: await stack.enter_async_context(
                    Client(load(found.kubeconfig_path), qps=2000, burst=4000, name=name)
                )
                for name, found in {"manager": manager, **workers}.items()
            }
            fleet = Fleet(clients.pop("manager"), clients)
            await fleet.set_up({name: one.kubeconfig_path.read_text() for name, one in workers.items()})
            try:
                with our_adapter(manager.kubeconfig_path, fleet.namespace("ours"), fleet.tag):
                    for adapter in ADAPTERS:
                        await active(fleet.manager, fleet.namespace(adapter))
                        await fleet.round(adapter, 3)  # warm-up, not reported
                    return [await _measured(fleet, adapter, jobs) for jobs in sizes for adapter in ADAPTERS]
            finally:
                await fleet.tear_down()
    finally:
        if not keep:
            for name in ("manager", *workers):
                devcluster.down(f"{cluster}-{name}")
