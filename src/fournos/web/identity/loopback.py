"""One person on one machine: `fournos web` works with the caller's own kubeconfig and rights.

Whoever has the token of the printed address acts as that person.  The host must be the loopback address:
another site's name that resolves to it (DNS rebinding) is refused by the server.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final

from aiohttp import web

from fournos.insight.access import may
from fournos.kube.api import Api
from fournos.kube.resource import Resource
from fournos.runtime.ttl_cache import TtlCache
from fournos.web.errors import LoginNeededError
from fournos.web.viewer import Right, Viewer

COOKIE: Final = "fournos-loopback"
_KNOWN: Final = 30.0
"""Seconds for which a right is cached."""


class OwnRights:
    """The rights of our own connection."""

    def __init__(self, api: Api, monotonic: Callable[[], float]) -> None:
        self._api = api
        self._kept: TtlCache[tuple[str, ...], bool] = TtlCache(1024, monotonic=monotonic)

    async def may(
        self, verb: str, resource: Resource, namespace: str = "", *, name: str = "", subresource: str = ""
    ) -> bool:
        key = (verb, str(resource), namespace, subresource)
        if (found := self._kept.get(key)) is None:
            found = await may(self._api, resource, verb, namespace=namespace, subresource=subresource)
            self._kept.put(key, found, _KNOWN)
        return found

    async def reads(self, kinds: Iterable[Resource]) -> list[Right]:
        """None: the watches of the page are the person's own, and end with the rights."""
        return []

    async def permission_class(self) -> str:
        return "own"


class Loopback:
    """The only person of `fournos web`."""

    logout = ""

    def __init__(self, viewer: Viewer, *, token: str = "", path: str = "/") -> None:
        """`path` is where the printed address leads to."""
        self.token = token or secrets.token_urlsafe(32)
        self._viewer = replace(viewer, csrf=secrets.token_urlsafe(32))
        self._path = path

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/open/{token}", self._open)]

    def login(self, request: web.Request) -> None:
        """Nothing can be typed in: the printed address logs in."""

    async def viewer(self, request: web.Request) -> Viewer:
        if not hmac.compare_digest(request.cookies.get(_cookie(request), "").encode(), self.token.encode()):
            raise LoginNeededError("Open the address that `fournos web` has printed: it holds a token.")
        return self._viewer

    async def _open(self, request: web.Request) -> web.Response:
        if not hmac.compare_digest(request.match_info["token"].encode(), self.token.encode()):
            raise LoginNeededError(
                "This address is of an earlier `fournos web`: open the one it printed last."
            )
        response = web.Response(status=303, headers={"Location": self._path})
        response.set_cookie(_cookie(request), self.token, httponly=True, samesite="Lax", path="/")
        return response


def _cookie(request: web.Request) -> str:
    """Returns the cookie's name: cookies are of a host, and two servers on it have two ports."""
    return f"{COOKIE}-{request.url.port}"
