"""The interface of an API server.  `Client` implements it over HTTP; tests implement it in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from fournos.engine.kube.resource import Key, Obj, Resource

EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]


@dataclass(frozen=True, slots=True)
class Listing:
    """The result of a list: its items and the resourceVersion of the whole list."""

    items: list[Obj]
    resource_version: str


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One event of a watch."""

    type: EventType
    object: Obj


class Api(Protocol):
    """The operations on an API server.  All methods raise the errors of `fournos.engine.kube.errors`."""

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
        """Returns all pages; `namespace` "" means all namespaces.

        `keep` is applied to each item as soon as its page is read.  40,000 whole PipelineRuns take 800 MB;
        what caches keep of them takes 90 MB.
        """
        ...

    async def create(self, resource: Resource, obj: Obj, *, dry_run: bool = False) -> Obj:
        """Creates the object and returns it as stored.

        `dry_run`: the API server validates the request but stores nothing.  It then refuses unknown fields,
        which it would drop otherwise.
        """
        ...

    async def patch(self, resource: Resource, key: Key, body: Obj, *, subresource: str | None = None) -> Obj:
        """Applies a JSON merge patch; `metadata.resourceVersion` in it is a precondition (ConflictError)."""
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
        """Deletes the object.  `uid` is a precondition: ConflictError if the object has another UID."""
        ...

    def watch(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        selector: str = "",
        fields: str = "",
        resource_version: str,
    ) -> AsyncIterator[WatchEvent]:
        """Yields the events after `resource_version`, until the API server ends the watch.

        An ERROR event is yielded too; its object is a Status (`kube.errors.error_of`).  The
        first event may be a BOOKMARK with the requested version; it means that the watch is open.
        """
        ...

    async def logs(
        self,
        pod: Key,
        *,
        container: str | None = None,
        tail: int | None = None,
        limit_bytes: int | None = None,
        follow: bool = False,
    ) -> AsyncIterator[str]:
        """Yields the lines of a container's log: all, or of its `tail` the first `limit_bytes`."""
        ...
