"""How every server of the process listens: the limits of HTTP, and limits by client."""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

HEADER: Final = 16_384
"""Maximum bytes of a path and of each field of a head: a long token is in one."""
HEADERS: Final = 100
"""Fields of a head."""
IDLE: Final = 120.0
"""Seconds for which a connection may be idle between two requests.

API servers close theirs after 90 s (Go's `IdleConnTimeout`): a server that closes first could cut a request
that is just being sent.
"""
KEPT: Final = 4096
"""Maximum number of keys of a limit; a full one loses the key that was used longest ago."""


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
    "keepalive_timeout": IDLE,
    "lingering_time": 5.0,
    "max_line_size": HEADER,
    "max_field_size": HEADER,
    "max_headers": HEADERS,
    # No client of ours compresses what it sends, and what is small must not become large.
    "auto_decompress": False,
}
"""Of aiohttp's server."""


@asynccontextmanager
async def listening(
    app: web.Application,
    host: str,
    port: int,
    *,
    closing: float,
    headers: int = HEADERS,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[int]:
    """Serves the application on a port, 0 for a free one; yields the port.

    `host` "" is every address, of IPv4 and IPv6; `closing` is the seconds that open requests have at the end;
    `headers` is the number of fields of a head.  Raises OSError.
    """
    runner = web.AppRunner(app, shutdown_timeout=closing, **{**OPTIONS, "max_headers": headers})
    await runner.setup()
    try:
        await web.TCPSite(runner, host or None, port, ssl_context=tls).start()
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def cut(request: web.Request) -> None:
    """Ends the connection of a response whose head is sent: nothing else shows that it is not all of it."""
    if request.transport is not None:
        request.transport.abort()


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
