"""Connections that ask nothing: bounded in number, time and bytes, and never in the way of others."""

from __future__ import annotations

import asyncio
import io
import resource
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from aiohttp import web

from fournos.engine.kube.auth import server_context
from fournos.engine.runtime import listening as served_by
from fournos.engine.runtime.certificates import Pair, make_authority, make_certificate
from fournos.engine.runtime.clock import SystemClock
from fournos.engine.runtime.listening import FIRST, IDLE, Connections, listening, network, room
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.process import Health
from fournos.engine.runtime.webhook.server import WebhookServer
from fournos.history.api.identity import FrontProxy, HistoryAuthorizer
from fournos.history.api.server import HistoryServer
from tests.waiting import free_port, until

MOST = 8
GET = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"
HEAD = b"GET / HTTP/1.1\r\nHost: a\r\n"


class Served:
    """A real server on a socket of 127.0.0.1, whose requests to /held wait."""

    def __init__(self) -> None:
        self.now = 0.0
        self.table = Connections(MOST, most_bytes=2**16, monotonic=lambda: self.now)
        self.port = 0
        self.held = 0
        self.sent = False
        self.release = asyncio.Event()
        self.clients: list[socket.socket] = []

    def connect(self, sent: bytes = b"", host: str = "127.0.0.1") -> socket.socket:
        found = socket.create_connection(("127.0.0.1", self.port), source_address=(host, 0))
        found.setblocking(False)
        self.clients.append(found)
        if sent:
            found.send(sent)
        return found

    async def open(self, count: int, sent: bytes = b"", host: str = "127.0.0.1") -> list[socket.socket]:
        """Opens connections, each after the one before is admitted."""
        found = []
        for _ in range(count):
            before = len(self.table)
            found.append(self.connect(sent, host))
            await until(lambda before=before: len(self.table) == min(before + 1, MOST))
            await asyncio.sleep(0.01)
        return found

    async def _hold(self, _: web.Request) -> web.Response:
        self.held += 1
        await self.release.wait()
        self.held -= 1
        return web.Response(text="held")

    async def _quick(self, _: web.Request) -> web.Response:
        return web.Response(text="quick")

    async def _large(self, _: web.Request) -> web.Response:
        self.sent = True
        return web.Response(body=io.BytesIO(b"x" * 2**25))

    @asynccontextmanager
    async def serve(self, tls: Any = None) -> AsyncIterator[Served]:
        app = web.Application()
        app.router.add_get("/held", self._hold)
        app.router.add_get("/", self._quick)
        app.router.add_get("/large", self._large)
        async with listening(app, "127.0.0.1", 0, closing=0.1, tls=tls, table=self.table) as self.port:
            try:
                yield self
            finally:
                self.release.set()
                for client in self.clients:
                    client.close()


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    found = Served()
    async with found.serve():
        yield found
    assert not found.table._idle
    assert (len(found.table), found.table._bytes) == (0, 0)


def is_open(client: socket.socket) -> bool:
    """True until the server has ended the connection, as far as the client sees; reads what has come."""
    try:
        return bool(client.recv(2**16))
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def ended(client: socket.socket) -> bool:
    """True when all that was sent is read, and the connection has ended."""
    while is_open(client):
        try:
            client.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except ConnectionError:
            return True
    return True


async def answer(client: socket.socket) -> bytes:
    """What has come when a body has come, or the connection has ended."""
    loop, found = asyncio.get_running_loop(), b""
    async with asyncio.timeout(120):
        while not found.endswith((b"quick", b"held")):
            try:
                piece = await loop.sock_recv(client, 2**16)
            except ConnectionError:
                return found
            if not piece:
                return found
            found += piece
    return found


async def ask(served: Served, client: socket.socket | None = None) -> bytes:
    client = client or served.connect()
    await asyncio.get_running_loop().sock_sendall(client, GET)
    return await answer(client)


@pytest.mark.parametrize("sent", [b"", b"G", HEAD, HEAD + b"Cookie: a"])
async def test_hundreds_of_connections_that_ask_nothing_shut_out_no_client(
    served: Served, sent: bytes
) -> None:
    for _ in range(40):
        for _ in range(10):
            served.connect(sent)
        await asyncio.sleep(0)
    assert (await ask(served)).endswith(b"quick")
    assert len(served.table) <= MOST
    await until(lambda: sum(map(is_open, served.clients)) <= MOST, "connections that have ended stay open")


async def test_a_handshake_that_is_not_finished_shuts_out_no_client() -> None:
    served = Served()
    pair = certificate()
    async with served.serve(server_context(pair.certificate, pair.key)):
        for _ in range(20):
            for _ in range(10):
                served.connect()
            await asyncio.sleep(0)
        await until(lambda: sum(map(is_open, served.clients)) <= MOST)
        served.now = FIRST
        served.table.sweep()
        await until(lambda: not any(map(is_open, served.clients)), "a connection without a handshake stays")
        assert len(served.table) == 0


async def test_a_request_in_work_is_not_ended_and_the_oldest_idle_connection_makes_room(
    served: Served,
) -> None:
    (held,) = await served.open(1, b"GET /held HTTP/1.1\r\nHost: a\r\n\r\n")
    await until(lambda: served.held == 1)
    idle = await served.open(MOST - 1)
    await served.open(1)
    assert await answer(idle[0]) == b""
    assert (await ask(served, idle[1])).endswith(b"quick")
    served.release.set()
    assert (await answer(held)).endswith(b"held")


async def test_where_all_have_a_request_in_work_a_new_connection_is_refused(served: Served) -> None:
    held = await served.open(MOST, b"GET /held HTTP/1.1\r\nHost: a\r\n\r\n")
    await until(lambda: served.held == MOST)
    assert await answer(served.connect()) == b""
    served.release.set()
    for one in held:
        assert (await answer(one)).endswith(b"held")
    assert (await ask(served)).endswith(b"quick")


async def test_the_address_with_the_most_idle_connections_makes_room(served: Served) -> None:
    (mine,) = await served.open(1, host="127.0.0.2")
    await served.open(3 * MOST)
    assert (await ask(served, mine)).endswith(b"quick")


async def test_a_connection_ends_when_its_head_does_not_come_in_time(served: Served) -> None:
    """Bytes that come one by one do not prolong it."""
    (slow,) = await served.open(1, HEAD)
    for served.now in range(int(FIRST)):
        served.table.sweep()
        slow.send(b"X")
        await asyncio.sleep(0)
    assert len(served.table) == 1
    served.now = FIRST
    served.table.sweep()
    assert await answer(slow) == b""


async def test_between_requests_a_connection_is_kept_longer(served: Served) -> None:
    (client,) = await served.open(1)
    assert (await ask(served, client)).endswith(b"quick")
    served.now = IDLE - 1
    served.table.sweep()
    assert (await ask(served, client)).endswith(b"quick")
    served.now += IDLE
    served.table.sweep()
    assert await answer(client) == b""


async def test_an_answer_that_is_not_taken_ends_in_time(served: Served) -> None:
    (slow,) = await served.open(1, GET.replace(b"/", b"/large", 1))
    await until(lambda: served.sent)
    await asyncio.sleep(0.1)
    assert len(served.table) == 1
    served.now = IDLE
    served.table.sweep()
    assert len(served.table) == 0
    await until(lambda: ended(slow), "what is not taken is kept for ever")


async def test_heads_that_are_not_complete_have_bounded_memory_together(served: Served) -> None:
    for _ in range(MOST - 1):
        served.connect(HEAD + b"X-A: " + b"a" * 15_000)
    await until(lambda: served.table._bytes > 2**15 and len(served.table) == 2**16 // 15_000)
    assert served.table._bytes <= 2**16
    assert (await ask(served)).endswith(b"quick")


async def test_the_sweep_runs_while_the_server_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_by, "SWEEP", 0.01)
    served = Served()
    async with served.serve():
        await served.open(1)
        served.now = FIRST
        await until(lambda: len(served.table) == 0)


async def test_a_client_that_leaves_is_forgotten(served: Served) -> None:
    for one in await served.open(MOST):
        one.close()
    await until(lambda: len(served.table) == 0)


def test_the_addresses_of_one_client_are_one() -> None:
    assert network("10.0.0.7") == network("::ffff:10.0.0.7") == "10.0.0.7"
    assert network("2001:db8::1") == network("2001:db8::ffff:1:2") == "2001:db8::/64"
    assert network("2001:db8:0:1::1") == "2001:db8:0:1::/64"
    assert network("fe80::1%eth0") == network("fe80::2%eth1")
    assert network("unknown") == "unknown"


@pytest.mark.parametrize(
    ("soft", "hard", "streams", "most", "raised"),
    [
        (2**20, 2**20, 1000, 3000, None),
        (1024, 4096, 1000, 3000, 4096),
        (1024, 2048, 1000, 1792, 2048),
        (1024, resource.RLIM_INFINITY, 0, 1000, 16_384),
        (1024, resource.RLIM_INFINITY, 10_000, 21_000, 21_256),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, 1000, 3000, None),
        (256, 256, 1000, 64, None),
    ],
)
def test_connections_leave_file_descriptors_for_everything_else(
    soft: int, hard: int, streams: int, most: int, raised: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_to: list[tuple[int, int]] = []
    monkeypatch.setattr(served_by.resource, "getrlimit", lambda _: (soft, hard))
    monkeypatch.setattr(served_by.resource, "setrlimit", lambda _, pair: set_to.append(pair))
    assert room(streams) == most
    assert set_to == ([] if raised is None else [(raised, hard)])


async def test_what_is_no_http_is_refused_without_a_line_in_the_log(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    control = HEAD + b"<script>\x1b[2J\r\n\r\n"
    long = b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n"
    for sent in (b"\x16\x03\x01\r\n\r\n", control, long):
        found = await answer(served.connect(sent))
        assert found.startswith(b"HTTP/1.0 400") and b"text/plain" in found, found
    assert not caplog.records


API: Any = None
"""None of these requests comes so far."""
Run = Callable[..., Coroutine[Any, Any, None]]


def certificate() -> Pair:
    now = datetime.now(UTC)
    return make_certificate(make_authority(now), ["localhost"], now)


def health(_: Pair) -> Run:
    return Health(SystemClock(), Metrics()).run


def webhooks(pair: Pair) -> Run:
    server = WebhookServer(API, [], metrics=Metrics(), linger=0)
    server.show(pair)
    return server.run


def history(pair: Pair) -> Run:
    authorizer = HistoryAuthorizer(API, API, cluster="", monotonic=time.monotonic)
    server = HistoryServer((), None, API, FrontProxy(), authorizer)
    server.certificate.show(pair)
    return partial(server.run, authority=pair.certificate)


@pytest.mark.parametrize("server", [health, webhooks, history])
async def test_every_server_bounds_its_connections(
    server: Callable[[Pair], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `fournos run` starts it, with clients that finish the handshake and ask nothing."""
    monkeypatch.setattr(served_by, "room", lambda streams: MOST)
    port = free_port()
    pair = certificate()
    task = asyncio.create_task(server(pair)(port=port, host="127.0.0.1"))
    tls = None if server is health else unverified()

    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", port, ssl=tls)

    await until(lambda: listens(port))
    idle = [await connect() for _ in range(3 * MOST)]
    await until(lambda: sum(not reader.at_eof() for reader, _ in idle) <= MOST)
    reader, writer = await connect()
    writer.write(GET)
    assert (await reader.readline()).startswith(b"HTTP/1.1 404")
    for _, each in [*idle, (reader, writer)]:
        each.close()
    task.cancel()
    await asyncio.wait([task])


async def test_an_api_server_sends_each_group_of_a_person_in_a_header_of_its_own() -> None:
    port = free_port()
    pair = certificate()
    task = asyncio.create_task(history(pair)(port=port, host="127.0.0.1"))
    await until(lambda: listens(port))
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=unverified())
    writer.write(HEAD + b"".join(b"X-Remote-Group: team-%d\r\n" % number for number in range(400)) + b"\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 404")
    writer.close()
    task.cancel()
    await asyncio.wait([task])


def unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
