"""Measures the dispatch of jobs to two workers, by our adapter and by Kueue's, in one run on one fleet.

No job runs: the benchmark marks a copy as succeeded as soon as it exists.  All times come from the
benchmark's own watches on the three API servers.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, Final

import devcluster
from bench.executors import TERMINAL, Onlooker
from bench.fleet import FOO, FOO_CRD, FRAMEWORKS, make, manager_config, typed, worker_config
from bench.machine import until
from bench.operator import operator
from bench.report import Result, Target
from fournos.app.parts import kinds
from fournos.engine.api.conditions import is_true
from fournos.engine.api.crd import crd
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import load
from fournos.engine.kube.errors import ConflictError, NotFoundError
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

OURS: Final = "ours"
ADAPTERS: Final = {OURS: names.CONTROLLER, "Kueue's": names.MULTIKUEUE}
_LIMIT: Final = 300.0
_ALONE: Final = 10
"""The number of jobs of a round that runs one job at a time."""
_KUEUE: Final = "kueue-system"
_FINISHED: Final = "Finished"
_MIRROR: Final = Target("admitted on a worker → copy made, p50", "s", 0.15)
_STATUS: Final = Target("status on a worker → status here, p50", "s", 0.15)
_BESIDE: Final = Target("most jobs, times the rate of Kueue's adapter", "", 1, at_least=True)


@dataclass(frozen=True, slots=True)
class Round:
    """The result of a round of one adapter; times in seconds."""

    adapter: str
    jobs: int
    mirror_p50: float
    """From the admission of the Workload's copy on a worker to the creation of the job's copy there."""
    status_p50: float
    """From the status of the job's copy to the same status on the manager cluster."""
    seconds: float
    """From the creation of the first Workload to the last finished Workload."""
    rate: float


@dataclass(frozen=True, slots=True)
class Dispatched(Result):
    rounds: list[Round]

    def targets(self) -> list[tuple[Target, float]]:
        first = next(each for each in self.rounds if each.adapter == OURS)
        most = max(each.jobs for each in self.rounds)
        ours, others = (
            next(each.rate for each in self.rounds if each.jobs == most and (each.adapter == OURS) is own)
            for own in (True, False)
        )
        return [(_MIRROR, first.mirror_p50), (_STATUS, first.status_p50), (_BESIDE, ours / others)]


class _Manager(Onlooker):
    """Sees statuses come back and Workloads end; a Workload counts under the name of its job."""

    def handlers(self) -> dict[Resource, Callable[[Obj], None]]:
        return {FOO: self._see_job, WORKLOAD: self._see_workload}

    def _see_job(self, job: Obj) -> None:
        if (job.get("status") or {}).get("phase"):
            self.note(job["metadata"]["name"], "returned")

    def _see_workload(self, workload: Obj) -> None:
        if is_true(workload, _FINISHED):
            self.see_phase({"metadata": {"name": _job_of(workload)}, "status": {"phase": _FINISHED}})


class _Worker(Onlooker):
    """Simulates a worker's job controller: a job's copy succeeds as soon as it is seen."""

    def __init__(self, client: Client, namespace: str, manager: _Manager) -> None:
        super().__init__(client, (), namespace=namespace)
        self._manager = manager

    def handlers(self) -> dict[Resource, Callable[[Obj], None]]:
        return {WORKLOAD: self._see_workload, FOO: self._see_copy}

    def _see_workload(self, workload: Obj) -> None:
        if is_true(workload, "Admitted"):
            self._manager.note(_job_of(workload), "admitted")

    def _see_copy(self, copy: Obj) -> None:
        name = copy["metadata"]["name"]
        if (copy.get("status") or {}).get("phase"):
            self._manager.note(name, "reported")
        else:
            self.begin(uid_of(copy), self._end(name, copy))

    async def _end(self, name: str, copy: Obj) -> None:
        times = self._manager.times.setdefault(name, {})
        self._manager.note(name, "mirrored")
        try:
            body = {"status": {"phase": "Succeeded"}}
            await self._client.patch(FOO, key_of(copy), body, subresource="status")
        except NotFoundError:  # the copy was withdrawn, to be created on the other worker
            del times["mirrored"]
            return
        await until(lambda: "returned" in times, every=0.01)  # the Workload ends after it
        key = Key(copy["metadata"]["namespace"], f"foo-{name}")
        while True:
            with suppress(ConflictError, NotFoundError):
                twin = await self._client.get(WORKLOAD, key)
                patch = finish_patch(twin, "Succeeded", "done", datetime.now(UTC))
                await self._client.patch(WORKLOAD, key, patch.body, subresource="status")
                return
            await asyncio.sleep(0.05)


def _job_of(workload: Obj) -> str:
    return str(workload["metadata"]["name"]).removeprefix("foo-")


class Fleet:
    """The manager cluster and the workers, with the objects that both adapters need."""

    def __init__(self, manager: Client, workers: dict[str, Client]) -> None:
        self.manager = manager
        self.workers = workers
        self.tag = f"bench-{uuid.uuid4().hex[:6]}"

    def namespace(self, adapter: str) -> str:
        return f"{self.tag}-{'ours' if adapter == OURS else 'kueues'}"

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
            await self._queue(self.manager, namespace, 2, check=namespace)
            for client in self.workers.values():
                await self._queue(client, namespace, 1)

    async def _queue(self, client: Client, namespace: str, share: int, *, check: str = "") -> None:
        """Creates the queues of a namespace, with quota for `share` workers; `check` is an AdmissionCheck."""
        quota = {"name": self.tag, "resources": [{"name": "cpu", "nominalQuota": str(10_000 * share)}]}
        spec: dict[str, Any] = {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}],
        }
        if check:
            spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": check}]}
        await client.create(CLUSTER_QUEUE, typed(CLUSTER_QUEUE, namespace, spec=spec))
        local = typed(LOCAL_QUEUE, "q", namespace=namespace, spec={"clusterQueue": namespace})
        await client.create(LOCAL_QUEUE, local)

    async def active(self, adapter: str) -> None:
        """Waits until the AdmissionCheck is active.  Raises TimeoutError."""
        key = Key("", self.namespace(adapter))
        async with asyncio.timeout(60):
            while not is_true(await self.manager.get(ADMISSION_CHECK, key), "Active"):  # noqa: ASYNC110
                await asyncio.sleep(0.2)

    async def round(self, adapter: str, jobs: int) -> Round:
        """Dispatches `jobs` jobs concurrently with one adapter and measures them.  Raises TimeoutError."""
        namespace, batch = self.namespace(adapter), uuid.uuid4().hex[:4]
        seen = _Manager(self.manager, (_FINISHED,), namespace=namespace)
        workers = [_Worker(client, namespace, seen) for client in self.workers.values()]
        async with AsyncExitStack() as stack:
            for onlooker in (seen, *workers):
                await stack.enter_async_context(onlooker.watching())
            names = [f"{batch}-{number}" for number in range(jobs)]
            bodies = [await self.manager.create(FOO, _foo(name, namespace)) for name in names]
            for name in names:
                seen.note(name, "submitted")
            await asyncio.gather(*(self.manager.create(WORKLOAD, _workload_of(body)) for body in bodies))
            await asyncio.gather(*(seen.ended(name, limit=_LIMIT) for name in names))
        times = [seen.times[name] for name in names]
        seconds = max(each[TERMINAL] for each in times) - min(each["submitted"] for each in times)
        mirror, status = _between(times, "admitted", "mirrored"), _between(times, "reported", "returned")
        return Round(adapter, jobs, mirror, status, seconds, jobs / seconds)


def _between(times: Sequence[dict[str, float]], first: str, then: str) -> float:
    """Returns the median of the differences, in seconds.

    Negative differences count as 0: the status may reach the manager cluster before the benchmark's watch of
    the worker delivers it.
    """
    return median(max(0.0, each[then] - each[first]) for each in times if first in each and then in each)


def _foo(name: str, namespace: str) -> Obj:
    return typed(FOO, name, namespace=namespace, spec={"managedBy": names.MULTIKUEUE, "suspend": True})


def _workload_of(job: Obj) -> Obj:
    meta = job["metadata"]
    owner = {"apiVersion": FOO.api_version, "kind": FOO.kind, "name": meta["name"], "uid": uid_of(job)}
    container = {"name": "c", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    pods = [{"name": "main", "count": 1, "template": template}]
    body = typed(WORKLOAD, f"foo-{meta['name']}", namespace=meta["namespace"])
    body["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    return {**body, "spec": {"queueName": "q", "podSets": pods, "priority": 0}}


async def _measured(fleet: Fleet, adapter: str, jobs: int) -> Round:
    """Measures a round.  `jobs` 1 stands for _ALONE jobs, one after another, and returns their medians."""
    if jobs > 1:
        return await fleet.round(adapter, jobs)
    rounds = [await fleet.round(adapter, 1) for _ in range(_ALONE)]
    mirror, status = median(one.mirror_p50 for one in rounds), median(one.status_p50 for one in rounds)
    seconds = median(one.seconds for one in rounds)
    return Round(adapter, 1, mirror, status, seconds, 1 / seconds)


async def measure(cluster: str, *, jobs: list[int], directory: Path, keep: bool) -> Dispatched:
    """Measures both adapters.  `cluster` is the prefix of the names of the three clusters.

    Raises DevclusterError, TimeoutError.
    """
    configs = {"manager": manager_config(), "worker1": worker_config(), "worker2": worker_config()}
    made = {
        name: devcluster.ensure(f"{cluster}-{name}", profile="control-plane", kueue_config=config)
        for name, config in configs.items()
    }
    try:
        async with AsyncExitStack() as stack:
            clients = {
                name: await stack.enter_async_context(
                    Client(load(found.kubeconfig_path), qps=2000, burst=4000, name=name)
                )
                for name, found in made.items()
            }
            fleet = Fleet(clients.pop("manager"), clients)
            stack.push_async_callback(_tear_down, fleet)
            await fleet.set_up({name: made[name].kubeconfig_path.read_text() for name in clients})
            section = {"origin": fleet.tag, "externalFrameworks": [{"name": name} for name in FRAMEWORKS]}
            configuration = directory / "configuration.json"
            configuration.write_text(json.dumps({"multiKueue": section}))
            settings = {
                "FOURNOS_CONTROLLER_NAMESPACE": fleet.namespace(OURS),
                "FOURNOS_MULTIKUEUE_CONFIG_FILE": str(configuration),
            }
            kubeconfig, log = made["manager"].kubeconfig_path, directory / "adapter.log"
            async with operator(kubeconfig, log, enable="multikueue", settings=settings):
                for adapter in ADAPTERS:
                    await fleet.active(adapter)
                    await fleet.round(adapter, 3)  # warm-up, not reported
                rounds = [await _measured(fleet, adapter, size) for size in jobs for adapter in ADAPTERS]
                return Dispatched(rounds)
    finally:
        if not keep:
            for found in made.values():
                devcluster.down(found.name)


async def _tear_down(fleet: Fleet) -> None:
    """Deletes what the fleet's `set_up` made for this run, for the next one on kept clusters."""
    for adapter in ADAPTERS:
        key = Key("", fleet.namespace(adapter))
        for client in (fleet.manager, *fleet.workers.values()):
            for resource in (CLUSTER_QUEUE, NAMESPACE):
                await client.delete(resource, key)
        await fleet.manager.delete(ADMISSION_CHECK, key)
    await fleet.manager.delete(MULTIKUEUE_CONFIG, Key("", fleet.tag))
    for name in fleet.workers:
        await fleet.manager.delete(MULTIKUEUE_CLUSTER, Key("", f"{fleet.tag}-{name}"))
        await fleet.manager.delete(SECRET, Key(_KUEUE, f"{fleet.tag}-{name}"))
    for client in (fleet.manager, *fleet.workers.values()):
        await client.delete(RESOURCE_FLAVOR, Key("", fleet.tag))
