"""What the handlers of the API work with: the store, the blobs and the clock."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fournos.history.artifacts.archive import Artifacts
from fournos.history.artifacts.rules import Artifact, Limits
from fournos.history.blobs import Blobs
from fournos.history.records import Document, Identity, Interval, Page, Query
from fournos.history.store import Store
from fournos.history.store.artifacts import ArtifactRows
from fournos.history.store.namespaces import namespaces
from fournos.history.store.retention import erase
from fournos.runtime.clock import Clock


class Backend:
    """The store as the API uses it.  Raises the errors of the store."""

    def __init__(self, store: Store, blobs: Blobs, clock: Clock) -> None:
        self._store = store
        self._blobs = blobs
        self._clock = clock
        self._artifacts = ArtifactRows(store)

    async def find(self, query: Query) -> Page:
        return await self._store.find(query)

    async def waits(self, identity: Identity) -> tuple[Interval, ...]:
        return await self._store.waits(identity)

    async def document(self, identity: Identity, document: Document) -> Any | None:
        return await self._store.document(identity, document)

    async def namespaces(self) -> list[tuple[str, str]]:
        return await namespaces(self._store)

    async def keep(self, identity: Identity, on: bool, *, by: str, reason: str, now: datetime) -> bool:
        return await self._store.keep(identity, on, by=by, reason=reason, now=now)

    async def delete(self, identity: Identity) -> None:
        await erase(self._store, self._blobs, [identity], self._clock.now())

    async def artifacts(self, identity: Identity) -> list[Artifact]:
        return await self._artifacts.artifacts(identity)


class HistoryService:
    """Handed to every handler."""

    def __init__(self, store: Store, blobs: Blobs, *, cluster: str, clock: Clock, limits: Limits) -> None:
        """`cluster`: the identity of the API server in the history; `limits`: of the artifacts of one run."""
        self.store = Backend(store, blobs, clock)
        self.artifacts = Artifacts(ArtifactRows(store), blobs, limits)
        self.cluster = cluster
        self._clock = clock

    def now(self) -> datetime:
        return self._clock.now()
