"""Probes over real sockets: the message for each failure on the way."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from fournos.engine.kube.auth import FixedIdentity, Proof
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import Credentials
from fournos.engine.kube.probe import Probe, probe
from fournos.engine.kube.untrusted_kubeconfig import check
from tests.fakes.clusters import AUTHORITY, kubeconfig
from tests.fakes.pki import Authority, server_context
from tests.unit.engine.kube.server import JOBS

HERE = AUTHORITY.issue("server")


@asynccontextmanager
async def serving(answer: Callable[[], web.Response], tls: ssl.SSLContext | None) -> AsyncIterator[int]:
    async def handle(_: web.Request) -> web.Response:
        return answer()

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    server = TestServer(app)
    await server.start_server(**({"ssl": tls} if tls else {}))
    try:
        assert server.port is not None
        yield server.port
    finally:
        await server.close()


async def probed(server: str, *, limit: float = 60.0) -> Probe:
    checked = check(kubeconfig(server, token="s3cret"), now=datetime.now(UTC))
    found = await probe(
        lambda: Client(checked.credentials, timeout=limit),
        checked,
        before=None,
        since=None,
        limit=limit,
        now=lambda: datetime.now(UTC),
        monotonic=time.monotonic,
    )
    assert "s3cret" not in found.error
    assert found.reachable == (found.unreachable_since is None)
    return found


def version() -> web.Response:
    return web.json_response({"gitVersion": "v1.34.4"})


async def test_a_good_one() -> None:
    async with serving(version, server_context(HERE)) as port:
        found = await probed(f"https://127.0.0.1:{port}")
    assert (found.reachable, found.version, found.reason, found.error) == (True, "v1.34.4", "", "")
    assert found.latency_ms > 0


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda: web.Response(status=302, headers={"Location": "https://a.example"}), "NotAnAPIServer"),
        (lambda: web.Response(status=404, text="s3cret was here"), "NotAnAPIServer"),
        (lambda: web.Response(text="<html>s3cret"), "NotAnAPIServer"),
        (lambda: web.Response(status=401, text="s3cret is wrong"), "Unauthorized"),
        (lambda: web.Response(status=503, text="s3cret"), "ServerError"),
    ],
)
async def test_answers_that_are_not_good_are_not_quoted(answer: Any, reason: str) -> None:
    async with serving(answer, server_context(HERE)) as port:
        found = await probed(f"https://127.0.0.1:{port}")
    assert (found.reachable, found.reason) == (False, reason)
    assert f"127.0.0.1:{port}" in found.error


async def test_a_server_that_speaks_no_tls() -> None:
    async with serving(version, None) as port:
        assert (await probed(f"https://127.0.0.1:{port}")).reason == "TLSFailed"


async def test_a_server_with_a_certificate_of_another_authority_or_name() -> None:
    async with serving(version, server_context(Authority("other").issue("server"))) as port:
        assert (await probed(f"https://127.0.0.1:{port}")).reason == "ServerCertificateInvalid"
    async with serving(version, server_context(AUTHORITY.issue("x", address="10.9.9.9"))) as port:
        assert (await probed(f"https://127.0.0.1:{port}")).reason == "ServerCertificateInvalid"


async def test_a_closed_port() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        found = await probed(f"https://127.0.0.1:{unused.getsockname()[1]}")
    assert found.reason == "ConnectionRefused"


async def test_a_name_without_an_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert (await probed("https://api.example:6443")).reason == "NameNotResolved"


async def test_a_server_that_accepts_connections_and_sends_nothing() -> None:
    held: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda _, writer: held.append(writer), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    started = time.monotonic()
    found = await probed(f"https://127.0.0.1:{port}", limit=0.2)
    assert found.reason == "Timeout"
    assert time.monotonic() - started < 30
    for writer in held:
        writer.close()
    server.close()
    await server.wait_closed()


async def test_a_server_that_hangs_up() -> None:
    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    found = await probed(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    assert found.reason in ("ConnectionFailed", "ConnectionLost")
    server.close()
    await server.wait_closed()


# --- An abandoned connection is closed at once, whatever the server does -----------------------------

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


class DeafServer:
    """Reads one request over TLS, sends `answer`, and never ends TLS itself."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._listener.getsockname()[1]}"
        self.requested = threading.Event()
        self.closed = threading.Event()
        """Set when the client has closed the TCP connection."""
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        with server_context(AUTHORITY.issue("server")).wrap_socket(connection, server_side=True) as tls:
            tls.settimeout(20)
            tls.recv(4096)
            tls.sendall(self._answer)
            self.requested.set()
            # The socket below TLS: only the end of TCP counts, not the client's end of TLS.
            with socket.socket(fileno=os.dup(tls.fileno())) as raw, contextlib.suppress(TimeoutError):
                raw.settimeout(20)
                with contextlib.suppress(ConnectionResetError):
                    while raw.recv(4096):
                        pass
                self.closed.set()

    def close(self) -> None:
        self._thread.join()
        self._listener.close()


@pytest.fixture(params=[b"", HEAD], ids=["no response", "a response without an end"])
def server(request: pytest.FixtureRequest) -> Iterator[DeafServer]:
    found = DeafServer(request.param)
    yield found
    found.close()


async def test_a_connection_that_is_given_up_is_closed_at_once(server: DeafServer) -> None:
    credentials = Credentials(server.url, FixedIdentity(Proof()), ca=AUTHORITY.certificate)
    async with Client(credentials) as client:
        request = asyncio.create_task(client.list(JOBS))
        assert await asyncio.to_thread(server.requested.wait, 20)
        request.cancel()
        await asyncio.gather(request, return_exceptions=True)
        assert await asyncio.to_thread(server.closed.wait, 10)
