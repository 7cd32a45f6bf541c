"""The certificate of an HTTPS server: made, shared by the replicas, turned over without a gap for clients."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from fournos.engine.kube.errors import ForbiddenError
from fournos.engine.kube.kinds import SECRET
from fournos.engine.kube.resource import Key
from fournos.engine.runtime.cert_rotator import LOOK, CertRotator
from fournos.engine.runtime.webhook.certificates import Kept, Pair, Terms, covers
from fournos.engine.runtime.webhook.secret import BUNDLE
from tests.unit.engine.runtime.loop import LoopClock
from tests.world.connection import Connection
from tests.world.server import Server

pytestmark = pytest.mark.looptime

KEY = Key("ns", "cert")
HOSTS = ("metrics.ns.svc", "metrics.ns.svc.cluster.local")
TERMS = Terms(timedelta(hours=12), timedelta(hours=4), timedelta(hours=1))
HOUR = 3600.0


class Replica:
    def __init__(self, api: Connection, publish: Callable[[Kept], Awaitable[None]] | None = None) -> None:
        self.shown: list[Pair] = []
        self.rotator = CertRotator(
            api,
            KEY,
            hosts=HOSTS,
            clock=LoopClock(),
            name="metrics",
            show=self.shown.append,
            publish=publish,
            terms=TERMS,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Replica]:
        task = asyncio.create_task(self.rotator.run())
        await asyncio.sleep(5)
        try:
            yield self
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def trusted(server: Server) -> bytes:
    return base64.b64decode(server.get(SECRET, KEY)["data"][BUNDLE])


async def test_replicas_show_one_certificate_for_the_service() -> None:
    server = Server()
    async with Replica(Connection(server)).running() as one, Replica(Connection(server)).running() as two:
        await asyncio.sleep(60)  # the one that lost the race to create it reads it
        assert one.shown[-1] == two.shown[-1]
        assert covers(one.shown[-1], HOSTS)
        assert one.shown[-1].authority in trusted(server)


async def test_a_next_one_is_trusted_an_hour_before_it_is_shown() -> None:
    server = Server()
    async with Replica(Connection(server)).running() as one, Replica(Connection(server)).running() as two:
        first = one.shown[-1]
        await asyncio.sleep(8 * HOUR + LOOK)  # the renewal
        assert one.shown[-1] == two.shown[-1] == first
        both = trusted(server)
        assert both.count(b"BEGIN CERTIFICATE") == 2
        await asyncio.sleep(HOUR + 2 * LOOK)
        second = one.shown[-1]
        assert second != first and two.shown[-1] == second
        assert second.authority in both and first.authority in trusted(server)
        assert "PRIVATE" not in trusted(server).decode()


async def test_without_the_right_to_the_secret_one_warning_is_logged_and_it_is_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server()
    api = Connection(server)
    allowed = api.get

    async def refused(*_: object) -> None:
        raise ForbiddenError("secrets is forbidden", status=403)

    api.get = refused  # type: ignore[method-assign,assignment]
    replica = Replica(api)
    async with replica.running():
        await asyncio.sleep(120)
        assert replica.shown == []
        assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [
            "metrics: not served by https until the certificate can be kept: "
            "Secret ns/cert: secrets is forbidden"
        ]
        api.get = allowed  # type: ignore[method-assign]
        await asyncio.sleep(60)
        assert replica.shown


async def test_an_authority_is_published_before_its_certificate_is_shown() -> None:
    published: list[bytes] = []
    shown_before: list[int] = []

    async def publish(kept: Kept) -> None:
        if len(published) < 2:
            published.append(kept.bundle)
            shown_before.append(len(replica.shown))
        if len(published) == 1:
            raise ForbiddenError("apiservices is forbidden", status=403)

    replica = Replica(Connection(Server()), publish)
    async with replica.running():
        await asyncio.sleep(60)
        assert shown_before == [0, 0]
        assert replica.shown[-1].authority in published[-1]
