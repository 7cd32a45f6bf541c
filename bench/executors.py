"""Simulates the Job controller with the resolver's pod, and Tekton, without delay.

It also records the time at which each step of each job becomes visible to a watch.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Self

from bench.machine import until
from bench.rig import NAMESPACE
from fournos.api import phase as phases
from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.api.values import format_time
from fournos.engine.kube.client import Client
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.reflector import Reflector
from fournos.engine.kube.resource import JOB, Obj, Resource, key_of
from fournos.engine.kube.store import Store
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.systems.jobs import names

TERMINAL = "terminal"


class Onlooker:
    """Watches a namespace and records `times[name][event]`, in `time.perf_counter` seconds.

    `name` is that of the measured object.  A subclass records events with `note`, and simulates an executor
    with `begin`.
    """

    def __init__(self, client: Client, terminal: Collection[str], *, namespace: str = NAMESPACE) -> None:
        self.times: dict[str, dict[str, float]] = {}
        self.phases: dict[str, str] = {}
        self._client = client
        self._terminal = terminal
        self._namespace = namespace
        self._begun: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended: dict[str, asyncio.Event] = {}
        self._failed: BaseException | None = None

    def handlers(self) -> dict[Resource, Callable[[Obj], None]]:
        """Returns the watched resources and the handler that is called with each object."""
        raise NotImplementedError

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[Self]:
        stores = {resource: Store() for resource in self.handlers()}
        watches = [
            asyncio.create_task(self._reflector(resource, stores[resource], handler).run())
            for resource, handler in self.handlers().items()
        ]
        try:
            await until(lambda: all(store.synced for store in stores.values()), every=0.01)
            yield self
        finally:
            for task in (*watches, *self._tasks):
                task.cancel()
            await asyncio.gather(*watches, *self._tasks, return_exceptions=True)

    async def ended(self, name: str, *, limit: float) -> None:
        """Waits until the object is in a terminal phase.

        Raises TimeoutError after `limit` seconds, and the KubeError of a simulated executor.
        """
        event = self._ended.setdefault(name, asyncio.Event())
        if self.phases.get(name) not in self._terminal:
            async with asyncio.timeout(limit):
                await event.wait()
        if self._failed is not None:
            raise self._failed

    def note(self, name: str, event: str) -> None:
        """Records the current time for the event.  Only the first occurrence counts."""
        self.times.setdefault(name, {}).setdefault(event, time.perf_counter())

    def see_phase(self, obj: Obj) -> None:
        name = obj["metadata"]["name"]
        phase = str((obj.get("status") or {}).get("phase") or "")
        if not phase:
            return
        self.phases[name] = phase
        if phase in self._terminal:
            self.note(name, TERMINAL)
            self._ended.setdefault(name, asyncio.Event()).set()
        else:
            self.note(name, phase.lower())

    def begin(self, what: str, work: Coroutine[Any, Any, None]) -> None:
        """Starts the work once for each `what`; later calls are ignored."""
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
                event.set()  # wakes all waiting callers, which raise the error

    def _reflector(self, resource: Resource, store: Store, handler: Callable[[Obj], None]) -> Reflector:
        def changed(_type: str, _old: Obj | None, new: Obj | None) -> None:
            if new is not None:
                handler(new)

        return Reflector(self._client, resource, store, namespace=self._namespace, on_change=changed)


class Executors(Onlooker):
    """The executors of FournosJobs.

    Events: created, resolving, resolve-job, resolved, pending, workload, quota, admitted, run, ran, running,
    terminal.  The events named after phases are the watch events of the FournosJob.
    """

    def __init__(self, client: Client, *, finish_runs: bool = True) -> None:
        """`finish_runs` False leaves PipelineRuns Running."""
        super().__init__(client, phases.TERMINAL)
        self._finish_runs = finish_runs

    def handlers(self) -> dict[Resource, Callable[[Obj], None]]:
        return {
            FOURNOS_JOB: self.see_phase,
            WORKLOAD: self._see_workload,
            JOB: self._see_resolve_job,
            PIPELINE_RUN: self._see_run,
        }

    def _see_workload(self, workload: Obj) -> None:
        name = self._job_of(workload)
        self.note(name, "workload")
        if is_true(workload, "Admitted"):
            self.note(name, "quota")

    def _see_resolve_job(self, job: Obj) -> None:
        name = self._job_of(job)
        self.note(name, "resolve-job")
        if not is_true(job, "Complete"):
            self.begin(f"resolve {name}", self._resolve(name, job))

    def _see_run(self, run: Obj) -> None:
        name = self._job_of(run)
        self.note(name, "run")
        if not condition(run, "Succeeded"):
            self.begin(f"run {run['metadata']['name']}", self._run(name, run))

    @staticmethod
    def _job_of(obj: Obj) -> str:
        return str((obj["metadata"].get("labels") or {}).get(names.JOB_NAME_LABEL))

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
    condition = _succeeded("True", "Succeeded", message, now)
    return {"startTime": now, "completionTime": now, "conditions": [condition]}


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
