"""The read-only interface through which insight reads objects."""

from __future__ import annotations

from typing import Final, Protocol

from fournos.kube.api import Listing
from fournos.kube.resource import Key, Obj, Resource

DEFAULT_QUEUE: Final = "fournos-queue"
"""The LocalQueue of jobs, unless the operator is configured otherwise."""


class Source(Protocol):
    """The read methods of an Api, served by live requests or by informer caches.

    Both methods raise the errors of `fournos.kube.errors`.
    """

    async def get(self, resource: Resource, key: Key) -> Obj:
        """Returns one object."""
        ...

    async def list(self, resource: Resource, *, namespace: str = "", selector: str = "") -> Listing:
        """`namespace` "" means all namespaces."""
        ...
