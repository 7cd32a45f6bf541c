"""The base classes of the handles of all kinds: one object, identified by its UID, as last read."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, ClassVar

from fournos.client.errors import DeletedError, translated, typed
from fournos.insight.values import name_of
from fournos.kube.errors import NotFoundError
from fournos.kube.resource import Obj, Resource, key_of, uid_of

if TYPE_CHECKING:
    from fournos.client.asynchronous import AsyncClient


class View:
    """A typed view of an object as last read; `raw` is the whole object."""

    @property
    def raw(self) -> Obj:
        raise NotImplementedError

    @property
    def name(self) -> str:
        return name_of(self.raw)

    @property
    def namespace(self) -> str:
        return key_of(self.raw).namespace

    @property
    def uid(self) -> str:
        """The identity of the object: a later object of the same name has another UID."""
        return uid_of(self.raw)


class AsyncHandle(View):
    """The handle of one object, identified by its UID: never of another object of the same name."""

    _resource: ClassVar[Resource]
    _noun: ClassVar[str]
    """The noun for the kind in messages, such as "job"."""

    def __init__(self, client: AsyncClient, raw: Obj) -> None:
        self._client = client
        self._raw = raw

    @property
    def raw(self) -> Obj:
        return self._raw

    @typed
    async def refresh(self) -> None:
        """Reads the object again.  Raises DeletedError if it was deleted."""
        try:
            self._take(await self._client.api.get(self._resource, key_of(self._raw)))
        except NotFoundError:
            raise self._deleted() from None

    async def _changes(self) -> AsyncGenerator[Obj, None]:
        """Yields the current object, then the object after each change.  Raises DeletedError."""
        with translated():
            async with self._client.watches.follow(self._resource, self._raw) as following:
                while True:
                    found = following.object
                    if found is None:
                        raise self._deleted()
                    self._raw = found
                    yield found
                    await following.change()

    def _take(self, found: Obj) -> None:
        """Keeps the object as the last read one.  Raises DeletedError if it has another UID."""
        if uid_of(found) != self.uid:
            raise self._deleted()
        self._raw = found

    def _deleted(self) -> DeletedError:
        return DeletedError(
            f"{self._noun} {self.name} ({self.uid}) was deleted", fix=f"see what there is: {self._noun}s()"
        )
