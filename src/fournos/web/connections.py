"""TCP connections: how many are open, and which of them end to make room.

A connection is idle while no request of it is handled: during the handshake, while its head comes slowly,
before the next request, and while its answer is not taken.  Any client can open idle connections, so they are
bounded in number, in time and in bytes; the oldest one of the address that has the most makes room.
A connection whose request is handled is counted and not ended: requests have limits of their own.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from aiohttp import web

from fournos.web.identity.address import network

log = logging.getLogger(__name__)

FIRST: Final = 20.0
"""Seconds from the connection to the end of its first request's head."""
IDLE: Final = 90.0
"""Seconds from one request to the end of the next one's head, and for taking an answer."""
SWEEP: Final = 5.0
BYTES: Final = 2**25
"""Bytes that all idle connections together have sent: the heads of requests that are not complete."""
_WARN: Final = 60.0
"""Seconds between two warnings at least."""


class Connection(socket.socket):
    """A connection of a client."""

    table: Connections
    network: str
    number: int
    """The file descriptor."""
    since: float
    limit: float
    """Seconds for which it may be idle."""
    received: int
    """Bytes since it is idle."""
    idle: bool

    def recv(self, *given: Any) -> bytes:
        found = super().recv(*given)
        self.table.read(self, len(found))
        return found

    def recv_into(self, *given: Any) -> int:
        found = super().recv_into(*given)
        self.table.read(self, found)
        return found

    def close(self) -> None:
        self.table.closed(self)
        super().close()


class Listener(socket.socket):
    """A listening socket whose connections are bounded."""

    table: Connections

    def accept(self) -> tuple[socket.socket, Any]:
        """Raises ConnectionAbortedError for a connection that is refused: event loops go on then."""
        plain, address = super().accept()
        found = Connection(plain.family, plain.type, plain.proto, plain.detach())
        self.table.admit(found, str(address[0]))
        return found, address


class Connections:
    """The connections of one server."""

    def __init__(
        self, most: int, *, most_bytes: int = BYTES, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._monotonic = monotonic
        self._idle: dict[str, dict[Connection, None]] = {}
        """By network, each in the order in which they became idle."""
        self._known: dict[int, Connection] = {}
        self._open = 0
        """Those that were not ended here; an ended one is known until the event loop closes it."""
        self._bytes = 0
        self._warned = -_WARN

    def __len__(self) -> int:
        return self._open

    def listener(self, host: str, port: int) -> Listener:
        """Returns a bound socket; `host` "" is every address, of IPv4 and IPv6.  Raises OSError."""
        both = not host and socket.has_dualstack_ipv6()
        found = Listener(socket.AF_INET6 if both else socket.AF_INET, socket.SOCK_STREAM)
        found.table = self
        try:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if both:
                found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            found.bind((host, port))
        except OSError:
            found.close()
            raise
        return found

    def watch(self, app: web.Application) -> None:
        """Adds to the application what distinguishes idle connections from those with a request in work."""
        app.middlewares.insert(0, self._counted)
        app.cleanup_ctx.append(self._sweeping)

    # --- what sockets report ---------------------------------------------------------------------------

    def admit(self, one: Connection, address: str) -> None:
        """Raises ConnectionAbortedError if there is no room."""
        one.table, one.number, one.network = self, one.fileno(), network(address)
        one.idle, one.received = False, 0
        full = self._open >= self._most
        if full:
            self._warn()
        if full and not self._make_room():
            one.close()
            raise ConnectionAbortedError
        self._known[one.number] = one
        self._open += 1
        self._rest(one, FIRST)

    def read(self, one: Connection, count: int) -> None:
        if one.idle:
            one.received += count
            self._bytes += count
            while self._bytes > self._most_bytes:
                self._warn()
                self._end(max(self._all_idle(), key=lambda each: each.received))

    def closed(self, one: Connection) -> None:
        if self._known.get(one.number) is one:
            del self._known[one.number]
            if one.idle:
                self._leave(one)
            self._open -= one.limit > 0

    # --- idle or not -----------------------------------------------------------------------------------

    @contextmanager
    def working(self, one: Connection | None) -> Iterator[None]:
        """Counts the connection as not idle for the time in which a request of it is handled."""
        if one is None or not one.idle:
            yield
            return
        self._leave(one)
        try:
            yield
        finally:
            if self._known.get(one.number) is one:
                self._rest(one, IDLE)

    def _rest(self, one: Connection, limit: float) -> None:
        one.idle, one.since, one.limit, one.received = True, self._monotonic(), limit, 0
        self._idle.setdefault(one.network, {})[one] = None

    def _leave(self, one: Connection) -> None:
        one.idle = False
        self._bytes -= one.received
        group = self._idle[one.network]
        del group[one]
        if not group:
            del self._idle[one.network]

    def _all_idle(self) -> list[Connection]:
        return [one for group in self._idle.values() for one in group]

    # --- ending ----------------------------------------------------------------------------------------

    def _make_room(self) -> bool:
        if not self._idle:
            return False
        largest = max(self._idle.values(), key=len)
        self._end(next(iter(largest)))
        return True

    def _end(self, one: Connection) -> None:
        """The event loop finds the connection ended, and closes it."""
        self._leave(one)
        self._open -= 1
        one.limit = 0.0
        with suppress(OSError):  # the client has ended it
            one.shutdown(socket.SHUT_RDWR)

    def sweep(self) -> None:
        """Ends the connections that were idle for too long."""
        now = self._monotonic()
        for one in self._all_idle():
            if now - one.since >= one.limit:
                self._end(one)

    def _warn(self) -> None:
        if (now := self._monotonic()) - self._warned >= _WARN:
            self._warned = now
            log.warning("idle connections end to make room: %d are open", self._open)

    # --- the application -------------------------------------------------------------------------------

    @web.middleware
    async def _counted(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        found = request.transport and request.transport.get_extra_info("socket")
        with self.working(self._known.get(found.fileno()) if found else None):
            return await handler(request)

    async def _sweeping(self, _: web.Application) -> AsyncIterator[None]:
        async def sweep() -> None:
            while True:
                await asyncio.sleep(SWEEP)
                self.sweep()

        task = asyncio.create_task(sweep())
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
