"""An API server for tests: answers follow a script, requests are remembered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from aiohttp import web
from aiohttp.test_utils import TestServer

from fournos.engine.kube.auth import FixedIdentity, Identity, Proof
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import Credentials
from fournos.engine.kube.resource import Key, Resource

Answer: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

JOBS = Resource("fournos.dev", "v1", "FournosJob", "fournosjobs")
X = Key("ns", "x")
OBJ = {"metadata": {"name": "x", "namespace": "ns"}}
PATH = "/apis/fournos.dev/v1/namespaces/ns/fournosjobs/x"
"""Key, content and path of one object."""


@dataclass
class Seen:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class ScriptedServer:
    """Gives the next scripted answer to each request; the last one repeats."""

    answers: list[Answer]
    seen: list[Seen] = field(default_factory=list)
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    url: str = ""

    async def __aenter__(self) -> ScriptedServer:
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self._handle)
        server = await self._stack.enter_async_context(TestServer(app))
        self.url = str(server.make_url("")).rstrip("/")
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()

    def client(self, identity: Identity | None = None, **options: Any) -> Client:
        credentials = Credentials(self.url, identity or FixedIdentity(Proof()))
        return Client(credentials, **options)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.seen.append(Seen(request.method, request.path, dict(request.query), dict(request.headers), body))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return await answer(request)


def ok(body: Any, status: int = 200) -> Answer:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response(body, status=status)

    return answer


def text(body: str, status: int = 200) -> Answer:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=body, status=status)

    return answer


def status(code: int, reason: str = "", message: str = "no", *, headers: dict[str, str] | None = None,
           **details: Any) -> Answer:  # fmt: skip
    body = {"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}

    async def answer(_: web.Request) -> web.Response:
        return web.json_response(body, status=code, headers=headers)

    return answer


def page(*names: str, version: str, token: str = "") -> Answer:
    items = [
        {"metadata": {"name": name, "namespace": "a", "uid": name, "resourceVersion": version}}
        for name in names
    ]
    return ok({"items": items, "metadata": {"resourceVersion": version, "continue": token}})


def stream(*chunks: bytes, cut: bool = False) -> Answer:
    """An endless answer in these pieces; `cut` drops the connection instead of ending it."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
            await asyncio.sleep(0)
        if cut and request.transport is not None:
            request.transport.abort()
        return response

    return answer


def event(kind: str, name: str = "x", version: str = "1") -> bytes:
    obj = {"metadata": {"name": name, "namespace": "a", "resourceVersion": version}}
    return json.dumps({"type": kind, "object": obj}).encode() + b"\n"
