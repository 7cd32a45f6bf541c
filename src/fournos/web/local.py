"""`fournos web`: the page on this machine, with the caller's own kubeconfig and rights."""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aiohttp import web

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.client.asynchronous import AsyncClient
from fournos.engine.kube.api import Api
from fournos.engine.kube.resource import Resource
from fournos.engine.runtime.clock import SystemClock
from fournos.engine.runtime.listening import listening
from fournos.engine.runtime.process import collect_seldom, keep_objects
from fournos.engine.runtime.reviews import TtlCache
from fournos.insight.caches import ObjectCaches, scopes
from fournos.insight.queues import KINDS as JOB_KINDS
from fournos.insight.source import may
from fournos.web.errors import LoginNeededError, PageError
from fournos.web.pages.all_pages import ACTIONS, DOWNLOADS, PAGES, WATCHED
from fournos.web.server import WebServer
from fournos.web.site import Site, Viewer

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

    def __init__(self, viewer: Viewer) -> None:
        self.token = secrets.token_urlsafe(32)
        self._viewer = viewer

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
        response = web.Response(status=303, headers={"Location": "/"})
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


# --- the server -----------------------------------------------------------------------------------


HOST: Final = "127.0.0.1"
PORT: Final = 8470


@dataclass(frozen=True, slots=True)
class LocalOptions:
    namespace: str
    clusters_namespace: str = "hearth"
    port: int = PORT
    """0: a free one."""
    owner: str = ""


async def serve(api: Api, options: LocalOptions, opened: Callable[[str], None]) -> None:
    """Serves until cancelled.  `opened` is called once with the address to open.

    Raises KubeError if the API server does not answer, and OSError if the port is in use.
    """
    wanted = [kind for kind in WATCHED if kind != FOURNOS_CLUSTER]
    kinds = {**await scopes(api, wanted, options.namespace), FOURNOS_CLUSTER: options.clusters_namespace}
    everywhere = all(kinds[kind] == "" for kind in JOB_KINDS if kind.namespaced)
    collect_seldom()
    async with ObjectCaches(api, kinds) as caches:
        keep_objects()
        # A page that waits for the history shows nothing of the rest.
        client = AsyncClient(api=api, namespace=options.namespace, owner=options.owner or None, patience=0)
        viewer = Viewer("you", caches, client, OwnRights(api, SystemClock().monotonic), "own")
        site = Site(caches, "" if everywhere else options.namespace, options.clusters_namespace)
        await _run(site, Loopback(viewer), options, opened)


async def _run(site: Site, people: Loopback, options: LocalOptions, opened: Callable[[str], None]) -> None:
    hosts: set[str] = set()
    server = WebServer(site, people, PAGES, ACTIONS, DOWNLOADS, hosts=hosts)
    async with listening(server.app(), HOST, options.port, closing=1.0) as port:
        hosts |= {f"{HOST}:{port}", f"localhost:{port}"}
        opened(f"http://{HOST}:{port}/open/{people.token}")
        await asyncio.Event().wait()
