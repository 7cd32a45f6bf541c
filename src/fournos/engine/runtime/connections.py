"""The connections of one server: how many are open, and which of them end to make room.

A connection is idle while no request of it is handled: during the handshake, while its head comes slowly,
before the next request, and while its answer is not taken.  Any client can open idle connections, so they are
bounded in number, in time and in bytes; the oldest one of the address that has the most makes room.
A connection whose request is handled is counted and not ended: requests have limits of their own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from fournos.engine.runtime.client_limits import network

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
