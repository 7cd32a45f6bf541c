"""Connections to an API server: fenced writes, and an end at once when they are given up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import aiohttp
from aiohttp.client import ClientTimeout
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ClientRequest, ConnectionKey
from aiohttp.connector import Connection
from aiohttp.tracing import Trace


class Connector(aiohttp.TCPConnector):
    """Checks the fence of each write on its connection, and aborts abandoned TLS connections.

    `guard` runs when a connection is there, immediately before a write is sent on it, and may raise.
    Connecting takes time, and aiohttp itself repeats a PUT or DELETE when a kept connection turns out to be
    closed.  (A trace of aiohttp could run it too, but would cost every request and every chunk.)

    Aborts an abandoned TLS connection, as aiohttp does for those that are open when a session is closed:
    aiohttp closes the connection of a cut watch or of a cancelled request in good order: it waits up to 30 s
    for the peer's end of TLS.  A process that ends, or an event loop that closes, meanwhile leaves the socket
    open, and a server that no longer responds holds one socket for each abandoned request.
    """

    def __init__(self, *, guard: Callable[[], None] | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._guard = guard

    def abandon(self) -> None:
        """Forgets the connections of the parent process after a fork.

        To close them, as the end of the process does, would take them out of the parent's event loop, because
        parent and child share its epoll instance.
        """
        self._closed = True
        self._conns.clear()

    async def connect(
        self,
        req: ClientRequest,
        traces: list[Trace],
        timeout: ClientTimeout,  # noqa: ASYNC109 - aiohttp's signature
    ) -> Connection:
        connection = await super().connect(req, traces, timeout)
        if self._guard is not None and req.method != "GET":
            try:
                self._guard()
            except BaseException:
                connection.release()  # nothing was sent on it
                raise
        return connection

    def _release(self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        if key.is_ssl and (should_close or protocol.should_close):
            protocol.abort()
        super()._release(key, protocol, should_close=should_close)
