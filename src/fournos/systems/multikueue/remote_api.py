"""The API client of a worker, with validated answers: another cluster may return anything."""

from __future__ import annotations

from typing import cast

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import ConnectionLostError
from fournos.engine.kube.probe import ClusterApi
from fournos.engine.kube.resource import Key, Obj, Resource, key_of
from fournos.engine.kube.shape import checked
from fournos.systems.multikueue import names


class RemoteApi:
    """The part of `Api` that steps use.

    An answer that is not the requested object raises ConnectionLostError, so that the step is retried.
    """

    def __init__(self, api: ClusterApi) -> None:
        self._api = api

    async def get(self, resource: Resource, key: Key) -> Obj:
        return checked(await self._api.get(resource, key), key)

    async def create(self, resource: Resource, obj: Obj, *, dry_run: bool = False) -> Obj:
        made = checked(await self._api.create(resource, obj, dry_run=dry_run), key_of(obj))
        if _origin(made) != _origin(obj):
            raise ConnectionLostError(f"the answer for {resource} {key_of(obj)} lacks {names.ORIGIN_LABEL}")
        return made

    async def patch(self, resource: Resource, key: Key, body: Obj, *, subresource: str | None = None) -> Obj:
        return checked(await self._api.patch(resource, key, body, subresource=subresource), key)

    async def delete(
        self,
        resource: Resource,
        key: Key,
        *,
        uid: str | None = None,
        propagation: str = "Background",
        grace_seconds: int | None = None,
    ) -> None:
        await self._api.delete(resource, key, uid=uid, propagation=propagation, grace_seconds=grace_seconds)


def remote_api(api: ClusterApi) -> Api:
    """Returns the worker's API as an `Api`, for the executor of steps."""
    return cast(Api, RemoteApi(api))


def _origin(obj: Obj) -> object:
    return (obj["metadata"].get("labels") or {}).get(names.ORIGIN_LABEL)
