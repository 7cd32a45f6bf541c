"""What a server of ours takes and refuses, and limits by client."""

from __future__ import annotations

import asyncio
import ssl
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web

from fournos.engine.runtime.certificates import make_authority, make_certificate
from fournos.engine.runtime.listening import KEPT, RateLimit, listening
from fournos.history.api.identity import FrontProxy, HistoryAuthorizer
from fournos.history.api.server import HistoryServer
from tests.waiting import free_port, until

HEAD = b"GET / HTTP/1.1\r\nHost: a\r\n"


async def first_line(port: int, sent: bytes, tls: ssl.SSLContext | None = None) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    writer.write(sent)
    line = await reader.readline()
    writer.close()
    return line


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\r\n\r\n",
        HEAD + b"<script>\x1b[2J\r\n\r\n",
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
        HEAD + b"".join(b"X-%d: a\r\n" % number for number in range(200)) + b"\r\n",
    ],
)
async def test_what_is_no_http_is_refused_without_a_line_in_the_log(
    sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(web.Application(), "127.0.0.1", 0, closing=0.1) as port:
        assert (await first_line(port, sent)).startswith(b"HTTP/1.0 400")
        assert (await first_line(port, HEAD + b"\r\n")).startswith(b"HTTP/1.1 404")
    assert not caplog.records


async def test_an_api_server_sends_each_group_of_a_person_in_a_header_of_its_own() -> None:
    api: Any = None  # none of the requests comes so far
    server = HistoryServer(
        (), None, api, FrontProxy(), HistoryAuthorizer(api, api, cluster="", monotonic=time.monotonic)
    )
    now, port = datetime.now(UTC), free_port()
    pair = make_certificate(make_authority(now), ["localhost"], now)
    server.certificate.show(pair)
    server.trust(pair.certificate, FrontProxy())
    task = asyncio.create_task(server.run(port=port, host="127.0.0.1"))
    groups = b"".join(b"X-Remote-Group: team-%d\r\n" % number for number in range(400))

    async def answered() -> bytes:
        try:
            return await first_line(port, HEAD + groups + b"\r\n", unverified())
        except ConnectionRefusedError:
            return b""

    line = await until(answered, "the history does not listen", pause=0.01)
    assert line.startswith(b"HTTP/1.1 404")
    task.cancel()
    await asyncio.wait([task])


def unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def test_a_limit_is_of_each_key_and_fills_again() -> None:
    now = 0.0
    limit = RateLimit(2.0, 3, monotonic=lambda: now)
    assert [limit.take("a") for _ in range(4)] == [0, 0, 0, 1]
    assert limit.take("b") == 0
    now = 0.5
    assert [limit.take("a") for _ in range(2)] == [0, 1]
    for number in range(KEPT):
        limit.take(str(number))
    assert limit.take("a") == 0, "the key that was used longest ago is forgotten"
