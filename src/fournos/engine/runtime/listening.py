"""How every server of the process listens: the limits of HTTP, of connections and of file descriptors.

Connections are accepted here and not by the event loop, so that each is counted from its first packet on, in
any event loop: a handshake that is not finished is a connection, too.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import resource
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

# --- limits by client -------------------------------------------------------------------------------
# Limits by client, where its address is known; behind a proxy or an API server all have one address.

KEPT: Final = 4096
"""Maximum number of keys; a full limiter loses the one that was used longest ago."""
REVIEWS: Final = (2.0, 40)
"""Reviews of unknown tokens of one address: per second over time, and at once."""


def network(address: str) -> str:
    """Returns the key by which limits count a client: its IPv4 address, or its IPv6 network (/64).

    One client has all addresses of a /64.  A text that is not an address is returned unchanged.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    return str(parsed.ipv4_mapped or ipaddress.IPv6Network((int(parsed) >> 64 << 64, 64)))


class RateLimit:
    """Allows each key `burst` calls at once and `per_second` over time."""

    def __init__(self, per_second: float, burst: int, *, monotonic: Callable[[], float]) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._monotonic = monotonic
        self._kept: dict[str, tuple[float, float]] = {}
        """Key → the tokens left and the time of that."""

    def take(self, key: str) -> int:
        """Counts a call.  Returns 0 if it is allowed, else the seconds until the next one, at least 1."""
        now = self._monotonic()
        tokens, since = self._kept.pop(key, (self._burst, now))
        tokens = min(self._burst, tokens + (now - since) * self._per_second)
        allowed = tokens >= 1
        self._kept[key] = (tokens - 1 if allowed else tokens, now)
        if len(self._kept) > KEPT:
            del self._kept[next(iter(self._kept))]
        return 0 if allowed else max(1, round((1 - tokens) / self._per_second))


# --- connections ------------------------------------------------------------------------------------
# The connections of one server: how many are open, and which of them end to make room.
#
# A connection is idle while no request of it is handled: during the handshake, while its head comes slowly,
# before the next request, and while its answer is not taken.  Any client can open idle connections, so they
# are bounded in number, in time and in bytes; the oldest one of the address that has the most makes room.
# A connection whose request is handled is counted and not ended: requests have limits of their own.

log = logging.getLogger(__name__)

FIRST: Final = 20.0
"""Seconds from the connection to the end of its first request's head, the handshake included."""
IDLE: Final = 120.0
"""Seconds from one request to the end of the next one's head, and for taking an answer.

API servers close theirs after 90 s (Go's `IdleConnTimeout`): a server that closes first could cut a request
that is just being sent.
"""
BYTES: Final = 2**24
"""Bytes that all idle connections together have sent: the heads of requests that are not complete."""
_WARN: Final = 60.0
"""Seconds between two warnings at least."""


@dataclass(slots=True, eq=False)
class OpenConnection:
    """A connection of a client."""

    network: str
    """The client, as `client_limits.network` counts it."""
    end: Callable[[], None]
    """Ends the connection."""
    since: float = 0.0
    limit: float = 0.0
    """Seconds for which it may be idle."""
    received: int = 0
    """Bytes since it is idle."""
    idle: bool = False
    open: bool = True


class Connections:
    """The connections of one server."""

    def __init__(
        self, most: int, *, most_bytes: int = BYTES, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._monotonic = monotonic
        self._idle: dict[str, dict[OpenConnection, None]] = {}
        """By network, each in the order in which they became idle."""
        self._open = 0
        self._bytes = 0
        self._warned = -_WARN

    def __len__(self) -> int:
        return self._open

    def admit(self, address: str, end: Callable[[], None]) -> OpenConnection | None:
        """Returns the connection of a client; None if there is no room for it."""
        if self._open >= self._most:
            self._warn()
            if not self._idle:
                return None
            largest = max(self._idle.values(), key=len)
            self._end(next(iter(largest)))
        connection = OpenConnection(network(address), end)
        self._open += 1
        self._rest(connection, FIRST)
        return connection

    def received(self, connection: OpenConnection, count: int) -> None:
        """Counts bytes; those of a request in work are bounded by what handles it."""
        if connection.idle:
            connection.received += count
            self._bytes += count
            while self._bytes > self._most_bytes:
                self._warn()
                self._end(max(self._all_idle(), key=lambda each: each.received))

    def closed(self, connection: OpenConnection) -> None:
        """Forgets the connection; called at least once for each that was admitted."""
        if connection.open:
            connection.open = False
            self._open -= 1
            if connection.idle:
                self._leave(connection)

    @contextmanager
    def working(self, connection: OpenConnection) -> Iterator[None]:
        """Counts the connection as not idle for the time in which a request of it is handled."""
        if not connection.idle:
            yield
            return
        self._leave(connection)
        try:
            yield
        finally:
            if connection.open:
                self._rest(connection, IDLE)

    def sweep(self) -> None:
        """Ends the connections that were idle for too long."""
        now = self._monotonic()
        for connection in self._all_idle():
            if now - connection.since >= connection.limit:
                self._end(connection)

    def _rest(self, connection: OpenConnection, limit: float) -> None:
        connection.idle, connection.since, connection.limit = True, self._monotonic(), limit
        self._idle.setdefault(connection.network, {})[connection] = None

    def _leave(self, connection: OpenConnection) -> None:
        self._bytes -= connection.received
        connection.idle, connection.received = False, 0
        group = self._idle[connection.network]
        del group[connection]
        if not group:
            del self._idle[connection.network]

    def _all_idle(self) -> list[OpenConnection]:
        return [connection for group in self._idle.values() for connection in group]

    def _end(self, connection: OpenConnection) -> None:
        self.closed(connection)
        connection.end()

    def _warn(self) -> None:
        if (now := self._monotonic()) - self._warned >= _WARN:
            self._warned = now
            log.warning("idle connections end to make room: %d are open", self._open)


HEADER: Final = 16_384
"""Maximum bytes of a path and of each field of a head: a session with a long token takes several cookies."""
HEADERS: Final = 100
"""Fields of a head."""
SWEEP: Final = 5.0
"""Seconds between two looks for connections that are idle for too long."""
_BESIDE: Final = 1000
"""Connections beside streams: API servers open one for each request that is under way."""
_RESERVED: Final = 256
"""File descriptors for everything else."""
_FEWEST: Final = 64
_DESCRIPTORS: Final = 16_384
"""File descriptors that a process with several servers may need."""
_BACKLOG: Final = 1024
_REST: Final = 0.1
"""Seconds until the next try when a connection cannot be accepted, such as without a free descriptor."""


def _no_client_faults(record: logging.LogRecord) -> bool:
    """Drops the log records of requests that are not HTTP.

    The server answers them with an error.  With a stack trace of each, any client could fill the log.
    """
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_log: Final = logging.getLogger(__name__)
_log.addFilter(_no_client_faults)

OPTIONS: Final[dict[str, Any]] = {
    "access_log": None,
    "logger": _log,
    "lingering_time": 5.0,
    "max_line_size": HEADER,
    "max_field_size": HEADER,
    "max_headers": HEADERS,
    # No client of ours compresses what it sends, and what is small must not become large.
    "auto_decompress": False,
}
"""Of aiohttp's server.  `Connections` ends idle connections before aiohttp does."""


class _Handler(web.RequestHandler):
    """Speaks HTTP on a connection, and reports to the table what becomes of it."""

    __slots__ = ("connection", "table")
    connection: OpenConnection
    table: Connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.connection.end = cast(asyncio.Transport, transport).abort
        super().connection_made(transport)
        if not self.connection.open:
            self.connection.end()

    def data_received(self, data: bytes) -> None:
        self.table.received(self.connection, len(data))
        super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.table.closed(self.connection)
        super().connection_lost(exc)


@asynccontextmanager
async def listening(
    app: web.Application,
    host: str,
    port: int,
    *,
    closing: float,
    streams: int = 0,
    headers: int = HEADERS,
    tls: ssl.SSLContext | None = None,
    table: Connections | None = None,
) -> AsyncIterator[int]:
    """Serves the application on a port, 0 for a free one; yields the port.

    `host` "" is every address, of IPv4 and IPv6; `closing` is the seconds that open requests have at the end;
    `streams` is the number of answers that last, `headers` that of the fields of a head.  Raises OSError.
    """
    table = Connections(room(streams)) if table is None else table
    app.middlewares.insert(0, _counted)
    options = {**OPTIONS, "max_headers": headers}
    runner = web.AppRunner(app, shutdown_timeout=closing, **options)
    await runner.setup()
    tasks: list[asyncio.Task[None]] = []
    try:
        with _listener(host, port) as listener:
            tasks.append(asyncio.create_task(_sweep(table)))
            tasks.append(asyncio.create_task(_accept(listener, runner, options, table, tls)))
            yield listener.getsockname()[1]
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await runner.cleanup()


def cut(request: web.Request) -> None:
    """Ends the connection of a response whose head is sent: nothing else shows that it is not all of it."""
    if request.transport is not None:
        request.transport.abort()


def _listener(host: str, port: int) -> socket.socket:
    both = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both or ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=both)
    listener.setblocking(False)
    return listener


async def _accept(
    listener: socket.socket,
    runner: web.AppRunner,
    options: Mapping[str, Any],
    table: Connections,
    tls: ssl.SSLContext | None,
) -> None:
    loop = asyncio.get_running_loop()
    assert runner.server is not None
    starting: set[asyncio.Task[None]] = set()
    try:
        while True:
            try:
                accepted, address = await loop.sock_accept(listener)
            except OSError:
                await asyncio.sleep(_REST)
                continue
            connection = table.admit(str(address[0]), partial(_hang_up, accepted))
            if connection is None:
                accepted.close()
            else:
                handler = _Handler(runner.server, loop=loop, **options)
                handler.connection, handler.table = connection, table
                task = asyncio.create_task(_start(accepted, handler, tls))
                starting.add(task)
                task.add_done_callback(starting.discard)
            # A flood of connections leaves time for what is open, and for closing what has ended.
            await asyncio.sleep(0)
    finally:
        for task in starting:
            task.cancel()


async def _start(accepted: socket.socket, handler: _Handler, tls: ssl.SSLContext | None) -> None:
    """Hands the connection to the event loop, and waits for its TLS handshake."""
    timeout = FIRST if tls is not None else None
    try:
        await asyncio.get_running_loop().connect_accepted_socket(
            lambda: handler, accepted, ssl=tls, ssl_handshake_timeout=timeout
        )
    except OSError:  # the client has gone, or does not speak TLS
        handler.table.closed(handler.connection)


def _hang_up(accepted: socket.socket) -> None:
    """Ends a connection before its handshake is finished: the event loop finds it ended, and closes it."""
    with suppress(OSError):  # the client has ended it
        accepted.shutdown(socket.SHUT_RDWR)


@web.middleware
async def _counted(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    assert isinstance(request.protocol, _Handler)
    with request.protocol.table.working(request.protocol.connection):
        return await handler(request)


async def _sweep(table: Connections) -> None:
    while True:
        await asyncio.sleep(SWEEP)
        table.sweep()


def room(streams: int) -> int:
    """Returns how many connections may be open; raises the process's limit of files as far as it may."""
    most = 2 * streams + _BESIDE
    needed = max(most + _RESERVED, _DESCRIPTORS)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return max(_FEWEST, min(most, allowed - _RESERVED))
