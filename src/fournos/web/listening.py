"""How the page listens: the limits of HTTP, of connections and of file descriptors."""

from __future__ import annotations

import logging
import resource
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from fournos.web.connections import Connections

HEADER: Final = 16_384
"""Maximum bytes of a path and of each field of a head: a session with a long token takes several cookies."""
_HEADERS: Final = 100
_IDLE: Final = 75.0
"""Seconds that an idle connection is kept for a next request."""
_BESIDE: Final = 1000
"""Connections beside streams and downloads."""
_RESERVED: Final = 256
"""File descriptors for everything else."""
_FEWEST: Final = 64


def _no_client_faults(record: logging.LogRecord) -> bool:
    """What is no HTTP is answered; a line and a stack of each would be a log that any client fills."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_log: Final = logging.getLogger(__name__)
_log.addFilter(_no_client_faults)

OPTIONS: Final[dict[str, Any]] = {
    "access_log": None,
    "logger": _log,
    "keepalive_timeout": _IDLE,
    "lingering_time": 5.0,
    "max_line_size": HEADER,
    "max_field_size": HEADER,
    "max_headers": _HEADERS,
    # Browsers do not compress forms.
    "auto_decompress": False,
}
"""Of aiohttp's server."""


@asynccontextmanager
async def listening(
    app: web.Application,
    host: str,
    port: int,
    *,
    streams: int,
    closing: float,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[int]:
    """Serves the application on a port, 0 for a free one; yields the port.

    `host` "" is every address; `closing` is the seconds that open requests have at the end.  Raises OSError.
    """
    connections = Connections(room(streams))
    connections.watch(app)
    listener = connections.listener(host, port)
    runner = web.AppRunner(app, shutdown_timeout=closing, **OPTIONS)
    try:
        await runner.setup()
        await web.SockSite(runner, listener, ssl_context=tls).start()
        yield listener.getsockname()[1]
    finally:
        await runner.cleanup()
        listener.close()


def room(streams: int) -> int:
    """Returns how many connections may be open; raises the process's limit of files as far as it may."""
    wanted = 2 * streams + _BESIDE
    needed = wanted + _RESERVED
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    allowed = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return max(_FEWEST, min(wanted, allowed - _RESERVED))
