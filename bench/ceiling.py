"""Measures the ceiling, Kueue alone with Workloads that the benchmark makes, and each system beside it.

Kueue alone admits each Workload and the benchmark finishes it at once: a system that writes nothing of its
own could not be faster.  FournosJobs and AppWrappers are measured to their end, MiniClusters until their Job
exists, as `bench miniclusters` does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench import appwrappers, miniclusters
from bench.executors import TERMINAL, Executors, Onlooker
from bench.lifecycle import JOBS, Subject, answered, measured, settle, submit_and_wait, with_resource
from bench.machine import load
from bench.operator import operator
from bench.report import Result
from bench.rig import NAMESPACE, QUEUE, Rig, new_rig
from dev import resources
from fournos.engine.api.conditions import is_true
from fournos.engine.kube.client import Client
from fournos.engine.kube.errors import ConflictError, NotFoundError
from fournos.engine.kube.resource import Key, Obj, Resource, key_of
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.report import finish_patch

KUEUE: Final = "kueue"
_FLAVOR: Final = "bench-1"
_SLOTS: Final = 100_000
"""Quota is never short: a rate is what the parties can do, not what the quota lets through."""
_FINISHED: Final = "Finished"
_WARM_UP: Final = 10
_PLAYED: Final = "benchmark"
"""The process whose CPU is no cost of a system."""
_CONFIG: Final[dict[str, Any]] = {
    "integrations": {
        "frameworks": ["batch/job"],
        "externalFrameworks": [
            "AppWrapper.v1beta2.workload.codeflare.dev",
            "MiniCluster.v1alpha2.flux-framework.org",
        ],
    }
}
_SYSTEMS: Final[dict[str, tuple[str, Subject, Callable[[Client], Onlooker]]]] = {
    "fournosjobs": ("jobs", JOBS, Executors),
    "appwrappers": ("appwrappers", appwrappers.SUBJECT, appwrappers.Node),
    "miniclusters": ("miniclusters", miniclusters.QUEUED, miniclusters.Onlookers),
}
"""What `fournos run --enable` calls each, what is measured of it, and what plays the rest."""
_SETTINGS: Final = {**appwrappers.settings(own=True), **miniclusters.SETTINGS}


@dataclass(frozen=True, slots=True)
class Cost:
    """What one turn of one system cost."""

    system: str
    """`kueue`, or one of _SYSTEMS."""
    objects: int
    rate: float
    """Objects a second, from the first submission to the last end."""
    requests: float
    """API requests an object, all but the benchmark's."""
    cpu_ms: dict[str, float]
    """CPU milliseconds an object, by process."""
    others: float
    """The share of the machine's CPU, 0 to 1, used by processes outside of the benchmark."""

    @property
    def rate_alone(self) -> float:
        """An estimate of the rate on a machine without other processes: they differ from turn to turn."""
        return self.rate / (1 - self.others) if self.others < 1 else 0.0

    @property
    def cpu(self) -> float:
        """CPU milliseconds an object of all processes but the benchmark."""
        return sum(ms for name, ms in self.cpu_ms.items() if name != _PLAYED)


@dataclass(frozen=True, slots=True)
class Ceiling(Result):
    """All turns of all systems."""

    turns: list[Cost]

    def quotients(self) -> dict[str, float]:
        return ratios(self.turns)


def ratios(turns: Sequence[Cost]) -> dict[str, float]:
    """Returns `SYSTEM.rate`, `SYSTEM.requests` and `SYSTEM.cpu`, each over Kueue's: medians of the turns."""
    read: dict[str, Callable[[Cost], float]] = {
        "rate": lambda each: each.rate_alone,
        "requests": lambda each: each.requests,
        "cpu": lambda each: each.cpu,
    }
    middle = {
        (system, what): median(take(each) for each in turns if each.system == system)
        for system in {each.system for each in turns}
        for what, take in read.items()
    }
    return {
        f"{system}.{what}": value / middle[KUEUE, what]
        for (system, what), value in sorted(middle.items())
        if system != KUEUE and middle[KUEUE, what]
    }


async def measure(name: str, *, jobs: int, turns: int, directory: Path, keep: bool) -> Ceiling:
    """Measures Kueue alone and each system with `jobs` objects, `turns` times, on a new cluster `name`."""
    files = ("appwrapper/crd.yaml", "minicluster/crd.yaml", "minicluster/kueue.yaml")
    extra = [each for file in files for each in await asyncio.to_thread(resources.load, f"deploy/{file}")]
    costs: list[Cost] = []
    async with new_rig(name, quotas={_FLAVOR: _SLOTS}, keep=keep, kueue_config=_CONFIG, extra=extra) as rig:
        for turn in range(turns):
            costs.append(await _kueue_alone(rig, jobs, prefix=f"{KUEUE}{turn}"))
            for system in _SYSTEMS:
                costs.append(await _system(rig, system, jobs, prefix=f"t{turn}", directory=directory))
    return Ceiling(costs)


async def _system(rig: Rig, system: str, objects: int, *, prefix: str, directory: Path) -> Cost:
    part, subject, onlookers = _SYSTEMS[system]
    kubeconfig, log = rig.cluster.kubeconfig_path, directory / f"{system}.log"
    async with (
        operator(kubeconfig, log, enable=part, settings=_SETTINGS) as running,
        onlookers(rig.client).watching() as onlooker,
    ):
        (done,) = await measured(rig, running, onlooker, subject, [objects], prefix=prefix)
        await delete_all(rig, subject.resource)
        await settle(rig, running)
    return Cost(system, done.jobs, done.rate, done.requests["all"], done.cpu_of, done.others)


async def _kueue_alone(rig: Rig, objects: int, *, prefix: str) -> Cost:
    async with Finisher(rig.client).watching() as finisher:
        subject = Subject(WORKLOAD, _workload, ())
        done = await cost(rig, finisher, subject, objects, system=KUEUE, prefix=prefix)
    await delete_all(rig, WORKLOAD)
    await settle(rig, None)
    return done


def _workload(name: str) -> Obj:
    """Returns a Workload without a job, as an integration of Kueue would make it."""
    pod_set = {"name": "main", "count": 1, "template": {"spec": appwrappers.pod_spec()}}
    return {
        "apiVersion": WORKLOAD.api_version,
        "kind": WORKLOAD.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"queueName": QUEUE, "podSets": [pod_set]},
    }


async def cost(
    rig: Rig, onlooker: Onlooker, subject: Subject, objects: int, *, system: str, prefix: str, pid: int = 0
) -> Cost:
    """Measures one turn of a system that need not be ours.  `pid` is its process beside Kueue; 0: none."""
    warm = (f"{prefix}-warm-{number}" for number in range(_WARM_UP))
    await asyncio.gather(*(submit_and_wait(rig, onlooker, subject, name) for name in warm))
    await settle(rig, None)
    processes = {**({"operator": pid} if pid else {}), **rig.processes()}
    sent, served = rig.sent.copy(), await answered(rig.client)
    before, started = load(processes), time.perf_counter()
    names = [f"{prefix}-{number}" for number in range(objects)]
    await asyncio.gather(*(submit_and_wait(rig, onlooker, subject, name) for name in names))
    used = load(processes).since(before)
    seconds = max(onlooker.times[name][TERMINAL] for name in names) - started
    await settle(rig, None)
    own = with_resource(rig.sent) - with_resource(sent)
    whole = (await answered(rig.client) - served).total()
    spent = {name: used_ms * 1000 / objects for name, used_ms in used.processes.items()}
    return Cost(system, objects, objects / seconds, (whole - own) / objects, spent, used.others)


async def delete_all(rig: Rig, resource: Resource) -> None:
    """Deletes what a turn leaves, so that the next meets the same cluster."""
    left = await rig.client.list(resource, namespace=NAMESPACE)

    async def delete(key: Key) -> None:
        with suppress(NotFoundError):
            await rig.client.delete(resource, key)

    await asyncio.gather(*(delete(key_of(each)) for each in left.items))


class Finisher(Onlooker):
    """Plays the job of each Workload: it finishes as soon as it is admitted."""

    def __init__(self, client: Client) -> None:
        super().__init__(client, (_FINISHED,))

    def handlers(self) -> dict[Resource, Callable[[Obj], None]]:
        return {WORKLOAD: self._see}

    def _see(self, workload: Obj) -> None:
        name = workload["metadata"]["name"]
        if is_true(workload, _FINISHED):
            self.see_phase({"metadata": workload["metadata"], "status": {"phase": _FINISHED}})
        elif is_true(workload, "Admitted"):
            self.begin(name, self._finish(workload))

    async def _finish(self, workload: Obj) -> None:
        while True:
            patch = finish_patch(workload, "Succeeded", "done", datetime.now(UTC))
            with suppress(ConflictError):
                await self._client.patch(WORKLOAD, key_of(workload), patch.body, subresource="status")
                return
            workload = await self._client.get(WORKLOAD, key_of(workload))
