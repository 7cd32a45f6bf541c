"""One person on one machine: `fournos web` works with the caller's own kubeconfig and rights.

Whoever has the token of the printed address acts as that person.  The host must be the loopback address:
another site's name that resolves to it (DNS rebinding) is refused by the server.  A browser sends a cookie to
every port of a host, so other users of the machine may get it: their processes are refused on Linux.
"""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from aiohttp import web

from fournos.engine.kube.api import Api
from fournos.engine.kube.resource import Resource
from fournos.engine.runtime.ttl_cache import TtlCache
from fournos.insight.access import may
from fournos.web.errors import LoginNeededError, PageError
from fournos.web.viewer import Viewer

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
        key = (verb, str(resource), namespace, name, subresource)
        if (allowed := self._kept.get(key)) is None:
            allowed = await may(
                self._api, resource, verb, namespace=namespace, name=name, subresource=subresource
            )
            self._kept.put(key, allowed, _KNOWN)
        return allowed

    async def permission_class(self) -> str:
        return "own"


class Loopback:
    """The only person of `fournos web`."""

    def __init__(self, viewer: Viewer, *, token: str = "", path: str = "/") -> None:
        """`path` is where the printed address leads to."""
        self.token = token or secrets.token_urlsafe(32)
        self._viewer = viewer
        self._path = path

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/open/{token}", self._open)]

    async def viewer(self, request: web.Request) -> Viewer:
        _check_user(request)
        if not hmac.compare_digest(request.cookies.get(_cookie(request), "").encode(), self.token.encode()):
            raise LoginNeededError("Open the address that `fournos web` has printed: it holds a token.", "")
        return self._viewer

    async def _open(self, request: web.Request) -> web.Response:
        _check_user(request)
        if not hmac.compare_digest(request.match_info["token"].encode(), self.token.encode()):
            raise LoginNeededError(
                "This address is of an earlier `fournos web`: open the one it printed last.", ""
            )
        response = web.Response(status=303, headers={"Location": self._path})
        response.set_cookie(_cookie(request), self.token, httponly=True, samesite="Lax", path="/")
        return response


def _cookie(request: web.Request) -> str:
    """Returns the cookie's name: cookies are of a host, and two servers on it have two ports."""
    return f"{COOKIE}-{request.url.port}"


def _check_user(request: web.Request) -> None:
    """Raises PageError if a process of another user sent the request; root forwards ports for others."""
    transport = request.transport
    if transport is None:
        return
    user = _user_of(transport.get_extra_info("peername"), transport.get_extra_info("sockname"))
    if user not in (None, 0, os.getuid()):
        raise PageError(403, "Not yours", "`fournos web` of another user runs here.", "Start your own.")


def _user_of(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """Returns the id of the user whose socket is the client's end; None where the kernel does not list it.

    In /proc/net/tcp (proc(5)) an address is a number in the byte order of the machine.  The last part of an
    IPv6 address may be an IPv4 address.
    """
    ends = [
        f"{struct.unpack('=I', socket.inet_aton(host))[0]:08X}:{port:04X}" for host, port in (client, server)
    ]
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[1].endswith(ends[0]) and fields[2].endswith(ends[1]):
                    return int(fields[7])
    return None
