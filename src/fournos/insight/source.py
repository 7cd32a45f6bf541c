"""The read-only interface through which insight reads objects."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Final, Protocol, TypeVar

from fournos.engine.kube.api import Listing
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.resource import Key, Obj, Resource

DEFAULT_QUEUE: Final = "fournos-queue"
"""The LocalQueue of jobs, unless the operator is configured otherwise."""


T = TypeVar("T")


class Source(Protocol):
    """The read methods of an Api, served by live requests or by informer caches.

    Both methods raise the errors of `fournos.engine.kube.errors`.
    """

    async def get(self, resource: Resource, key: Key) -> Obj:
        """Returns one object."""
        ...

    async def list(self, resource: Resource, *, namespace: str = "", selector: str = "") -> Listing:
        """`namespace` "" means all namespaces."""
        ...


async def or_error(call: Awaitable[T]) -> T | KubeError:
    """Awaits the call; a KubeError stands in place of what could not be read."""
    try:
        return await call
    except KubeError as error:
        return error
