"""The webhook server: certificates that change while it serves, and a shutdown that ends open requests."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime

import aiohttp
from aiohttp.test_utils import TestClient, TestServer

from fournos.engine.runtime.certificates import Certificates, Pair, renewed
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.webhook.server import WebhookServer
from tests.unit.engine.runtime.webhook.toy import webhook
from tests.waiting import free_port, until
from tests.world.connection import Connection
from tests.world.server import Server

HOST = "127.0.0.1"


def made() -> tuple[Pair, bytes]:
    """A certificate, and the authority that issued it."""
    certificates = renewed(Certificates(), datetime.now(UTC), hosts=(HOST,))
    assert certificates.serving is not None
    return certificates.serving, certificates.bundle


def trusting(authority: bytes) -> aiohttp.ClientSession:
    context = ssl.create_default_context(cadata=authority.decode())
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))


async def serving(server: WebhookServer, port: int) -> asyncio.Task[None]:
    task = asyncio.create_task(server.run(port=port))
    await until(lambda: not list(server.problems()), "webhooks are not served", limit=60, pause=0.01)
    return task


async def post(session: aiohttp.ClientSession, port: int) -> str | None:
    async with session.post(f"https://{HOST}:{port}/toys", data=b"?") as answer:
        assert answer.status == 400
        return answer.headers.get("Connection")


async def test_a_new_certificate_is_shown_without_cutting_off_who_is_connected() -> None:
    (first, first_authority), (second, second_authority) = made(), made()
    server = WebhookServer(Connection(Server()), [webhook()], metrics=Metrics(), linger=0)
    server.show(first)
    port = free_port()
    task = await serving(server, port)
    async with trusting(first_authority) as old, trusting(second_authority) as new:
        await post(old, port)
        server.show(second)
        await post(new, port)
        await post(old, port)  # on the connection that it has
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
    server.show(made()[0])
    task = await serving(server, free_port())
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled() and server._going
    assert list(server.problems())
