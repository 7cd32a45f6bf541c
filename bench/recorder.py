"""Measures the recorder of the history without a cluster: CPU time per job, and memory with many live jobs.

Objects as an API server has them go through the recorder's own caches, passes and SQLite; only the requests
to an API server are left out, which are one status write per job.
"""

from __future__ import annotations

import argparse
import asyncio
import copy
import multiprocessing
import resource
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from bench.logs import SETTLED, log_server, resident, until
from fournos.api.kinds import FOURNOS_JOB
from fournos.api.times import format_time
from fournos.history.blobs import DirectoryBlobs
from fournos.history.logs.collector import LogCollector
from fournos.history.recorder.controller import recorder
from fournos.history.recorder.database import DatabaseArchive
from fournos.history.recorder.journal import Journal
from fournos.history.records import Record
from fournos.history.settings import HistorySettings
from fournos.history.store import Store as HistoryStore
from fournos.history.store.logs import LogRows
from fournos.jobs.kinds import PIPELINE_RUN, TASK_RUN
from fournos.kube.api import Api
from fournos.kube.client import Client
from fournos.kube.kinds import EVENT, NAMESPACE, POD
from fournos.kube.resource import Key, Obj, Resource, key_of
from fournos.kube.store import Store
from fournos.queueing.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from fournos.runtime.act import StepExecutor
from fournos.runtime.clock import SystemClock
from fournos.runtime.controller import Caches
from fournos.runtime.reconcile import reconcile

BEGIN = datetime(2030, 1, 1, tzinfo=UTC)
TASKS = 3
_RUNNING = 10
"""One of so many live jobs runs."""
NAMESPACE_NAME = "bench"

T = TypeVar("T")


class _Clock:
    """The time of the recorded jobs."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds


class _Server:
    """Takes the status writes, and has the logs that the client reads."""

    def __init__(self, client: Client | None = None) -> None:
        self.writes = 0
        self.jobs: dict[Key, Obj] = {}
        self._client = client

    async def log_stream(self, pod: Key, **asked: Any) -> AsyncGenerator[bytes, None]:
        assert self._client is not None
        return await self._client.log_stream(pod, **asked)

    async def patch(self, resource: Resource, key: Key, body: Obj, **_: Any) -> Obj:
        self.writes += 1
        job = self.jobs[key]
        meta = {**job["metadata"], "resourceVersion": str(int(job["metadata"]["resourceVersion"]) + 1)}
        return {**job, "metadata": meta, "status": {**job["status"], **body["status"]}}


class _Recorder:
    def __init__(self, url: str, client: Client | None = None, blobs: Path | None = None) -> None:
        """With a client it follows the logs of the jobs, and stores them in the directory `blobs`."""
        self.clock, self.server = _Clock(), _Server(client)
        self.archive = DatabaseArchive(url)
        self.records = 0
        self.logs = self._collector(blobs) if blobs is not None else None
        self.controller = recorder(
            HistorySettings(),
            FOURNOS_JOB,
            self.archive,
            Journal(),
            self.clock,
            wrote=self._wrote,
            logs=self.logs,
        )
        self.watches = {watch.resource: watch for watch in self.controller.watches}
        stores = {r: Store(project=w.project, indexes=w.indexes) for r, w in self.watches.items()}
        self.caches = Caches(stores)
        self.executor = StepExecutor(cast_api(self.server))
        self.version = 0
        self.passes = 0
        for name in ("kube-system", NAMESPACE_NAME):
            self.put(NAMESPACE, {"metadata": {"name": name, "uid": f"uid-{name}"}})
        self.put(LOCAL_QUEUE, _named("fournos-queue", spec={"clusterQueue": "fournos-queue"}))
        flavors = [
            {"name": f"cluster-{n}", "resources": [{"name": "fournos/cluster-slot", "nominalQuota": "100"}]}
            for n in range(6)
        ]
        group = {"coveredResources": ["fournos/cluster-slot"], "flavors": flavors}
        self.put(
            CLUSTER_QUEUE,
            {"metadata": {"name": "fournos-queue", "uid": "q"}, "spec": {"resourceGroups": [group]}},
        )
        for n in range(6):
            self.put(RESOURCE_FLAVOR, {"metadata": {"name": f"cluster-{n}", "uid": f"f{n}"}, "spec": {}})

    def _collector(self, blobs: Path) -> LogCollector:
        async def rows() -> LogRows:
            return LogRows(await self.archive.recording())

        settings = HistorySettings()
        return LogCollector(
            rows, DirectoryBlobs(blobs), settings.log_limits, SystemClock(), streams=settings.log_streams
        )

    def _wrote(self, record: Record, taken: bool) -> None:
        self.records += taken

    def put(self, kind: Resource, obj: dict[str, Any]) -> list[Key]:
        """Stores an object; returns the keys that its event enqueues."""
        self.version += 2
        obj["metadata"] = {**obj["metadata"], "resourceVersion": str(self.version)}
        if kind == FOURNOS_JOB:
            self.server.jobs[key_of(obj)] = obj
        change = self.caches[kind].observe("MODIFIED", obj)
        if change is None or change.new is None:
            return []
        return list(self.watches[kind].wakes(change.new, self.caches))

    async def work(self, keys: list[Key]) -> None:
        for key in dict.fromkeys(keys):
            again = True
            while again:
                outcome = await reconcile(
                    self.controller, self.caches, self.executor, key, self.clock.now(), 0
                )
                self.passes += 1
                again = outcome.again
                if outcome.error is not None:
                    raise outcome.error


def cast_api(server: object) -> Api:
    found: Any = server
    return found  # type: ignore[no-any-return]


def _named(name: str, **parts: Any) -> dict[str, Any]:
    meta = {
        "name": name,
        "namespace": NAMESPACE_NAME,
        "uid": f"uid-{name}",
        "creationTimestamp": format_time(BEGIN),
        **parts.pop("metadata", {}),
    }
    return {"metadata": meta, **parts}


def _owned(name: str, kind: str, owner: str, job: str, **parts: Any) -> dict[str, Any]:
    reference = {"apiVersion": "v1", "kind": kind, "name": owner, "uid": f"uid-{owner}", "controller": True}
    labels = {
        "fournos.dev/job-name": job,
        "app.kubernetes.io/managed-by": "fournos",
        **parts.pop("labels", {}),
    }
    return _named(name, metadata={"ownerReferences": [reference], "labels": labels}, **parts)


def _job(name: str) -> dict[str, Any]:
    """A job of 5 kB, about the size of those of users."""
    args = {f"argument-{n}": f"value of a certain length {n}" for n in range(40)}
    spec = {
        "owner": "perf-team",
        "pipeline": "fournos-full",
        "exclusive": False,
        "hardware": {"gpuType": "h200", "gpuCount": 2},
        "executionEngine": {"forge": {"project": "llm-d", "args": args}},
        "env": {f"VARIABLE_{n}": f"https://example.test/{n}" for n in range(20)},
    }
    return {"apiVersion": "fournos.dev/v1", "kind": "FournosJob", **_named(name, spec=spec)}


def _workload(name: str) -> dict[str, Any]:
    requests = {"fournos/cluster-slot": "1"}
    template = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]}}
    spec = {"queueName": "fournos-queue", "podSets": [{"name": "launcher", "count": 1, "template": template}]}
    return _owned(f"{name}-w", "FournosJob", name, name, spec=spec)


def life(name: str) -> Iterator[tuple[float, list[tuple[Resource, dict[str, Any]]]]]:
    """Yields the changes of a job's life: seconds since the one before, and what changes."""
    job, workload = _job(name), _workload(name)
    times: dict[str, str] = {}
    clock = 0.0

    def phase(value: str, **more: Any) -> tuple[Resource, dict[str, Any]]:
        entered = "finished" if value == "Succeeded" else value.lower()
        times[entered] = format_time(BEGIN + timedelta(seconds=clock))
        conditions = [
            {"type": kind, "status": "True", "reason": value, "message": f"{kind} since {value}"}
            for kind in ("Resolved", "WorkloadAdmitted", "PipelineRunReady")
        ]
        status = {"phase": value, "phaseTimes": dict(times), "conditions": conditions, **more}
        job["status"] = {**job.get("status", {}), **status}
        return FOURNOS_JOB, copy.deepcopy(job)

    def event(reason: str) -> tuple[Resource, dict[str, Any]]:
        about = {"kind": "FournosJob", "name": name, "uid": f"uid-{name}"}
        at = format_time(BEGIN + timedelta(seconds=clock))
        body = _named(f"{name}.{reason}", regarding=about, reason=reason, note=reason, type="Normal")
        return EVENT, {**body, "deprecatedLastTimestamp": at}

    def step(seconds: float) -> float:
        nonlocal clock
        clock += seconds
        return seconds

    yield step(0), [(FOURNOS_JOB, copy.deepcopy(job))]
    yield step(1), [phase("Resolving")]
    yield step(5), [phase("Pending", displayName=name), (WORKLOAD, copy.deepcopy(workload))]
    waiting = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "no room"}
    workload["status"] = {"conditions": [waiting]}
    yield step(0.2), [(WORKLOAD, copy.deepcopy(workload)), phase("Pending", message="Waiting for admission")]
    flavors = {"fournos/cluster-slot": "cluster-1"}
    admission = {
        "clusterQueue": "fournos-queue",
        "podSetAssignments": [{"name": "launcher", "flavors": flavors}],
    }
    held = [{"type": kind, "status": "True", "reason": kind} for kind in ("QuotaReserved", "Admitted")]
    workload["status"] = {"conditions": held, "admission": admission}
    yield (
        step(60),
        [(WORKLOAD, copy.deepcopy(workload)), phase("Admitted", cluster="cluster-1"), event("Admitted")],
    )
    attempt = {"number": 1, "pipelineRun": f"{name}-run", "cluster": "cluster-1"}
    run = _owned(f"{name}-run", "FournosJob", name, name, spec={"pipelineRef": {"name": "fournos-full"}})
    plan = {
        "tasks": [{"name": f"task-{n}", "taskSpec": {"steps": [{"script": "x" * 800}]}} for n in range(TASKS)]
    }
    run["status"] = {
        "startTime": format_time(BEGIN),
        "pipelineSpec": plan,
        "conditions": [{"type": "Succeeded", "status": "Unknown"}],
    }
    yield (
        step(1),
        [
            (PIPELINE_RUN, copy.deepcopy(run)),
            phase("Running", pipelineRun=f"{name}-run", attempt=1, attempts=[attempt]),
        ],
    )
    for number in range(TASKS):
        yield from _task(name, number, step)
    run["status"] = {
        **run["status"],
        "completionTime": format_time(BEGIN),
        "conditions": [{"type": "Succeeded", "status": "True"}],
    }
    yield step(1), [(PIPELINE_RUN, copy.deepcopy(run))]
    yield step(0.2), [phase("Succeeded", message="Pipeline completed successfully"), event("Succeeded")]


def _task(name: str, number: int, step: Any) -> Iterator[tuple[float, list[tuple[Resource, dict[str, Any]]]]]:
    task = f"{name}-task-{number}"
    labels = {"tekton.dev/pipelineRun": f"{name}-run", "tekton.dev/pipelineTask": f"task-{number}"}
    found = _owned(
        task, "PipelineRun", f"{name}-run", name, labels=labels, status={"startTime": format_time(BEGIN)}
    )
    pod = _owned(
        f"{task}-pod",
        "TaskRun",
        task,
        name,
        labels=labels,
        spec={"containers": [{"name": "step-x", "args": ["x" * 2000]}]},
    )
    yield step(0.5), [(TASK_RUN, copy.deepcopy(found))]
    states: list[dict[str, Any]] = [
        {},
        {"waiting": {"reason": "ContainerCreating"}},
        {"running": {"startedAt": format_time(BEGIN + timedelta(days=1))}},
        {"terminated": {"startedAt": format_time(BEGIN + timedelta(days=1)), "exitCode": 0}},
    ]
    for state in states:
        pod["status"] = {
            "containerStatuses": [
                {"name": "step-x", "state": state, "imageID": "sha256:1" if "running" in state else ""}
            ]
        }
        yield step(2), [(POD, copy.deepcopy(pod))]
    found["status"] = {
        **found["status"],
        "completionTime": format_time(BEGIN),
        "steps": [{"name": "x", "terminated": states[-1]["terminated"], "imageID": "sha256:1"}],
    }
    yield step(0.5), [(TASK_RUN, copy.deepcopy(found))]


async def cpu(jobs: int, directory: Path, *, pace: float) -> dict[str, float]:
    """Records whole lives, one after the other; returns CPU milliseconds, passes and writes per job.

    `pace` 1.0 is a job of two minutes; 0.01 one whose resolver and run end at once.
    """
    found = _Recorder(f"sqlite:///{directory}/cpu-{pace}.db")
    lives = [(name, list(life(name))) for name in (f"job-{n}" for n in range(jobs))]
    await found.work([Key("", "")])
    before = resource.getrusage(resource.RUSAGE_SELF)
    started = time.perf_counter()
    for _, changes in lives:
        for seconds, objects in changes:
            found.clock.seconds += pace * seconds
            await found.work([key for kind, obj in objects for key in found.put(kind, obj)])
    took = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_SELF)
    await found.archive.close()
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "cpu_ms_a_job": 1000 * used / jobs,
        "jobs_a_second": jobs / took,
        "passes_a_job": found.passes / jobs,
        "records_a_job": found.records / jobs,
        "status_writes_a_job": found.server.writes / jobs,
    }


async def memory(jobs: int, directory: Path) -> dict[str, float]:
    """Keeps so many live jobs, nine of ten pending; returns the resident memory in megabytes.

    The logs of the others are followed, as many at once as the settings allow.
    """
    async with log_server(directory) as client:
        found = _Recorder(f"sqlite:///{directory}/memory.db", client, directory / "blobs")
        assert found.logs is not None
        streams = asyncio.create_task(found.logs.run())
        await found.work([Key("", "")])
        empty = resident()
        for number in range(jobs):
            await _live(found, number)
        most = min(HistorySettings().log_streams, -(-jobs // _RUNNING))
        await until(lambda: found.logs is not None and found.logs.streams >= most)
        await asyncio.sleep(SETTLED)
        full, used = resident(), found.logs.streams
        streams.cancel()
        await asyncio.gather(streams, return_exceptions=True)
        await found.archive.close()
    return {"empty_mb": empty, "full_mb": full, "streams": used}


async def _live(found: _Recorder, number: int) -> None:
    """A job that waits, or one of ten that runs."""
    found.clock.seconds = 0.0
    changes = life(f"job-{number}")
    steps = 10 if number % _RUNNING == 0 else 4
    for seconds, objects in (next(changes) for _ in range(steps)):
        found.clock.seconds += seconds
        await found.work([key for kind, obj in objects for key in found.put(kind, obj)])
    found.server.jobs.clear()  # the API server's memory, not the recorder's


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.recorder", description=__doc__)
    parser.add_argument("--jobs", type=int, default=500, help="jobs whose whole life is recorded (500)")
    parser.add_argument("--live", type=int, default=10_000, help="live jobs in memory (10000)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        for what, pace in (("short", 0.01), ("long", 1.0)):
            for name, value in _apart(_cpu, given.jobs, Path(directory), pace).items():
                print(f"{what:6} {name:22} {value:10.2f}")
        _apart(_make, Path(directory))
        for name, value in _apart(_memory, given.live, Path(directory)).items():
            print(f"{name:22} {value:10.1f}")


def _apart(work: Callable[..., T], *given: Any) -> T:
    """Calls `work` in a process of its own, which holds nothing of what was measured before."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(work, *given).result()


def _cpu(jobs: int, directory: Path, pace: float) -> dict[str, float]:
    return asyncio.run(cpu(jobs, directory, pace=pace))


def _make(directory: Path) -> None:
    """Makes the database: a recorder makes it once, and is started again with it."""

    async def make() -> None:
        await (await HistoryStore.open(f"sqlite:///{directory}/memory.db")).close()

    asyncio.run(make())


def _memory(live: int, directory: Path) -> dict[str, float]:
    return uvloop.run(memory(live, directory))


if __name__ == "__main__":
    main()
