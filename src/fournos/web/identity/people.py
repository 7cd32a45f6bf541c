"""The interface through which the server finds the person of a request."""

from __future__ import annotations

from typing import Protocol

from aiohttp import web

from fournos.web.viewer import Viewer


class People(Protocol):
    """A way to log in.  `loopback` and `sessions` implement it."""

    def routes(self) -> list[web.RouteDef]:
        """Returns the routes of the login itself."""
        ...

    async def viewer(self, request: web.Request) -> Viewer:
        """Returns the person of a request.  Raises LoginNeededError, PageError, KubeError."""
        ...
