"""A load of short jobs without a pause, and what must never be seen of them.

A full queue: so many jobs live, a part of them running.  The benchmark ends runs at a fixed rate, and each
end is followed by a new job, so that the number of live jobs stays.  Ended jobs go away by `spec.ttl`.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat
from typing import Any, Final

from bench.executors import Executors, completed_job, succeeded_run
from bench.machine import background, limited, until
from bench.rig import NAMESPACE, job
from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN
from fournos.engine.kube.client import Client
from fournos.engine.kube.errors import AlreadyExistsError, KubeError, NotFoundError
from fournos.engine.kube.resource import JOB, LEASE, Obj, Resource, controller_of, key_of, uid_of
from fournos.systems.jobs import names

TTL: Final = "1m"
LATE: Final = 30.0
"""Seconds after the end of a run within which the job must show it."""
_AGAIN: Final = 0.2
"""Seconds until a step is tried again that a failing API server refused."""
_AT_ONCE: Final = 8
"""Jobs that are submitted together.  The API server lets an administrator take all of its time."""
_FULL_WITHIN: Final = 60.0
_SUBMITTED_A_SECOND: Final = 3
"""So many jobs a second are queued even on a slow machine."""


@dataclass(slots=True)
class Record:
    """What was seen; times in `time.perf_counter` seconds."""

    writes: list[float] = field(default_factory=list)
    """New phases of jobs and new objects of theirs: what only an operator writes."""
    leaders: list[tuple[float, str]] = field(default_factory=list)
    """When the Lease got a new holder, "" for none."""
    waits: list[tuple[float, float]] = field(default_factory=list)
    """When a job was admitted, and the seconds since the end of the run that made room for it."""
    ends: int = 0
    doubles: list[str] = field(default_factory=list)
    """A second object where there may be one, or a second end of a job."""
    failed: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)


class Stream(Executors):
    """Plays the executors, submits the jobs and keeps the record."""

    def __init__(self, client: Client, *, live: int, ends_per_second: float) -> None:
        super().__init__(client, finish_runs=False)
        self.record = Record()
        self.paused = False
        self.draining = False
        """What still runs is ended at once, so that its end may be told late."""
        self._live = live
        self._pause = 1 / ends_per_second
        self._submitted = 0
        self._uids: dict[tuple[str, str], set[str]] = {}
        """By kind and the UID of the job."""
        self._admitted: set[str] = set()
        self._running: deque[Obj] = deque()
        self._room: deque[float] = deque()
        """The ends whose room no job has taken yet."""

    def handlers(self) -> dict[Resource, Callable[[Obj], None]]:
        return {**super().handlers(), LEASE: self._see_lease}

    @asynccontextmanager
    async def flowing(self, slots: int) -> AsyncIterator[None]:
        """Submits the live jobs, waits until `slots` of them run and the others are queued; then ends and
        submits in the background.

        Raises TimeoutError.
        """
        async with self.watching():
            await limited(_AT_ONCE, repeat(self._submit, self._live))
            async with asyncio.timeout(_FULL_WITHIN + self._live / _SUBMITTED_A_SECOND):
                queued = self._live - slots
                await until(lambda: len(self._running) >= slots and len(self.queued()) >= queued, every=0.2)
            async with background(self._flow()):
                yield
            self.draining = True
            await self._drain()

    def queued(self) -> list[str]:
        """Returns the jobs that wait, in the order in which they began to."""
        return [name for name, phase in self.phases.items() if phase == "Pending"]

    async def _flow(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            if self._running and not self.paused:
                run = self._running.popleft()
                self.begin(f"end {run['metadata']['name']}", self._end(run))

    async def _end(self, run: Obj) -> None:
        await self._succeed(run)
        self.record.ends += 1
        self._room.append(time.perf_counter())
        await self._submit()

    async def _succeed(self, run: Obj) -> None:
        body = {"status": succeeded_run()}
        await _tried(lambda: self._client.patch(PIPELINE_RUN, key_of(run), body, subresource="status"))
        self.note(self._job_of(run), "run ended")

    async def _drain(self) -> None:
        """Deletes what waits and what has ended, and ends what runs, until no job is left.

        Raises TimeoutError: an operator that works leaves none.
        """
        async with asyncio.timeout(_FULL_WITHIN + self._live / _SUBMITTED_A_SECOND):
            while jobs := await self._all(FOURNOS_JOB):
                while self._running:
                    await self._succeed(self._running.popleft())
                for each in jobs:
                    if (each.get("status") or {}).get("phase") in ("Pending", *self._terminal):
                        await _tried(partial(self._client.delete, FOURNOS_JOB, key_of(each)))
                await asyncio.sleep(0.5)

    async def _submit(self) -> None:
        self._submitted += 1
        body = job(f"stream-{self._submitted}")
        body["spec"]["ttl"] = TTL
        await _tried(lambda: self._client.create(FOURNOS_JOB, body))

    # --- what is seen -------------------------------------------------------------------------------------

    def see_phase(self, obj: Obj) -> None:
        name, before = obj["metadata"]["name"], self.phases.get(obj["metadata"]["name"])
        super().see_phase(obj)
        phase = self.phases.get(name)
        if phase == before:
            return
        now = time.perf_counter()
        self.record.writes.append(now)
        if before in self._terminal:
            self.record.doubles.append(f"{name} is {phase} after {before}")
        elif phase in self._terminal:
            self._see_end(name, str(phase), now)
        elif phase in ("Admitted", "Running") and name not in self._admitted:
            self._admitted.add(name)
            if self._room:
                self.record.waits.append((now, now - self._room.popleft()))

    def _see_end(self, name: str, phase: str, now: float) -> None:
        if phase != "Succeeded":
            self.record.failed.append(f"{name} is {phase}")
        if not self.draining and now - self.times[name].get("run ended", now) > LATE:
            self.record.late.append(name)

    def _see_workload(self, workload: Obj) -> None:
        self._see_made("Workload", workload)
        super()._see_workload(workload)

    def _see_resolve_job(self, job: Obj) -> None:
        self._see_made("resolve Job", job)
        super()._see_resolve_job(job)

    def _see_run(self, run: Obj) -> None:
        self._see_made("PipelineRun", run)
        super()._see_run(run)

    def _see_made(self, kind: str, obj: Obj) -> None:
        # Not the job's name: the garbage collector may not have deleted yet what a benchmark before left.
        owner = str((controller_of(obj) or {}).get("uid"))
        uids = self._uids.setdefault((kind, owner), set())
        if uid_of(obj) in uids:
            return
        uids.add(uid_of(obj))
        self.record.writes.append(time.perf_counter())
        if len(uids) > 1:
            self.record.doubles.append(f"{self._job_of(obj)} has a second {kind}")

    def _see_lease(self, lease: Obj) -> None:
        if lease["metadata"]["name"] != names.LEASE:
            return
        holder = str((lease.get("spec") or {}).get("holderIdentity") or "")
        if not self.record.leaders or self.record.leaders[-1][1] != holder:
            self.record.leaders.append((time.perf_counter(), holder))

    # --- what is played -----------------------------------------------------------------------------------

    async def _resolve(self, name: str, job: Obj) -> None:
        body = {"status": completed_job()}
        await _tried(lambda: self._client.patch(JOB, key_of(job), body, subresource="status"))

    async def _run(self, name: str, run: Obj) -> None:
        await _tried(lambda: super(Stream, self)._run(name, run))
        self._running.append(run)

    async def orphans(self) -> list[str]:
        """Returns the objects of jobs that no longer exist."""
        jobs = {each["metadata"]["name"] for each in await self._all(FOURNOS_JOB)}
        return [
            f"{resource.kind} {each['metadata']['name']}"
            for resource in self.handlers()
            if resource not in (FOURNOS_JOB, LEASE)
            for each in await self._all(resource)
            if self._job_of(each) not in jobs
        ]

    async def _all(self, resource: Resource) -> list[Obj]:
        return (await self._client.list(resource, namespace=NAMESPACE)).items


async def _tried(step: Callable[[], Awaitable[Any]]) -> None:
    """Tries until the API server has carried it out, or answers that it had."""
    while True:
        try:
            await step()
        except (AlreadyExistsError, NotFoundError):
            return
        except KubeError:
            await asyncio.sleep(_AGAIN)
        else:
            return
