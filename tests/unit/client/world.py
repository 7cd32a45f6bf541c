"""An API server in memory with what a client meets: names that it completes, and a count of watches."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.api import Listing, WatchEvent
from fournos.engine.kube.errors import NoSuchResourceError, NotFoundError
from fournos.engine.kube.resource import Key, Obj, Resource
from tests.world.connection import Connection
from tests.world.server import Server

NS = "bench"
SPEC: dict[str, Any] = {
    "cluster": "cluster-1",
    "executionEngine": {"forge": {"project": "llmd"}},
    "hardware": {"gpuType": "a100", "gpuCount": 2},
}


class Api(Connection):
    def __init__(self, server: Server | None = None, **hooks: Callable[[int], None]) -> None:
        super().__init__(server or Server(), **hooks)
        self.calls: Counter[str] = Counter()
        self.open: Counter[Resource] = Counter()
        """Watches that are open now."""
        self.stored: dict[str, bytes] = {}
        """Path → the answer of the history."""
        self.on_watch: Callable[[int], WatchEvent | None] = lambda n: None
        """May raise, or return an event, when the nth watch of all begins."""

    async def raw(self, method: str, path: str, *_: object, **__: object) -> bytes:
        """Answers what `stored` has; without it the API server has no history."""
        self.calls["raw"] += 1
        if not self.stored:
            raise NoSuchResourceError("404 page not found", status=404)
        try:
            return self.stored[path]
        except KeyError:
            raise NotFoundError(f"{path} not found", status=404) from None

    async def raw_stream(self, path: str) -> AsyncGenerator[bytes, None]:
        whole = await self.raw("GET", path)

        async def pieces() -> AsyncGenerator[bytes, None]:
            yield whole

        return pieces()

    async def get(self, resource: Resource, key: Key) -> Obj:
        self.calls[f"get {resource}"] += 1
        return await super().get(resource, key)

    async def list(self, resource: Resource, **options: Any) -> Listing:
        self.calls[f"list {resource}"] += 1
        return await super().list(resource, **options)

    async def create(self, resource: Resource, obj: Obj, *, dry_run: bool = False) -> Obj:
        meta = obj["metadata"]
        if "name" not in meta:
            self.calls["generated"] += 1
            meta = {**meta, "name": f"{meta['generateName']}{self.calls['generated']:05}"}
        return await super().create(resource, {**obj, "metadata": meta}, dry_run=dry_run)

    async def watch(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        selector: str = "",
        fields: str = "",
        resource_version: str,
    ) -> AsyncIterator[WatchEvent]:
        self.calls["watch"] += 1
        if (event := self.on_watch(self.calls["watch"])) is not None:
            yield event
        yield WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": resource_version}})
        self.open[resource] += 1
        try:
            events = super().watch(
                resource,
                namespace=namespace,
                selector=selector,
                fields=fields,
                resource_version=resource_version,
            )
            async for one in events:
                yield one
        finally:
            self.open[resource] -= 1

    # --- the operator's part -------------------------------------------------------------------------

    def set(self, name: str, phase: str, **status: Any) -> None:
        """Write a job's status, as the operator does."""
        body = {"status": {"phase": phase, **status}}
        self.server.patch(FOURNOS_JOB, Key(NS, name), body, subresource="status")

    def job(self, name: str) -> dict[str, Any]:
        return self.server.get(FOURNOS_JOB, Key(NS, name))
