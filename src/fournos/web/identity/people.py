"""The interface through which the server finds the person of a request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from aiohttp import web

from fournos.web.viewer import Viewer


class People(Protocol):
    """A way to log in.  `loopback` and `members` implement it."""

    logout: str
    """The path that ends a session by a POST; "" if there is none."""

    def routes(self) -> list[web.RouteDef]:
        """Returns the routes of the login itself."""
        ...

    def login(self, request: web.Request) -> Mapping[str, Any] | None:
        """Returns the data of the login page; None if there is no such page."""
        ...

    async def viewer(self, request: web.Request) -> Viewer:
        """Returns the person of a request.  Raises LoginNeededError, PageError, KubeError."""
        ...
