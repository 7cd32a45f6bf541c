"""Reading of a cluster that is not ours: it must not be able to fill our memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, cast

from fournos.kube.api import Api, Listing, WatchEvent
from fournos.kube.errors import GoneError, KubeError
from fournos.kube.resource import Obj, Resource, key_of
from fournos.kube.store import Store


class TooManyObjectsError(KubeError):
    """More objects than a store may hold; what it held before stays."""


class Bounded:
    """The reading half of an `Api` for one store, which gets `limit` objects at most."""

    def __init__(self, api: Api, store: Store, *, limit: int) -> None:
        self._api = api
        self._store = store
        self._limit = limit

    async def list(
        self, resource: Resource, *, keep: Callable[[Obj], Obj] | None = None, **options: Any
    ) -> Listing:
        """Raises TooManyObjectsError while no more than `limit` objects are in hand."""
        count = 0

        def counted(obj: Obj) -> Obj:
            nonlocal count
            count += 1
            if count > self._limit:
                raise TooManyObjectsError(f"more than {self._limit} {resource}")
            return keep(obj) if keep else obj

        return await self._api.list(resource, keep=counted, **options)

    async def watch(self, resource: Resource, **options: Any) -> AsyncGenerator[WatchEvent, None]:
        """Raises GoneError at the first object too many: the list that follows tells whether it stays so."""
        events = cast(AsyncGenerator[WatchEvent, None], self._api.watch(resource, **options))
        async with aclosing(events):
            async for event in events:
                full = len(self._store) >= self._limit
                if full and event.type == "ADDED" and self._store.get(key_of(event.object)) is None:
                    raise GoneError(f"more than {self._limit} {resource}")
                yield event
