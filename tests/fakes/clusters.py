"""Clusters in memory, reached as a fleet reaches clusters."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from typing import Any

import yaml

from fournos.engine.kube.api import EventType, Listing, WatchEvent
from fournos.engine.kube.credentials import Credentials
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.probe import ClusterApi
from fournos.engine.kube.resource import Key, Obj, Resource
from tests.fakes.pki import Authority, Pair

AUTHORITY = Authority("clusters")


def kubeconfig(server: str, *, token: str = "t", certificate: Pair | None = None) -> bytes:
    user: dict[str, Any] = {"token": token}
    if certificate is not None:
        user = {
            "client-certificate-data": base64.b64encode(certificate.certificate).decode(),
            "client-key-data": base64.b64encode(certificate.key).decode(),
        }
    ca = base64.b64encode(AUTHORITY.certificate).decode()
    content = {
        "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority-data": ca}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    return yaml.safe_dump(content).encode()


class FakeCluster:
    """Lists and watches objects of any resource type; fails on demand."""

    def __init__(self) -> None:
        self.version = "v1.34.4"
        self.latency = 0.0
        self.failure: KubeError | None = None
        """What every request gets; the watches of that time end with it."""
        self.silent = False
        """Packets are dropped: requests hang, watches say nothing."""
        self.refused: dict[Resource, KubeError] = {}
        """Lists that fail while all else is well."""
        self.calls: list[tuple[float, str]] = []
        self.close_takes = 0.0
        self.open = 0
        """Connections that nobody closed yet."""
        self._objects: dict[Key, Obj] = {}
        self._revision = 100
        self._watches: list[asyncio.Queue[WatchEvent | KubeError]] = []

    def put(self, name: str, **content: Any) -> None:
        key = Key("", name)
        self._revision += 1
        kind: EventType = "MODIFIED" if key in self._objects else "ADDED"
        self._objects[key] = {
            "metadata": {"name": name, "uid": name, "resourceVersion": str(self._revision)},
            **content,
        }
        self._emit(kind, self._objects[key])

    def remove(self, name: str) -> None:
        self._revision += 1
        gone = self._objects.pop(Key("", name))
        metadata = {**gone["metadata"], "resourceVersion": str(self._revision)}
        self._emit("DELETED", {**gone, "metadata": metadata})

    def fail(self, failure: KubeError) -> None:
        self.failure = failure
        for watch in self._watches:
            watch.put_nowait(failure)

    def times_of(self, what: str) -> list[float]:
        return [at for at, call in self.calls if call == what]

    @property
    def watching(self) -> int:
        """Watches that are open."""
        return len(self._watches)

    def _emit(self, kind: EventType, obj: Obj) -> None:
        if not self.silent:
            for watch in self._watches:
                watch.put_nowait(WatchEvent(kind, obj))

    def _bookmark(self) -> WatchEvent:
        return WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": str(self._revision)}})

    # --- what a fleet calls --------------------------------------------------------------------------

    async def answer(self, what: str) -> None:
        self.calls.append((asyncio.get_running_loop().time(), what))
        if self.silent:
            await asyncio.Event().wait()
        if self.latency:
            await asyncio.sleep(self.latency)
        if self.failure is not None:
            raise self.failure

    async def list_of(self, resource: Resource, keep: Callable[[Obj], Obj] | None) -> Listing:
        await self.answer(f"list {resource}")
        if resource in self.refused:
            raise self.refused[resource]
        items = [keep(obj) if keep else obj for obj in self._objects.values()]
        return Listing(items, str(self._revision))

    async def watch_of(self, resource: Resource) -> AsyncIterator[WatchEvent]:
        await self.answer(f"watch {resource}")
        events: asyncio.Queue[WatchEvent | KubeError] = asyncio.Queue()
        self._watches.append(events)
        try:
            yield self._bookmark()
            while True:
                try:
                    async with asyncio.timeout(60):
                        event = await events.get()
                except TimeoutError:
                    if not self.silent:
                        yield self._bookmark()
                    continue
                if isinstance(event, KubeError):
                    raise event
                yield event
        finally:
            self._watches.remove(events)


class _Connection:
    def __init__(self, cluster: FakeCluster) -> None:
        self.cluster = cluster
        self.closed = False
        cluster.open += 1

    async def server_version(self) -> str:
        await self.cluster.answer("version")
        return self.cluster.version

    async def list(
        self, resource: Resource, *, keep: Callable[[Obj], Obj] | None = None, **_: Any
    ) -> Listing:
        return await self.cluster.list_of(resource, keep)

    def watch(self, resource: Resource, **_: Any) -> AsyncIterator[WatchEvent]:
        return self.cluster.watch_of(resource)

    async def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.cluster.open -= 1
            await asyncio.sleep(self.cluster.close_takes)


class FakeClusters:
    """All clusters there are, by server; pass `dial` to a fleet."""

    def __init__(self) -> None:
        self.by_server: dict[str, FakeCluster] = {}
        self.dialled: list[tuple[str, float]] = []

    def add(self, server: str) -> FakeCluster:
        return self.by_server.setdefault(server, FakeCluster())

    def dial(self, name: str, credentials: Credentials, *, timeout: float) -> ClusterApi:
        self.dialled.append((name, timeout))
        connection: Any = _Connection(self.by_server[credentials.server])
        return connection  # type: ignore[no-any-return]
