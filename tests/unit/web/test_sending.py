"""Files that are sent: how many at once, and to readers that take nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from fournos.web import requests
from fournos.web.errors import PageError
from fournos.web.requests import EACH, Sending
from fournos.web.site import Content
from tests.waiting import until


def test_downloads_are_limited_for_each_person_and_in_all() -> None:
    found = Sending(most=EACH + 1)
    with ExitStack() as open_:
        for _ in range(EACH):
            open_.enter_context(found.counted("ann"))
        with pytest.raises(PageError) as caught, found.counted("ann"):
            pass
        assert caught.value.status == 503 and int(caught.value.headers["Retry-After"]) > 0
        with found.counted("ben"), pytest.raises(PageError), found.counted("cho"):
            pass
        with found.counted("cho"):  # ben's has ended
            pass


async def test_a_reader_that_takes_nothing_is_cut_off_and_holds_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requests, "_SLOW", 0.2)
    sent, ended = 0, asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        nonlocal sent
        try:
            while True:
                sent += 1
                yield b"x" * 2**16
        finally:
            ended.set()

    async def serve(request: web.Request) -> web.StreamResponse:
        return await Sending(most=1).send(request, Content(pieces(), "log.txt"))

    app = web.Application()
    app.router.add_get("/", serve)
    async with TestClient(TestServer(app)) as client:
        _, writer = await asyncio.open_connection("127.0.0.1", client.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")

        async def cut() -> bool:
            return ended.is_set()

        await until(cut, "the reader is still served")
        writer.close()
    assert sent < 2**10, "more than the buffers of a connection was read ahead"
