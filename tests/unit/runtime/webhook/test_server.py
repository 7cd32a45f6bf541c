"""The server's own life: a certificate that changes while it serves, and an end that cuts nobody off."""

from __future__ import annotations

import asyncio
import socket
import ssl
from datetime import UTC, datetime, timedelta

import aiohttp

from fournos.runtime.metrics import Metrics
from fournos.runtime.webhook.certificates import Pair, make_pair
from fournos.runtime.webhook.server import WebhookServer
from tests.unit.runtime.webhook.toy import webhook
from tests.world.server import Connection, Server

HOST = "127.0.0.1"


def pair() -> Pair:
    return make_pair((HOST,), datetime.now(UTC), timedelta(hours=1))


def free_port() -> int:
    with socket.socket() as found:
        found.bind((HOST, 0))
        return int(found.getsockname()[1])


def trusting(found: Pair) -> aiohttp.ClientSession:
    context = ssl.create_default_context(cadata=found.authority.decode())
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))


async def serving(server: WebhookServer, port: int) -> asyncio.Task[None]:
    task = asyncio.create_task(server.run(port=port, host=HOST))
    async with asyncio.timeout(10):
        while list(server.complaints()):  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.01)
    return task


async def ask(session: aiohttp.ClientSession, port: int) -> str | None:
    async with session.post(f"https://{HOST}:{port}/toys", data=b"?") as answer:
        assert answer.status == 400
        return answer.headers.get("Connection")


async def test_a_new_certificate_is_shown_without_cutting_off_who_is_connected() -> None:
    first, second = pair(), pair()
    server = WebhookServer(Connection(Server()), [webhook()], metrics=Metrics(), linger=0)
    server.show(first)
    port = free_port()
    task = await serving(server, port)
    async with trusting(first) as old, trusting(second) as new:
        await ask(old, port)
        server.show(second)
        await ask(new, port)
        await ask(old, port)  # on the connection that it has
    task.cancel()
    await asyncio.wait([task])


async def test_at_its_end_it_answers_once_more_on_each_connection_and_closes_it() -> None:
    shown = pair()
    server = WebhookServer(Connection(Server()), [webhook()], metrics=Metrics(), linger=0.5)
    server.show(shown)
    port = free_port()
    task = await serving(server, port)
    async with trusting(shown) as session:
        assert await ask(session, port) is None
        task.cancel()
        await asyncio.sleep(0.05)
        assert list(server.complaints()) and not task.done()
        assert await ask(session, port) == "close"
    await asyncio.wait([task], timeout=5)
    assert task.cancelled()
