"""Who runs the work, played on a real API server: the Job controller with the resolver's pod, and Tekton."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from fournos.api.kinds import FOURNOS_JOB, PIPELINE_RUN
from fournos.api.phase import TERMINAL
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.api.values import format_time
from fournos.engine.kube.client import Client
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.reflector import Reflector
from fournos.engine.kube.resource import JOB, Obj, Resource, controller_of, key_of, uid_of
from fournos.engine.kube.store import Store
from fournos.engine.queueing.kinds import WORKLOAD
from tests.waiting import LIMIT

_AGAIN = 0.3
"""Seconds until a move is tried again that an API server in trouble refused."""


class Executors:
    """Ends resolve Jobs and PipelineRuns at once, and writes down all that it ever saw."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.held: set[str] = set()
        """PipelineRuns that stay running until they are taken out of here, or cancelled."""
        self.failing: set[str] = set()
        """PipelineRuns that fail."""
        self.deaf: set[str] = set()
        """PipelineRuns that do not end when cancelled, while they are in here."""
        self.phases: dict[str, list[str]] = {}
        """Job -> its phases, as they came."""
        self.runs: dict[str, str] = {}
        """UID -> name of every PipelineRun that ever was."""
        self.problems: list[str] = []
        """What must never be seen."""
        self._client = client
        self._namespace = namespace
        self._changed = asyncio.Event()
        self._stores = {resource: Store() for resource in (FOURNOS_JOB, WORKLOAD, JOB, PIPELINE_RUN)}
        self._seen: dict[Resource, Callable[[Obj], None]] = {
            FOURNOS_JOB: self._see_job,
            PIPELINE_RUN: self._see_run,
        }

    @asynccontextmanager
    async def working(self) -> AsyncIterator[Executors]:
        tasks = [asyncio.create_task(self._reflector(resource).run()) for resource in self._stores]
        tasks.append(asyncio.create_task(self._work()))
        try:
            async with asyncio.timeout(LIMIT):
                while not all(store.synced for store in self._stores.values()):  # noqa: ASYNC110 - rare
                    await asyncio.sleep(0.02)
            yield self
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def all(self, resource: Resource) -> list[Obj]:
        return list(self._stores[resource])

    def find(self, resource: Resource, name: str) -> Obj | None:
        return next((obj for obj in self._stores[resource] if obj["metadata"]["name"] == name), None)

    def finish(self, *runs: str) -> None:
        """Held runs end now."""
        self.held.difference_update(runs)
        self.deaf.difference_update(runs)
        self._changed.set()

    # --- what is seen --------------------------------------------------------------------------------

    def _reflector(self, resource: Resource) -> Reflector:
        def changed(_type: str, _old: Obj | None, new: Obj | None) -> None:
            if new is not None and resource in self._seen:
                self._seen[resource](new)
            self._changed.set()

        store = self._stores[resource]
        return Reflector(self._client, resource, store, namespace=self._namespace, on_change=changed)

    def _see_job(self, job: Obj) -> None:
        phase = str((job.get("status") or {}).get("phase") or "")
        seen = self.phases.setdefault(job["metadata"]["name"], [])
        if not seen or seen[-1] != phase:
            if seen and seen[-1] in TERMINAL:
                self.problems.append(f"{job['metadata']['name']}: {seen[-1]} became {phase}")
            seen.append(phase)

    def _see_run(self, run: Obj) -> None:
        self.runs[uid_of(run)] = run["metadata"]["name"]
        owner = controller_of(run)
        live = [
            other["metadata"]["name"]
            for other in self._stores[PIPELINE_RUN]
            if owner and not over(other) and (controller_of(other) or {}).get("uid") == owner["uid"]
        ]
        if len(live) > 1:
            self.problems.append(f"live at the same time: {', '.join(live)}")

    # --- what is done --------------------------------------------------------------------------------

    async def _work(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                for job in self._stores[JOB]:
                    if controller_of(job) and not is_true(job, "Complete"):
                        await self._status(JOB, job, completed_job())
                for run in self._stores[PIPELINE_RUN]:
                    status = self._move(run)
                    if status is not None:
                        await self._status(PIPELINE_RUN, run, status)
            except KubeError:  # gone meanwhile, or the API server is in trouble
                await asyncio.sleep(_AGAIN)
                self._changed.set()

    async def _status(self, resource: Resource, obj: Obj, status: Obj) -> None:
        body = {"metadata": {"uid": uid_of(obj)}, "status": status}
        stored = await self._client.patch(resource, key_of(obj), body, subresource="status")
        self._stores[resource].assume(stored)

    def _move(self, run: Obj) -> Obj | None:
        """The next status of a run that one of our jobs owns."""
        name = run["metadata"]["name"]
        if over(run) or controller_of(run) is None:
            return None
        if (run.get("spec") or {}).get("status") and name not in self.deaf:
            return ended_run("False", "Cancelled", f'PipelineRun "{name}" was cancelled')
        if name in self.held or name in self.deaf:
            return None if condition(run, "Succeeded") else started_run()
        if name in self.failing:
            return ended_run("False", "Failed", "Tasks Completed: 1 (Failed: 1, Cancelled 0), Skipped: 0")
        return ended_run("True", "Succeeded", "Tasks Completed: 1 (Failed: 0, Cancelled 0), Skipped: 0")


def over(run: Obj) -> bool:
    return bool((run.get("status") or {}).get("completionTime"))


def completed_job() -> dict[str, Any]:
    now = _now()
    done = {"status": "True", "lastTransitionTime": now, "lastProbeTime": now}
    return {
        "startTime": now,
        "completionTime": now,
        "succeeded": 1,
        "conditions": [{"type": "SuccessCriteriaMet", **done}, {"type": "Complete", **done}],
    }


def started_run() -> dict[str, Any]:
    message = "Tasks Completed: 0 (Failed: 0, Cancelled 0), Incomplete: 1, Skipped: 0"
    return {"startTime": _now(), "conditions": [_succeeded("Unknown", "Running", message)]}


def ended_run(status: str, reason: str, message: str) -> dict[str, Any]:
    now = _now()
    return {"startTime": now, "completionTime": now, "conditions": [_succeeded(status, reason, message)]}


def _succeeded(status: str, reason: str, message: str) -> dict[str, Any]:
    return {
        "type": "Succeeded",
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": _now(),
    }


def _now() -> str:
    return format_time(datetime.now(UTC))
