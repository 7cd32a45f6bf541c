"""The server's own life: a certificate that changes while it serves, and an end that cuts nobody off."""

from __future__ import annotations

import asyncio
import socket
import ssl
from datetime import UTC, datetime, timedelta

import aiohttp
from aiohttp.test_utils import TestClient, TestServer

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
    async with asyncio.timeout(60):
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


async def test_at_its_end_each_answer_closes_its_connection() -> None:
    server = WebhookServer(Connection(Server()), [webhook()], metrics=Metrics(), linger=0)
    async with TestClient(TestServer(server.app())) as client:
        for going, expected in ((False, None), (True, "close")):
            server._going = going
            async with client.post("/toys", data=b"?") as answer:
                assert answer.headers.get("Connection") == expected


async def test_at_its_end_it_is_not_ready_any_more() -> None:
    server = WebhookServer(Connection(Server()), [webhook()], metrics=Metrics(), linger=0)
    server.show(pair())
    task = await serving(server, free_port())
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled() and server._going
    assert list(server.complaints())
