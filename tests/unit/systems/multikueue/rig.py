"""The client of one worker whose API server hangs or fails on demand, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from typing import Any

from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.resource import Key, Obj, Resource
from fournos.systems.multikueue import names
from fournos.systems.multikueue.remote import RemoteFailure, RemoteStep, Send
from fournos.systems.multikueue.remote_clients import RemoteClients
from tests.fakes.clusters import FakeCluster, FakeClusters, kubeconfig
from tests.unit.engine.runtime.loop import LoopClock
from tests.unit.systems.multikueue.workers import SETTINGS
from tests.world.connection import Connection
from tests.world.server import Server

NS = "jobs"


PASS: ContextVar[str] = ContextVar("test_pass")
A, B = Key(NS, "a"), Key(NS, "b")
MANAGER: Any = None
"""Steps for workers never go there."""


class Remote(Connection):
    """A worker's API that hangs, or fails so many times."""

    def __init__(self, cluster: FakeCluster) -> None:
        super().__init__(Server())
        self.cluster = cluster
        self.hangs = False
        self.fails: list[KubeError] = []
        self.gate = self._gate

    async def _gate(self) -> None:
        if self.hangs:
            await asyncio.Event().wait()
        if self.fails:
            raise self.fails.pop(0)

    async def create(self, resource: Resource, obj: Obj, *, dry_run: bool = False) -> Obj:
        await self.gate()
        return await super().create(resource, obj)

    async def patch(self, resource: Resource, key: Key, body: Obj, *, subresource: str | None = None) -> Obj:
        await self.gate()
        return await super().patch(resource, key, body, subresource=subresource)

    async def delete(self, resource: Resource, key: Key, **options: Any) -> None:
        await self.gate()
        await super().delete(resource, key, uid=options.get("uid"))

    async def server_version(self) -> str:
        await self.cluster.answer("version")
        return self.cluster.version

    async def close(self) -> None: ...


class Rig:
    def __init__(self) -> None:
        self.woken: list[Key] = []
        self.changed: list[str] = []
        self.remotes: dict[str, Remote] = {}
        self.clusters = FakeClusters()
        self.workers = RemoteClients(
            SETTINGS,
            wake=self.woken.append,
            changed=self.changed.append,
            clock=LoopClock(),
            dial=self._dial,
            jitter=lambda: 1.0,
        )

    def _dial(self, name: str, credentials: Any, *, timeout: float) -> Any:
        return self.remotes.setdefault(name, Remote(self.clusters.add(credentials.server)))

    def connect(self, name: str) -> Remote:
        self.workers.connect(name, kubeconfig(f"https://{name}.example.com"), version="1")
        return self.remotes[name]

    async def send(self, worker: str, key: Key, step: RemoteStep) -> None:
        await self.workers.send(Send(worker, key, step), MANAGER)

    async def sent(self, worker: str, key: Key, step: RemoteStep) -> RemoteFailure | None:
        """Sends the step, and returns how it failed."""
        await self.send(worker, key, step)
        await asyncio.sleep(0.01)
        return self.workers.failure(worker, key)

    def in_store(self, worker: str, resource: Resource, key: Key) -> Obj | None:
        store = self.workers.store(worker, resource)
        assert store is not None
        return store.get(key)


@asynccontextmanager
async def rig() -> AsyncIterator[Rig]:
    found = Rig()
    task = asyncio.create_task(found.workers.run())
    await asyncio.sleep(0)
    try:
        yield found
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Rig, Remote]]:
    async with rig() as found:
        yield found, found.connect("w1")


def body(name: str, *, attempt: str = "1", origin: str = "fournos", worker: str = "w1") -> Obj:
    meta = {
        "name": name,
        "namespace": NS,
        "labels": {names.ORIGIN_LABEL: origin},
        "annotations": {names.ATTEMPT: attempt, names.WORKER: worker},
    }
    return {"metadata": meta, "spec": {"active": True}}
