"""The logged-in person: rights, and the two sources that pages read for that person."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from fournos.client.asynchronous import AsyncClient
from fournos.engine.kube.resource import Resource
from fournos.insight.source import Source


class PersonRights(Protocol):
    """What a person may do.  Raises KubeError if the API server does not answer."""

    async def may(
        self,
        verb: str,
        resource: Resource,
        namespace: str = "",
        *,
        name: str = "",
        subresource: str = "",
    ) -> bool:
        """`namespace` "" means all namespaces."""
        ...

    async def permission_class(self) -> str:
        """Persons of the same class see the same objects: what is rendered for one suits all of them."""
        ...


@dataclass(frozen=True, slots=True)
class Viewer:
    """A person who is logged in."""

    name: str
    source: Source
    """The watched objects that the person may read.  Reading from it costs no request."""
    client: AsyncClient
    """The API server with the person's own credentials: for writes, logs and the history."""
    rights: PersonRights
    key: str
    """Differs between credentials: what is kept for one person is not shown to another one."""


async def allowed_in(may: Callable[[str], Awaitable[bool]], namespaces: Iterable[str]) -> list[str]:
    """Returns the namespaces for which `may` is true, in order."""
    wanted = sorted(namespaces)
    rights = await asyncio.gather(*map(may, wanted))
    return [one for one, right in zip(wanted, rights, strict=True) if right]
