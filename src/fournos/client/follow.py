"""Watches a job and its dependents, and signals each change."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

from fournos.api.kinds import FOURNOS_JOB
from fournos.client.errors import DeletedError
from fournos.client.watches import LASTING, FollowedObject, Watches
from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.reflector import Reflector
from fournos.engine.kube.resource import Obj, Resource, key_of
from fournos.engine.kube.store import Store
from fournos.insight import children as c


class Follower:
    """The current state of a job and of its dependents, kept up to date by watches.  Use `async with`.

    `resources` are the kinds of dependents to watch, selected by the job's label.
    """

    def __init__(
        self, api: Api, job: Obj, resources: Sequence[Resource] = (), *, watches: Watches | None = None
    ) -> None:
        self._first = job
        self._api = api
        self._watches = watches or Watches(api)
        self._stores = {resource: Store() for resource in resources}
        self._early = c.Children()
        self._stack = AsyncExitStack()
        self._following: FollowedObject

    async def __aenter__(self) -> Follower:
        """Starts the watches.  Raises KubeError if the dependents of the job cannot be read."""
        if self._stores:
            # One list of all kinds before the watches start: `children` is complete from the beginning,
            # in whatever order the caches synchronize.
            self._early = await c.children(self._api, self._first)
        self._following = await self._stack.enter_async_context(
            self._watches.follow(FOURNOS_JOB, self._first)
        )
        tasks = [asyncio.create_task(self._reflector(*one).run()) for one in self._stores.items()]
        self._stack.push_async_callback(_end, tasks)
        return self

    def _reflector(self, resource: Resource, store: Store) -> Reflector:
        return Reflector(
            self._api,
            resource,
            store,
            namespace=key_of(self._first).namespace,
            selector=c.selector(self._first),
            on_change=lambda *_: self._following.wake(),
        )

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def job(self) -> Obj:
        """The job as last seen.

        Raises DeletedError if it was deleted, and KubeError if it can no longer be read (permission removed,
        kind no longer served).
        """
        job = self._following.object
        if job is None:
            raise DeletedError(f"job {key_of(self._first).name} was deleted")
        return job

    @property
    def children(self) -> c.Children:
        """The dependents of the watched kinds."""
        if not all(store.synced or not store.served for store in self._stores.values()):
            return self._early
        return c.sort(self.job, *(self._stores.get(resource, ()) for resource in c.RESOURCES))

    @property
    def watch_error(self) -> KubeError | None:
        """The error of a watch of the job that has been broken for LASTING seconds; None otherwise."""
        return self._following.watch_error

    async def change(self, *, within: float = LASTING) -> None:
        """Waits for the next change of the job or of its dependents, for at most `within` seconds."""
        await self._following.change(within=within)


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
