"""A Source that watches: objects of several kinds, kept up to date without further requests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Set
from contextlib import suppress
from typing import Final, Self

from fournos.engine.kube.api import Api, Listing
from fournos.engine.kube.errors import ForbiddenError, KubeError, NoSuchResourceError, NotFoundError
from fournos.engine.kube.reflector import Reflector
from fournos.engine.kube.resource import Key, Obj, Resource, key_of
from fournos.engine.kube.store import Store
from fournos.engine.runtime.controller import matcher
from fournos.insight.source import may

_NAMESPACE: Final = "namespace"
"""The index of the watched objects."""


class ObjectCaches:
    """The watched kinds, as a Source.  Use `async with`: the watches run inside.

    A kind that is not watched, or not installed, raises NoSuchResourceError; one that RBAC forbids raises
    ForbiddenError.  After a broken watch the objects are the last known ones, and
    `watch_error` has the error.
    """

    def __init__(self, api: Api, kinds: Mapping[Resource, str]) -> None:
        """`kinds`: resource → namespace, "" for all namespaces."""
        self._changed = asyncio.Event()
        self._kinds = dict(kinds)
        self._reflectors = {
            resource: Reflector(
                api,
                resource,
                Store(indexes={_NAMESPACE: lambda obj: (key_of(obj).namespace,)}),
                namespace=namespace,
                on_change=lambda *_: self._changed.set(),
                on_state=self._changed.set,
            )
            for resource, namespace in kinds.items()
        }
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(one.run()) for one in self._reflectors.values()]
        try:
            while not all(one.store.synced or one.error for one in self._reflectors.values()):
                await self.change()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def watch_error(self) -> KubeError | None:
        """The error of a watch that is broken for now; None while all kinds that can be read are watched."""
        found = (one.error for one in self._reflectors.values() if one.store.synced)
        return next((error for error in found if error is not None), None)

    def revision(self, kinds: Iterable[Resource]) -> tuple[int, ...]:
        """Returns a value that differs after each change of an object of these kinds."""
        return tuple(one.store.revision for kind in kinds if (one := self._reflectors.get(kind)))

    def namespaces(self, resource: Resource) -> Set[str]:
        """Returns the namespaces with objects of this kind; none if it is not watched."""
        reflector = self._reflectors.get(resource)
        return frozenset(reflector.store.values(_NAMESPACE) if reflector else ())

    async def change(self, *, within: float | None = None) -> None:
        """Waits for the next change, for at most `within` seconds.  Several changes may count as one."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._changed.wait()
        self._changed.clear()

    async def get(self, resource: Resource, key: Key) -> Obj:
        obj = self._readable(resource).get(key)
        if obj is None:
            raise NotFoundError(f'{resource} "{key.name}" not found', status=404)
        return obj

    async def list(
        self, resource: Resource, *, namespace: str = "", selector: str = "", fields: str = ""
    ) -> Listing:
        store, matches = self._readable(resource), matcher(selector)
        assert not fields, "objects are not watched by their fields"
        watched = self._kinds[resource]
        if watched and namespace != watched:
            # As the API server answers where RBAC lets us read one namespace only.
            raise ForbiddenError(f"{resource} is watched in namespace {watched}", status=403)
        objects = store.by(_NAMESPACE, namespace) if namespace else store
        if not selector:
            return Listing(list(objects), "")
        return Listing([one for one in objects if matches(one["metadata"].get("labels") or {})], "")

    def _readable(self, resource: Resource) -> Store:
        reflector = self._reflectors.get(resource)
        if reflector is None or not reflector.store.served:
            raise NoSuchResourceError(f"{resource} is not served or not watched", status=404)
        if reflector.error is not None and not reflector.store.synced:
            raise reflector.error
        return reflector.store


async def scopes(api: Api, kinds: Iterable[Resource], namespace: str) -> dict[Resource, str]:
    """Returns resource → "" where the caller may watch all namespaces, else `namespace`."""

    async def scope(resource: Resource) -> str:
        if not resource.namespaced:
            return ""
        allowed = await asyncio.gather(*(may(api, resource, verb) for verb in ("list", "watch")))
        return "" if all(allowed) else namespace

    wanted = list(kinds)
    return dict(zip(wanted, await asyncio.gather(*map(scope, wanted)), strict=True))
