"""Content that breaks off: an error before the first piece is an answer, a later one cuts the connection."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from aiohttp import ClientPayloadError, ClientSession, web
from aiohttp.test_utils import TestServer

from fournos.history.api.routes import streamed

AWAY = OSError("the bucket is away")


async def _pieces(*given: bytes | Exception) -> AsyncGenerator[bytes, None]:
    for piece in given:
        if isinstance(piece, Exception):
            raise piece
        yield piece


async def _received(*given: bytes | Exception, size: int) -> tuple[int, bytes]:
    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": str(size)})
        try:
            return await streamed(request, response, _pieces(*given))
        except ConnectionError:
            raise
        except OSError as error:
            return web.Response(status=503, text=str(error))

    app = web.Application()
    app.router.add_get("/", handle)
    async with (
        TestServer(app) as server,
        ClientSession() as session,
        session.get(server.make_url("/")) as answer,
    ):
        return answer.status, await answer.read()


async def test_all_pieces_arrive() -> None:
    assert await _received(b"one ", b"two", size=7) == (200, b"one two")
    assert await _received(size=0) == (200, b"")


async def test_what_cannot_be_read_at_all_has_no_head_of_a_success() -> None:
    assert await _received(AWAY, size=5) == (503, b"the bucket is away")


async def test_what_breaks_off_is_never_complete() -> None:
    """Also if the text of another answer would fill it."""
    with pytest.raises(ClientPayloadError):
        await _received(b"one ", AWAY, size=200)
