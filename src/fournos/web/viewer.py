"""The person who looks: rights, and the two ways in which pages read for that person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from fournos.client.asynchronous import AsyncClient
from fournos.insight.source import Source
from fournos.kube.resource import Resource


class Rights(Protocol):
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
    rights: Rights
    csrf: str
    """The token that each form of this session carries."""
    may_log_out: bool = False
