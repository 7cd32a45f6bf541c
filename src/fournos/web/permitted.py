"""The watched objects as one person may read them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from fournos.insight.source import Source
from fournos.kube.api import Listing
from fournos.kube.errors import ForbiddenError
from fournos.kube.resource import Key, Obj, Resource, key_of

May = Callable[[str, Resource, str], Awaitable[bool]]
"""Called with verb, resource and namespace; "" means all namespaces."""


class Permitted:
    """A Source that checks a right before it looks anything up: a response must not tell what exists."""

    def __init__(self, source: Source, may: May) -> None:
        self._source = source
        self._may = may

    async def get(self, resource: Resource, key: Key) -> Obj:
        if not await self._may("get", resource, key.namespace):
            raise _forbidden("get", resource, key.namespace)
        return await self._source.get(resource, key)

    async def list(self, resource: Resource, *, namespace: str = "", selector: str = "") -> Listing:
        """Without the right in all namespaces, the objects of those namespaces where it is given.

        Raises ForbiddenError if it is given in none that has such objects.
        """
        if await self._may("list", resource, namespace):
            return await self._source.list(resource, namespace=namespace, selector=selector)
        if namespace or not resource.namespaced:
            raise _forbidden("list", resource, namespace)
        found = await self._source.list(resource, selector=selector)
        spaces = sorted({key_of(one).namespace for one in found.items})
        rights = await asyncio.gather(*(self._may("list", resource, one) for one in spaces))
        allowed = {one for one, right in zip(spaces, rights, strict=True) if right}
        if found.items and not allowed:
            raise ForbiddenError(f"you may not list {resource.plural} in any namespace", status=403)
        return Listing([one for one in found.items if key_of(one).namespace in allowed], "")


def _forbidden(verb: str, resource: Resource, namespace: str) -> ForbiddenError:
    where = f"in the namespace {namespace}" if namespace else "in all namespaces"
    return ForbiddenError(f"you may not {verb} {resource.plural} {where}", status=403)
