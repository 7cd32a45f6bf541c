"""Bounded reads from a cluster that is not ours.

Such a cluster must not be able to fill our memory or to deliver data that is not a valid object.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Final, cast

import orjson

from fournos.engine.kube.api import Api, Listing, WatchEvent
from fournos.engine.kube.errors import ConnectionLostError, GoneError, KubeError
from fournos.engine.kube.resource import Key, Obj, Resource, key_of
from fournos.engine.kube.shape import malformed
from fournos.engine.kube.store import Store
from fournos.engine.kube.weight import weight

PAGE: Final = 100
"""Objects per page."""


class TooManyObjectsError(KubeError):
    """There are more objects, or larger ones, than a store may hold; the store keeps its earlier content."""


class MemoryBudget:
    """The memory limit for all stores of one cluster, in bytes."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._spent: dict[Resource, dict[Key, int]] = {}
        self._sums: dict[Resource, int] = {}

    def begin(self, resource: Resource) -> None:
        """Resets the count of a resource type before a new list replaces its objects."""
        self._spent[resource], self._sums[resource] = {}, 0

    def take(self, resource: Resource, obj: Obj) -> bool:
        """Counts an object in place of its earlier version; returns True within the limit."""
        costs, key = self._spent.setdefault(resource, {}), key_of(obj)
        costs[key], before = _cost(obj), costs.get(key, 0)
        self._sums[resource] = self._sums.get(resource, 0) + costs[key] - before
        return sum(self._sums.values()) <= self.most

    def give(self, resource: Resource, key: Key) -> None:
        """Removes a deleted object from the count."""
        self._sums[resource] = self._sums.get(resource, 0) - self._spent.get(resource, {}).pop(key, 0)


def _cost(obj: Obj) -> int:
    try:
        return weight(orjson.dumps(obj))
    except TypeError:
        raise ConnectionLostError(f"{key_of(obj)} is nested too deeply") from None


class Bounded:
    """The reading half of an `Api` for one store, with at most `limit` objects within the memory budget."""

    def __init__(self, api: Api, store: Store, *, limit: int, budget: MemoryBudget) -> None:
        self._api = api
        self._store = store
        self._limit = limit
        self._budget = budget

    async def list(
        self, resource: Resource, *, keep: Callable[[Obj], Obj] | None = None, **options: Any
    ) -> Listing:
        """Returns all objects.

        Raises TooManyObjectsError as soon as `limit` or the budget is exceeded, so no more is ever in memory.
        """
        count = 0
        self._budget.begin(resource)

        def counted(obj: Obj) -> Obj:
            nonlocal count
            count += 1
            if count > self._limit:
                raise TooManyObjectsError(f"more than {self._limit} {resource}")
            _check(resource, obj)
            slim = keep(obj) if keep else obj
            if not self._budget.take(resource, slim):
                raise TooManyObjectsError(self._too_much(resource))
            return slim

        return await self._api.list(resource, keep=counted, page_size=PAGE, **options)

    async def watch(self, resource: Resource, **options: Any) -> AsyncGenerator[WatchEvent, None]:
        """Yields the events.

        Raises GoneError at the first object above a limit; the list that follows shows whether it stays so.
        """
        events = cast(AsyncGenerator[WatchEvent, None], self._api.watch(resource, **options))
        async with aclosing(events):
            async for event in events:
                self._look(resource, event)
                yield event

    def _look(self, resource: Resource, event: WatchEvent) -> None:
        obj = event.object
        if event.type == "ERROR" and isinstance(obj, Mapping):
            return
        if event.type == "BOOKMARK" and isinstance(obj, Mapping):
            meta = obj.get("metadata")
            if isinstance(meta, Mapping) and isinstance(meta.get("resourceVersion"), str):
                return
        if event.type not in ("ADDED", "MODIFIED", "DELETED"):
            raise ConnectionLostError(f"{resource}: an event that no API server sends")
        _check(resource, obj)
        key = key_of(obj)
        if event.type == "DELETED":
            self._budget.give(resource, key)
            return
        if len(self._store) >= self._limit and self._store.get(key) is None:
            raise GoneError(f"more than {self._limit} {resource}")
        if not self._budget.take(resource, self._store.slim(obj)):
            raise GoneError(self._too_much(resource))

    def _too_much(self, resource: Resource) -> str:
        return f"the objects watched there take more than {self._budget.most // 2**20} MiB, with {resource}"


def _check(resource: Resource, obj: Obj) -> None:
    if wrong := malformed(obj):
        raise ConnectionLostError(f"{resource}: the answer is not an API server's: {wrong}")
