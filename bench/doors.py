"""Many MultiKueue workers of one control plane: each is a namespace, behind a proxy that can hang or drop.

A worker of its own needs an API server, etcd and Kueue, half a gigabyte of memory in all.  To a manager the
namespace `inside` looks as its own namespace `outside`, and as the only one there is.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import aiohttp
from aiohttp import web
from yarl import URL

from devcluster import pki
from fournos.engine.kube.credentials import load

_HOST: Final = "127.0.0.1"
_ENDLESS: Final = aiohttp.ClientTimeout(total=None, sock_connect=10)
_PASSED: Final = ("Accept", "Content-Type")
_COLLECTION: Final = 4
"""Parts of a path such as /apis/GROUP/VERSION/PLURAL, the objects of all namespaces."""


def inward(path: str, outside: str, inside: str) -> str:
    """Returns the path on the control plane: that of the namespace, also for the objects of all."""
    parts = path.strip("/").split("/")
    if parts[0] == "apis" and len(parts) == _COLLECTION:
        parts[3:3] = ["namespaces", inside]
    elif "namespaces" in parts[:-1]:
        place = parts.index("namespaces") + 1
        if parts[place] == outside:
            parts[place] = inside
    return "/" + "/".join(parts)


@dataclass(slots=True)
class Door:
    """One worker, as a manager sees it."""

    outside: str
    inside: str
    url: str = ""
    _upstream: aiohttp.ClientSession | None = None
    _authority: bytes = b""
    _dropping: bool = False
    _answering: asyncio.Event = field(default_factory=asyncio.Event)
    _transports: set[asyncio.Transport] = field(default_factory=set)

    def open(self) -> None:
        self._dropping = False
        self._answering.set()

    def hang(self) -> None:
        """Accepts connections and requests, and answers nothing any more, nor sends an event."""
        self._answering.clear()

    def drop(self) -> None:
        """Drops all connections, and each new one with its first request."""
        self._dropping = True
        for transport in tuple(self._transports):
            transport.abort()

    def kubeconfig(self) -> str:
        authority = base64.b64encode(self._authority).decode()
        cluster = {"server": self.url, "certificate-authority-data": authority}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "door", "cluster": cluster}],
            "users": [{"name": "door", "user": {"token": "door"}}],
            "contexts": [{"name": "door", "context": {"cluster": "door", "user": "door"}}],
            "current-context": "door",
        }
        return json.dumps(content)

    @asynccontextmanager
    async def served(
        self, upstream: aiohttp.ClientSession, tls: ssl.SSLContext, authority: bytes
    ) -> AsyncIterator[None]:
        self._upstream, self._authority = upstream, authority
        self.open()
        runner = web.ServerRunner(web.Server(self._handle, access_log=None), shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, _HOST, 0, ssl_context=tls).start()
            self.url = f"https://{_HOST}:{runner.addresses[0][1]}"
            yield
        finally:
            self.open()
            self.drop()
            await runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        if transport is None or self._dropping:
            if transport is not None:
                transport.abort()
            return web.Response()
        self._transports.add(transport)
        try:
            with suppress(ConnectionError):
                return await self._passed_on(request)
            return web.Response()
        finally:
            self._transports.discard(transport)

    async def _passed_on(self, request: web.BaseRequest) -> web.StreamResponse:
        assert self._upstream is not None
        body = await request.read()
        await self._answering.wait()
        headers = {name: request.headers[name] for name in _PASSED if name in request.headers}
        url = URL(request.raw_path, encoded=True)
        async with self._upstream.request(
            request.method,
            URL(inward(url.raw_path, self.outside, self.inside), encoded=True).with_query(url.query),
            headers={**headers, "Accept-Encoding": "identity"},
            data=body.replace(_named(self.outside), _named(self.inside)) or None,
            timeout=_ENDLESS,
        ) as answer:
            response = web.StreamResponse(status=answer.status)
            response.content_type = answer.content_type
            await response.prepare(request)
            async for line in _lines(answer):
                await self._answering.wait()
                await response.write(line.replace(_named(self.inside), _named(self.outside)))
            await response.write_eof()
            return response


def _named(namespace: str) -> bytes:
    return f'"namespace":"{namespace}"'.encode()


async def _lines(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yields the answer in pieces that end with a line: each event of a watch is one."""
    rest = b""
    async for chunk in answer.content.iter_any():
        lines, end, rest = (rest + chunk).rpartition(b"\n")
        if end:
            yield lines + end
    if rest:
        yield rest


@asynccontextmanager
async def doors(
    kubeconfig: Path, outside: str, insides: list[str], directory: Path
) -> AsyncIterator[list[Door]]:
    """Serves a door for each namespace of the control plane.  `directory` is for a key."""
    authority = pki.authority("bench-doors")
    pki.issue(authority, "door", hosts=[_HOST]).write(directory, "door")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(directory / "door.crt", directory / "door.key")
    credentials = load(kubeconfig)
    headers, own_tls = await credentials.proof()
    connector = aiohttp.TCPConnector(limit=0, ssl=own_tls or True)
    made = [Door(outside, inside) for inside in insides]
    async with (
        aiohttp.ClientSession(
            credentials.server, connector=connector, headers=headers, auto_decompress=False
        ) as upstream,
        AsyncExitStack() as stack,
    ):
        for door in made:
            await stack.enter_async_context(door.served(upstream, tls, authority.certificate_pem))
        yield made
