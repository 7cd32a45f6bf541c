"""Watches on a job and what belongs to it: caches that stay fresh, and a signal when something changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing, suppress
from typing import Any, Final, cast

from fournos.insight import children as c
from fournos.insight.errors import MissingError
from fournos.jobs.kinds import FOURNOS_JOB
from fournos.kube.api import Api, Listing, WatchEvent
from fournos.kube.errors import ForbiddenError, KubeError, NoSuchResourceError, NotFoundError
from fournos.kube.reflector import Reflector
from fournos.kube.resource import Key, Obj, Resource, key_of, uid_of
from fournos.kube.store import Store

LASTING: Final = 5.0
"""Seconds after which a broken watch is told."""
_NOTHING: Final = "fournos.dev/no-such-label"


class _One:
    """The part of an Api that a reflector uses, for a single object of a namespace with many."""

    def __init__(self, api: Api, key: Key) -> None:
        self._api = api
        self._key = key

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        selector: str = "",
        page_size: int = 500,
        keep: Callable[[Obj], Obj] | None = None,
    ) -> Listing:
        """The version comes from a list that selects nothing, so that it costs the same with 10,000 jobs."""
        version = (await self._api.list(resource, namespace=namespace, selector=_NOTHING)).resource_version
        try:
            found = await self._api.get(resource, self._key)
        except NotFoundError:
            return Listing([], version)
        return Listing([keep(found) if keep else found], version)

    async def watch(self, resource: Resource, **options: Any) -> AsyncIterator[WatchEvent]:
        async with aclosing(cast(Any, self._api.watch(resource, **options))) as events:
            async for event in events:
                if event.type in ("BOOKMARK", "ERROR") or key_of(event.object) == self._key:
                    yield event


class Follower:
    """Use `async with`.  `resources` are kinds of children to follow as well, by the job's label."""

    def __init__(self, api: Api, job: Obj, resources: Sequence[Resource] = ()) -> None:
        self._first = job
        self._key = key_of(job)
        self._changed = asyncio.Event()
        self._stores: dict[Resource, Store] = {}
        self._reflectors: list[Reflector] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._cut_at: float | None = None
        """When we saw first that the watch on the job is broken."""
        self._api = api
        self._early = c.Children()
        self._one = _One(api, self._key)
        self._add(cast(Api, self._one), FOURNOS_JOB, "")
        for resource in resources:
            self._add(api, resource, c.selector(job))

    def _add(self, api: Api, resource: Resource, selector: str) -> None:
        store = Store()
        self._stores[resource] = store
        self._reflectors.append(
            Reflector(
                api,
                resource,
                store,
                namespace=self._key.namespace,
                selector=selector,
                on_change=lambda *_: self._changed.set(),
            )
        )

    async def __aenter__(self) -> Follower:
        """Raises KubeError where there is no way to the job."""
        await self._one.list(FOURNOS_JOB, namespace=self._key.namespace)
        if len(self._stores) > 1:
            # The first picture is complete, whichever cache is filled first.
            self._early = await c.children(self._api, self._first)
        self._tasks = [asyncio.create_task(reflector.run()) for reflector in self._reflectors]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def job(self) -> Obj:
        """As last seen.  Raises MissingError when it was deleted, KubeError when the way to it is closed."""
        store = self._stores[FOURNOS_JOB]
        error = self._reflectors[0].error
        if isinstance(error, ForbiddenError | NoSuchResourceError):
            raise error
        if not store.synced:
            return self._first
        found = store.get(self._key)
        if found is None or uid_of(found) != uid_of(self._first):
            raise MissingError(f"job {self._key.name} was deleted")
        return found

    @property
    def children(self) -> c.Children:
        """Of the kinds that are followed."""
        followed = [store for resource, store in self._stores.items() if resource is not FOURNOS_JOB]
        if not all(store.synced or not store.served for store in followed):
            return self._early
        return c.sort(self.job, *(self._stores.get(resource, ()) for resource in c.RESOURCES))

    @property
    def trouble(self) -> KubeError | None:
        """What has stood between us and the job for a while: watches that are renewed are no news."""
        lasting = self._cut_at is not None and self._now() - self._cut_at >= LASTING
        return self._reflectors[0].error if lasting else None

    async def change(self, *, within: float = LASTING) -> None:
        """Wait for the next change, at most so many seconds; several at once count as one.

        The limit is for looking at `trouble`, which is no change; nothing is asked of the API server.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._changed.wait()
        self._changed.clear()
        if self._reflectors[0].error is None:
            self._cut_at = None
        elif self._cut_at is None:
            self._cut_at = self._now()

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
