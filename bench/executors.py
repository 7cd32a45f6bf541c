"""Plays whoever runs the work, at once: the Job controller with the resolver's pod, and Tekton.

And looks on: when each step of each job became visible to a watcher.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from bench.rig import NAMESPACE
from fournos.api.conditions import condition, is_true
from fournos.api.times import format_time
from fournos.jobs import names
from fournos.jobs.kinds import FOURNOS_JOB, PIPELINE_RUN
from fournos.kube.client import Client
from fournos.kube.errors import KubeError
from fournos.kube.kinds import JOB
from fournos.kube.reflector import Reflector
from fournos.kube.resource import Obj, Resource, key_of
from fournos.kube.store import Store
from fournos.queueing.kinds import WORKLOAD

TERMINAL = "terminal"


class Executors:
    """`times[job][event]` in seconds of `time.perf_counter`.

    Events: created, resolving, resolve-job, resolved, pending, workload, quota, admitted, run, ran,
    running, terminal.  Those named after phases are the watch events of the FournosJob.
    """

    def __init__(self, client: Client, *, finish_runs: bool = True) -> None:
        """Without `finish_runs` PipelineRuns stay Running."""
        self.times: dict[str, dict[str, float]] = {}
        self.phases: dict[str, str] = {}
        self._client = client
        self._finish_runs = finish_runs
        self._begun: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended: dict[str, asyncio.Event] = {}
        self._failed: BaseException | None = None
        self._stores = {resource: Store() for resource in (FOURNOS_JOB, WORKLOAD, JOB, PIPELINE_RUN)}

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[Executors]:
        handlers: dict[Resource, Callable[[Obj], None]] = {
            FOURNOS_JOB: self._see_job,
            WORKLOAD: self._see_workload,
            JOB: self._see_resolve_job,
            PIPELINE_RUN: self._see_run,
        }
        watches = [
            asyncio.create_task(self._reflector(resource, handler).run())
            for resource, handler in handlers.items()
        ]
        try:
            while not all(store.synced for store in self._stores.values()):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            yield self
        finally:
            for task in (*watches, *self._tasks):
                task.cancel()
            await asyncio.gather(*watches, *self._tasks, return_exceptions=True)

    async def ended(self, job: str, *, limit: float) -> None:
        """Returns when the job is in a terminal phase.  Raises TimeoutError, and what an executor met."""
        event = self._ended.setdefault(job, asyncio.Event())
        if self.phases.get(job) not in names.TERMINAL:
            async with asyncio.timeout(limit):
                await event.wait()
        if self._failed is not None:
            raise self._failed

    def note(self, job: str, event: str) -> None:
        """Only the first time counts."""
        self.times.setdefault(job, {}).setdefault(event, time.perf_counter())

    # --- what is seen --------------------------------------------------------------------------------

    def _reflector(self, resource: Resource, handler: Callable[[Obj], None]) -> Reflector:
        def changed(_type: str, _old: Obj | None, new: Obj | None) -> None:
            if new is not None:
                handler(new)

        return Reflector(
            self._client, resource, self._stores[resource], namespace=NAMESPACE, on_change=changed
        )

    def _see_job(self, job: Obj) -> None:
        name = job["metadata"]["name"]
        phase = str((job.get("status") or {}).get("phase") or "")
        if not phase:
            return
        self.phases[name] = phase
        if phase in names.TERMINAL:
            self.note(name, TERMINAL)
            self._ended.setdefault(name, asyncio.Event()).set()
        else:
            self.note(name, phase.lower())

    def _see_workload(self, workload: Obj) -> None:
        name = self._job_of(workload)
        self.note(name, "workload")
        if is_true(workload, "Admitted"):
            self.note(name, "quota")

    def _see_resolve_job(self, job: Obj) -> None:
        name = self._job_of(job)
        self.note(name, "resolve-job")
        if not is_true(job, "Complete"):
            self._begin(f"resolve {name}", self._resolve(name, job))

    def _see_run(self, run: Obj) -> None:
        name = self._job_of(run)
        self.note(name, "run")
        if not condition(run, "Succeeded"):
            self._begin(f"run {run['metadata']['name']}", self._run(name, run))

    @staticmethod
    def _job_of(obj: Obj) -> str:
        return str((obj["metadata"].get("labels") or {}).get(names.JOB_NAME_LABEL))

    # --- what is done --------------------------------------------------------------------------------

    def _begin(self, what: str, work: Coroutine[Any, Any, None]) -> None:
        if what in self._begun:
            work.close()
            return
        self._begun.add(what)
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and isinstance(task.exception(), KubeError):
            self._failed = task.exception()
            for event in self._ended.values():
                event.set()  # whoever waits is told at once

    async def _resolve(self, name: str, job: Obj) -> None:
        await self._client.patch(JOB, key_of(job), {"status": completed_job()}, subresource="status")
        self.note(name, "resolved")

    async def _run(self, name: str, run: Obj) -> None:
        status = succeeded_run() if self._finish_runs else started_run()
        await self._client.patch(PIPELINE_RUN, key_of(run), {"status": status}, subresource="status")
        self.note(name, "ran")


def _now() -> str:
    return format_time(datetime.now(UTC))


def completed_job() -> dict[str, Any]:
    now = _now()
    done = {"status": "True", "lastTransitionTime": now, "lastProbeTime": now}
    return {
        "startTime": now,
        "completionTime": now,
        "succeeded": 1,
        "conditions": [{"type": "SuccessCriteriaMet", **done}, {"type": "Complete", **done}],
    }


def succeeded_run() -> dict[str, Any]:
    now = _now()
    message = "Tasks Completed: 1 (Failed: 0, Cancelled 0), Skipped: 0"
    return {
        "startTime": now,
        "completionTime": now,
        "conditions": [_succeeded("True", "Succeeded", message, now)],
    }


def started_run() -> dict[str, Any]:
    now = _now()
    message = "Tasks Completed: 0 (Failed: 0, Cancelled 0), Incomplete: 1, Skipped: 0"
    return {"startTime": now, "conditions": [_succeeded("Unknown", "Running", message, now)]}


def _succeeded(status: str, reason: str, message: str, now: str) -> dict[str, Any]:
    return {
        "type": "Succeeded",
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": now,
    }
