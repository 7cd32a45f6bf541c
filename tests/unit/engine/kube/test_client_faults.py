"""The client against a scripted API server that fails, refuses its token, or does not answer."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from fournos.engine.kube.auth import FixedIdentity, Proof
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import Credentials
from fournos.engine.kube.errors import (
    ConflictError,
    ConnectionLostError,
    ForbiddenError,
    NoSuchResourceError,
    NotFoundError,
    ServerError,
)
from tests.unit.engine.kube.server import JOBS, OBJ, ScriptedServer, X, ok, status, text


async def test_errors_are_typed() -> None:
    answers = [
        status(404, "NotFound", name="x"),
        text("404 page not found", 404),
        status(409, "Conflict"),
        text("<html>", 502),
    ]
    async with ScriptedServer(answers) as server, server.client() as client:
        for kind in (NotFoundError, NoSuchResourceError, ConflictError, ServerError):
            with pytest.raises(kind):
                await client.get(JOBS, X)


async def test_429_holds_back_the_next_request_for_as_long_as_asked() -> None:
    answers = [status(429, "TooManyRequests", headers={"Retry-After": "0.2"}), ok(OBJ)]
    async with ScriptedServer(answers) as server, server.client() as client:
        with pytest.raises(ServerError) as caught:
            await client.get(JOBS, X)
        assert caught.value.retry_after == 0.2
        started = asyncio.get_running_loop().time()
        await client.get(JOBS, X)
        assert asyncio.get_running_loop().time() - started >= 0.15


async def test_no_answer_in_time_is_a_lost_connection() -> None:
    async def never(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    async with ScriptedServer([never]) as server, server.client(timeout=0.05) as client:
        with pytest.raises(ConnectionLostError, match="no answer in time"):
            await client.get(JOBS, X)
        with pytest.raises(ConnectionLostError, match="no answer in time"):
            await anext(client.watch(JOBS, resource_version="1"))


async def test_a_port_without_a_listener_is_a_lost_connection() -> None:
    async with Client(Credentials("http://127.0.0.1:1", FixedIdentity(Proof()))) as client:
        with pytest.raises(ConnectionLostError, match=r"GET /version"):
            await client.server_version()


async def test_an_answer_that_is_cut_is_a_lost_connection() -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"{")
        assert request.transport is not None
        request.transport.abort()
        return response

    async with ScriptedServer([cut]) as server, server.client() as client:
        with pytest.raises(ConnectionLostError):
            await client.patch(JOBS, X, {})


@pytest.mark.parametrize("body", ["<html>log in</html>", "[]", ""])
async def test_a_login_page_is_no_api_server(body: str) -> None:
    async with ScriptedServer([text(body)]) as server, server.client() as client:
        with pytest.raises(ConnectionLostError, match="not an API server"):
            await client.get(JOBS, X)


async def test_redirects_are_not_followed() -> None:
    async def away(_: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": "http://elsewhere.invalid/"})

    async with ScriptedServer([away]) as server, server.client() as client:
        with pytest.raises(Exception, match="302"):
            await client.get(JOBS, X)
    assert len(server.seen) == 1


# --- identity ----------------------------------------------------------------------------------------


class Renewing:
    """Has a new token each time the old one is reported as refused."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)

    async def proof(self) -> Proof:
        return Proof(self.tokens[0])

    def invalidate(self) -> None:
        if len(self.tokens) > 1:
            self.tokens.pop(0)


async def test_401_is_tried_once_more_with_a_new_token() -> None:
    answers = [status(401, "Unauthorized"), ok(OBJ)]
    async with ScriptedServer(answers) as server, server.client(Renewing("old", "new")) as client:
        await client.create(JOBS, OBJ)
    assert [seen.headers["Authorization"] for seen in server.seen] == ["Bearer old", "Bearer new"]
    assert server.seen[1].json == OBJ


async def test_401_without_a_new_token_is_final() -> None:
    answers = [status(401, "Unauthorized")]
    async with ScriptedServer(answers) as server, server.client(Renewing("old")) as client:
        with pytest.raises(ForbiddenError):
            await client.get(JOBS, X)
    assert len(server.seen) == 1
