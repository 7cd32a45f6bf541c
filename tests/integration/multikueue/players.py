"""What a kind's controllers do on the manager and on the workers, played against real API servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any

from fournos.engine.api.conditions import is_true
from fournos.engine.kube.errors import AlreadyExistsError, ConflictError, NotFoundError, TransientError
from fournos.engine.kube.resource import Key, Obj, Resource, controller_of, is_terminating, key_of, uid_of
from fournos.engine.queueing.ensure import prebuilt_name
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.report import finish_patch, release_quota
from fournos.engine.queueing.workload import generic_name
from fournos.systems.multikueue import names
from tests.integration.multikueue.fleet import Fleet, Site

ROUND = 0.05


def workload_name(kind: Resource, job: Obj) -> str:
    return generic_name(kind=kind.kind, group=kind.group, name=job["metadata"]["name"], uid=uid_of(job))


class Players:
    """Plays a round every 50 ms; `ends` has the jobs that succeed as soon as they run."""

    def __init__(self, fleet: Fleet, kinds: Iterable[Resource]) -> None:
        self.fleet = fleet
        self.kinds = tuple(kinds)
        self.ends: set[str] = set()
        self.deaf: set[str] = set()
        """Workers on which nobody is at work."""

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        """A player that fails ends the test at once, with its reason."""
        sites = {"": self.fleet.manager, **self.fleet.workers}
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._always(name, site)) for name, site in sites.items()]
            yield
            for task in tasks:
                task.cancel()

    async def _always(self, name: str, site: Site) -> None:
        while True:
            with suppress(TransientError, NotFoundError):  # a cluster may be away for a while
                if name not in self.deaf:
                    await (self._worker(site) if name else self._manager(site))
            await asyncio.sleep(ROUND)

    async def _manager(self, site: Site) -> None:
        workloads = {one["metadata"]["name"]: one for one in await site.all(WORKLOAD)}
        work = [
            self._queue(site, kind, job, workloads.get(workload_name(kind, job)))
            for kind in self.kinds
            for job in await site.all(kind)
            if job["spec"].get("managedBy") == names.MULTIKUEUE and not is_terminating(job)
        ]
        await asyncio.gather(*work)

    async def _queue(self, site: Site, kind: Resource, job: Obj, workload: Obj | None) -> None:
        with suppress(ConflictError, NotFoundError, AlreadyExistsError):
            if workload is None:
                await site.client.create(WORKLOAD, workload_of(kind, job))
            elif is_true(workload, "Evicted") and is_true(workload, "QuotaReserved"):
                patch = release_quota(workload, datetime.now(UTC))
                await site.client.patch(WORKLOAD, patch.key, patch.body, subresource="status")

    async def _worker(self, site: Site) -> None:
        workloads = {one["metadata"]["name"]: one for one in await site.all(WORKLOAD)}
        work = []
        for kind in self.kinds:
            for job in await site.all(kind):
                workload = workloads.get(prebuilt_name(job))
                if workload is not None and not is_terminating(job) and not is_true(workload, "Finished"):
                    work.append(self._play(site, kind, job, workload))
        await asyncio.gather(*work)

    async def _play(self, site: Site, kind: Resource, job: Obj, workload: Obj) -> None:
        with suppress(ConflictError, NotFoundError, AlreadyExistsError):
            await self._play_once(site, kind, job, workload)

    async def _play_once(self, site: Site, kind: Resource, job: Obj, workload: Obj) -> None:
        name, phase = job["metadata"]["name"], (job.get("status") or {}).get("phase")
        key = key_of(workload)
        if controller_of(workload) is None:
            owner = {"apiVersion": kind.api_version, "kind": kind.kind, "name": name, "uid": uid_of(job)}
            body = {"metadata": {"ownerReferences": [{**owner, "controller": True}]}}
            await site.client.patch(WORKLOAD, key, body)
        elif is_true(workload, "Evicted"):
            if phase == "Running":
                await report_status(site, kind, name, phase="Stopped")
            elif is_true(workload, "QuotaReserved"):
                patch = release_quota(workload, datetime.now(UTC))
                await site.client.patch(WORKLOAD, patch.key, patch.body, subresource="status")
        elif is_true(workload, "Admitted") and phase in (None, "Stopped"):
            await report_status(site, kind, name, phase="Running", where=site.name)
        elif phase == "Running" and name in self.ends:
            await report_status(site, kind, name, phase="Succeeded")
        elif phase == "Succeeded":
            done = finish_patch(workload, "Succeeded", "all done", datetime.now(UTC))
            await site.client.patch(WORKLOAD, key, done.body, subresource="status")


async def report_status(site: Site, kind: Resource, name: str, **status: Any) -> None:
    await site.client.patch(kind, Key(site.namespace, name), {"status": status}, subresource="status")


def workload_of(kind: Resource, job: Obj) -> dict[str, Any]:
    meta = job["metadata"]
    owner = {"apiVersion": kind.api_version, "kind": kind.kind, "name": meta["name"], "uid": uid_of(job)}
    container = {
        "name": "c",
        "image": "none",
        "resources": {"requests": {"cpu": job["spec"].get("cpu", "1")}},
    }
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    return {
        "apiVersion": WORKLOAD.api_version,
        "kind": "Workload",
        "metadata": {
            "name": workload_name(kind, job),
            "namespace": meta["namespace"],
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {
            "queueName": "q",
            "podSets": [{"name": "main", "count": 1, "template": template}],
            "priority": 0,
        },
    }


def foo(name: str, **spec: Any) -> dict[str, Any]:
    meta = {"name": name, "labels": {"kueue.x-k8s.io/queue-name": "q"}}
    return {
        "apiVersion": "example.com/v1",
        "kind": "Foo",
        "metadata": meta,
        "spec": {"managedBy": names.MULTIKUEUE, "suspend": True, **spec},
    }
