"""Measures the recorder of the history without a cluster: CPU time per job, and memory with many live jobs.

Objects as an API server has them go through the recorder's own caches, passes and SQLite; only the requests
to an API server are left out, which are one status write per job.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import resource
import tempfile
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from bench.logs import SETTLED, log_server, resident
from bench.recorder_life import BEGIN, NAMESPACE_NAME, life, named
from bench.tasks import background, until
from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.api import Api
from fournos.engine.kube.client import Client
from fournos.engine.kube.kinds import NAMESPACE
from fournos.engine.kube.resource import Key, Obj, Resource, key_of
from fournos.engine.kube.store import Store
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR
from fournos.engine.runtime.act import StepExecutor
from fournos.engine.runtime.clock import SystemClock
from fournos.engine.runtime.controller import Caches
from fournos.engine.runtime.reconcile import reconcile
from fournos.history.blobs import DirectoryBlobs
from fournos.history.logs.collector import LogCollector
from fournos.history.recorder.controller import recorder
from fournos.history.recorder.database import DatabaseArchive
from fournos.history.recorder.journal import Journal
from fournos.history.records import Record
from fournos.history.settings import HistorySettings
from fournos.history.store import HistoryStore
from fournos.history.store.logs import LogRows

_RUNNING = 10
"""One of so many live jobs runs."""
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
        self.put(LOCAL_QUEUE, named("fournos-queue", spec={"clusterQueue": "fournos-queue"}))
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


async def cpu(jobs: int, directory: Path, *, pace: float) -> dict[str, float]:
    """Records whole lives, one after the other; returns CPU milliseconds, passes and writes per job.

    `pace` 1.0 is a job of two minutes; 0.01 one whose resolver and run end at once.
    """
    recorder = _Recorder(f"sqlite:///{directory}/cpu-{pace}.db")
    lives = [(name, list(life(name))) for name in (f"job-{n}" for n in range(jobs))]
    await recorder.work([Key("", "")])
    before = resource.getrusage(resource.RUSAGE_SELF)
    started = time.perf_counter()
    for _, changes in lives:
        for seconds, objects in changes:
            recorder.clock.seconds += pace * seconds
            await recorder.work([key for kind, obj in objects for key in recorder.put(kind, obj)])
    took = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_SELF)
    await recorder.archive.close()
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "cpu_ms_a_job": 1000 * used / jobs,
        "jobs_a_second": jobs / took,
        "passes_a_job": recorder.passes / jobs,
        "records_a_job": recorder.records / jobs,
        "status_writes_a_job": recorder.server.writes / jobs,
    }


async def memory(jobs: int, directory: Path) -> dict[str, float]:
    """Keeps so many live jobs, nine of ten pending; returns the resident memory in megabytes.

    The logs of the others are followed, as many at once as the settings allow.
    """
    async with log_server(directory) as client:
        recorder = _Recorder(f"sqlite:///{directory}/memory.db", client, directory / "blobs")
        assert recorder.logs is not None
        async with background(recorder.logs.run()):
            await recorder.work([Key("", "")])
            empty = resident()
            for number in range(jobs):
                await _live(recorder, number)
            most = min(HistorySettings().log_streams, -(-jobs // _RUNNING))
            await until(lambda: recorder.logs is not None and recorder.logs.streams >= most)
            await asyncio.sleep(SETTLED)
            full, used = resident(), recorder.logs.streams
        await recorder.archive.close()
    return {"empty_mb": empty, "full_mb": full, "streams": used}


async def _live(recorder: _Recorder, number: int) -> None:
    """A job that waits, or one of ten that runs."""
    recorder.clock.seconds = 0.0
    changes = life(f"job-{number}")
    steps = 10 if number % _RUNNING == 0 else 4
    for seconds, objects in (next(changes) for _ in range(steps)):
        recorder.clock.seconds += seconds
        await recorder.work([key for kind, obj in objects for key in recorder.put(kind, obj)])
    recorder.server.jobs.clear()  # the API server's memory, not the recorder's


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
