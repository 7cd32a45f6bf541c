"""What controllers need of an API server.  `Client` is it over HTTP; tests have it in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from fournos.kube.resource import Key, Obj, Resource

EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]


@dataclass(frozen=True, slots=True)
class Listing:
    items: list[Obj]
    resource_version: str


@dataclass(frozen=True, slots=True)
class WatchEvent:
    type: EventType
    object: Obj


class Api(Protocol):
    """All methods raise the errors of `fournos.kube.errors`."""

    async def get(self, resource: Resource, key: Key) -> Obj: ...

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        selector: str = "",
        fields: str = "",
        page_size: int = 500,
        keep: Callable[[Obj], Obj] | None = None,
    ) -> Listing:
        """All pages; `namespace` "" means all namespaces.

        `keep` is applied to each item while its page is in hand: 40,000 whole PipelineRuns are 800 MB,
        what caches keep of them is 90.
        """
        ...

    async def create(self, resource: Resource, obj: Obj, *, dry_run: bool = False) -> Obj:
        """`dry_run`: the API server checks and answers as if, but keeps nothing.  It refuses fields that it
        does not know, which it drops otherwise."""
        ...

    async def patch(self, resource: Resource, key: Key, body: Obj, *, subresource: str | None = None) -> Obj:
        """JSON merge patch; `metadata.resourceVersion` in the body makes it conditional (ConflictError)."""
        ...

    async def delete(
        self,
        resource: Resource,
        key: Key,
        *,
        uid: str | None = None,
        propagation: str = "Background",
        grace_seconds: int | None = None,
    ) -> None:
        """With a UID that is no longer the object's: ConflictError."""
        ...

    def watch(
        self, resource: Resource, *, namespace: str = "", selector: str = "", resource_version: str
    ) -> AsyncIterator[WatchEvent]:
        """Events after `resource_version`, until the API server ends the watch.

        An ERROR event is passed on; its object is a Status (`fournos.kube.status_errors.error_of`).  A
        BOOKMARK may come first with the version that was asked for: the watch is open.
        """
        ...

    async def logs(
        self, pod: Key, *, container: str | None = None, tail: int | None = None, follow: bool = False
    ) -> AsyncIterator[str]:
        """Lines of a container's log."""
        ...
