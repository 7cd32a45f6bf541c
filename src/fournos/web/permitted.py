"""The watched objects as one person may read them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from fournos.engine.kube.api import Listing
from fournos.engine.kube.errors import ForbiddenError
from fournos.engine.kube.resource import Key, Obj, Resource
from fournos.insight.snapshots import namespaces, within
from fournos.insight.source import Source
from fournos.web.viewer import allowed_in

May = Callable[[str, Resource, str], Awaitable[bool]]
"""Called with verb, resource and namespace; "" means all namespaces."""


class Permitted:
    """A Source that checks a right before it looks anything up: no response may show what exists."""

    def __init__(self, source: Source, may: May, spaces: Callable[[], Iterable[str]]) -> None:
        """`spaces` returns the namespaces that have watched objects of any kind."""
        self._source = source
        self._may = may
        self._spaces = spaces

    async def get(self, resource: Resource, key: Key) -> Obj:
        if not await self._may("get", resource, key.namespace):
            raise _forbidden("get", resource, key.namespace)
        return await self._source.get(resource, key)

    async def list(self, resource: Resource, *, namespace: str = "", selector: str = "") -> Listing:
        """Without the right in all namespaces, the objects of those namespaces where it is given.

        Raises ForbiddenError if it is given in none: where it is given, there may be no such objects yet.
        """
        if await self._may("list", resource, namespace):
            return await self._source.list(resource, namespace=namespace, selector=selector)
        if namespace or not resource.namespaced:
            raise _forbidden("list", resource, namespace)
        listing = await self._source.list(resource, selector=selector)
        spaces = namespaces(listing.items)
        allowed = await self._where(resource, spaces)
        if listing.items and not allowed and not await self._where(resource, {*self._spaces()} - spaces):
            raise ForbiddenError(f"you may not list {resource.plural} in any namespace", status=403)
        return Listing(within(listing.items, allowed), "")

    async def _where(self, resource: Resource, spaces: Iterable[str]) -> frozenset[str]:
        return frozenset(await allowed_in(partial(self._may, "list", resource), spaces))


def _forbidden(verb: str, resource: Resource, namespace: str) -> ForbiddenError:
    where = f"in the namespace {namespace}" if namespace else "in all namespaces"
    return ForbiddenError(f"you may not {verb} {resource.plural} {where}", status=403)
