"""A job and what belongs to it, kept fresh by watches, and a signal when something changed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

from fournos.client.errors import DeletedError
from fournos.client.watches import LASTING, Following, Watches
from fournos.insight import children as c
from fournos.jobs.kinds import FOURNOS_JOB
from fournos.kube.api import Api
from fournos.kube.errors import KubeError
from fournos.kube.reflector import Reflector
from fournos.kube.resource import Obj, Resource, key_of
from fournos.kube.store import Store


class Follower:
    """Use `async with`.  `resources` are kinds of children to follow as well, by the job's label."""

    def __init__(
        self, api: Api, job: Obj, resources: Sequence[Resource] = (), *, watches: Watches | None = None
    ) -> None:
        self._first = job
        self._api = api
        self._watches = watches or Watches(api)
        self._stores = {resource: Store() for resource in resources}
        self._early = c.Children()
        self._stack = AsyncExitStack()
        self._following: Following

    async def __aenter__(self) -> Follower:
        """Raises KubeError where what belongs to the job cannot be read."""
        if self._stores:
            # The first picture is complete, whichever cache is filled first.
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
        """As last seen.  Raises DeletedError when it was deleted, KubeError when the way to it is closed."""
        found = self._following.object
        if found is None:
            raise DeletedError(f"job {key_of(self._first).name} was deleted")
        return found

    @property
    def children(self) -> c.Children:
        """Of the kinds that are followed."""
        if not all(store.synced or not store.served for store in self._stores.values()):
            return self._early
        return c.sort(self.job, *(self._stores.get(resource, ()) for resource in c.RESOURCES))

    @property
    def trouble(self) -> KubeError | None:
        """What has stood between us and the job for a while."""
        return self._following.trouble

    async def change(self, *, within: float = LASTING) -> None:
        """Wait for the next change of the job or of what belongs to it, at most so many seconds."""
        await self._following.change(within=within)


async def _end(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
