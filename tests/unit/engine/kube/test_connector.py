"""An abandoned connection is closed at once, whatever the server does."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import Iterator

import pytest

from fournos.engine.kube.auth import FixedIdentity, Proof
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import Credentials
from tests.fakes.clusters import AUTHORITY
from tests.fakes.pki import server_context
from tests.unit.engine.kube.server import JOBS

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
