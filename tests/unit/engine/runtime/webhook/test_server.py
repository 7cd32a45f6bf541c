"""The webhook server: certificates that change while it serves, and a shutdown that ends open requests."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer

from fournos.engine.kube.tls import client_context
from fournos.engine.runtime.decision import Facts
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.webhook.accepted_paths import AcceptedPaths, segment_of
from fournos.engine.runtime.webhook.certificates import Pair, make_pair
from fournos.engine.runtime.webhook.server import WebhookServer
from fournos.engine.runtime.webhook.types import Request, Review
from tests.fakes.pki import Authority
from tests.unit.engine.runtime.webhook.toy import webhook
from tests.waiting import free_port, until
from tests.world.connection import Connection
from tests.world.server import Server

HOST = "127.0.0.1"


def pair() -> Pair:
    return make_pair((HOST,), datetime.now(UTC), timedelta(hours=1))


def trusting(found: Pair) -> aiohttp.ClientSession:
    context = ssl.create_default_context(cadata=found.authority.decode())
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))


async def serving(server: WebhookServer, port: int) -> asyncio.Task[None]:
    task = asyncio.create_task(server.run(port=port, host=HOST))
    await until(lambda: not list(server.problems()), "webhooks are not served", limit=60, pause=0.01)
    return task


async def post(session: aiohttp.ClientSession, port: int) -> str | None:
    async with session.post(f"https://{HOST}:{port}/toys", data=b"?") as answer:
        assert answer.status == 400
        return answer.headers.get("Connection")


async def test_a_new_certificate_is_shown_without_cutting_off_who_is_connected() -> None:
    first, second = pair(), pair()
    server = WebhookServer(Connection(Server()), [webhook()], metrics=Metrics(), linger=0)
    server.accepted_paths.expect({""})
    server.show(first)
    port = free_port()
    task = await serving(server, port)
    async with trusting(first) as old, trusting(second) as new:
        await post(old, port)
        server.show(second)
        await post(new, port)
        await post(old, port)  # on the connection that it has
    task.cancel()
    await asyncio.wait([task])


async def test_at_its_end_each_answer_closes_its_connection() -> None:
    server = WebhookServer(Connection(Server()), [webhook()], metrics=Metrics(), linger=0)
    server.accepted_paths.expect({""})
    async with TestClient(TestServer(server.app())) as client:
        for going, expected in ((False, None), (True, "close")):
            server._going = going
            async with client.post("/toys", data=b"?") as answer:
                assert answer.headers.get("Connection") == expected


async def test_at_its_end_it_is_not_ready_any_more() -> None:
    server = WebhookServer(Connection(Server()), [webhook()], metrics=Metrics(), linger=0)
    server.accepted_paths.expect({""})
    server.show(pair())
    task = await serving(server, free_port())
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled() and server._going
    assert list(server.problems())


async def test_only_who_knows_the_path_is_answered() -> None:
    """Otherwise any pod could find out what any user may create."""
    requested: list[str] = []

    def review(request: Request, facts: Facts) -> Review:
        requested.append(request.user.name)
        return Review()

    server = WebhookServer(Connection(Server()), [webhook(review)], metrics=Metrics(), linger=0)
    first, second = segment_of(pair()), segment_of(pair())
    body = {"uid": "1", "operation": "CREATE", "userInfo": {"username": "joe"}, "object": {"metadata": {}}}
    review_of = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": body}
    async with TestClient(TestServer(server.app())) as client:

        async def status(path: str) -> int:
            async with client.post(path, json=review_of) as answer:
                return answer.status

        assert await status(f"/{first}/toys") == 404, "nobody before the keeper has said who"
        server.accepted_paths.expect({first})
        guesses = ("/toys", f"/{second}/toys", f"/{first[:-1]}/toys", f"/{first}x/toys", f"/x/{first}/toys")
        assert [await status(path) for path in guesses] == [404] * len(guesses)
        assert not requested
        assert await status(f"/{first}/toys") == 200
        assert requested == ["joe"]


def test_the_earlier_path_is_answered_for_a_while() -> None:
    now = [0.0]
    accepted_paths = AcceptedPaths(lambda: now[0])
    accepted_paths.expect({"a"})
    accepted_paths.expect({"b"})
    assert accepted_paths.accepts("a") and accepted_paths.accepts("b") and not accepted_paths.accepts("")
    now[0] = 599
    accepted_paths.expect({"b"})
    assert accepted_paths.accepts("a")
    now[0] = 601
    assert not accepted_paths.accepts("a")
    accepted_paths.expect({"b", "a"})
    assert accepted_paths.accepts("a")


async def test_a_client_certificate_may_be_asked_for(tmp_path: Path) -> None:
    ours = Authority("api-server")
    authorities = tmp_path / "ca.pem"
    authorities.write_bytes(ours.certificate)
    server = WebhookServer(
        Connection(Server()), [webhook()], metrics=Metrics(), linger=0, clients=str(authorities)
    )
    server.accepted_paths.expect({""})
    found, port = pair(), free_port()
    server.show(found)
    task = await serving(server, port)
    for authority, taken in ((ours, True), (Authority("other"), False), (None, False)):
        context = client_context(ca=found.authority)
        if authority is not None:
            own = authority.issue("client")
            context = client_context(ca=found.authority, certificate=own.certificate, key=own.key)
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
            if taken:
                await post(session, port)
            else:
                with pytest.raises((aiohttp.ClientError, OSError)):
                    await post(session, port)
    task.cancel()
    await asyncio.wait([task])
