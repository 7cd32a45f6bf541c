"""What the handles of all kinds have in common: one object, by its UID, as it was last seen."""

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
    """An object as it was last seen; `raw` is the whole of it."""

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
        """What the handle stands for: an object that takes the name later is another one."""
        return uid_of(self.raw)


class AsyncHandle(View):
    """An object of an API server: this one, not another one of the same name."""

    _resource: ClassVar[Resource]
    _noun: ClassVar[str]
    """The kind, as people call it."""

    def __init__(self, client: AsyncClient, raw: Obj) -> None:
        self._client = client
        self._raw = raw

    @property
    def raw(self) -> Obj:
        return self._raw

    @typed
    async def refresh(self) -> None:
        """Read it anew.  Raises DeletedError."""
        try:
            self._take(await self._client.api.get(self._resource, key_of(self._raw)))
        except NotFoundError:
            raise self._deleted() from None

    async def _changes(self) -> AsyncGenerator[Obj, None]:
        """As it is, then at each change.  Raises DeletedError."""
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
        if uid_of(found) != self.uid:
            raise self._deleted()
        self._raw = found

    def _deleted(self) -> DeletedError:
        return DeletedError(
            f"{self._noun} {self.name} ({self.uid}) was deleted", fix=f"see what there is: {self._noun}s()"
        )
