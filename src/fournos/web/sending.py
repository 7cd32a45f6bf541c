"""Sends files in pieces: bounded in number, never interpreted by a browser."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from typing import Any, Final, cast
from urllib.parse import quote

from aiohttp import web

from fournos.client.errors import FournosError
from fournos.engine.kube.errors import KubeError
from fournos.engine.runtime.listening import cut
from fournos.web.errors import PageError
from fournos.web.routes import Content

ALL: Final = 100
EACH: Final = 8
"""Downloads of one person at the same time."""
_SLOW: Final = 30.0
"""Seconds for which a reader may take nothing before its connection is closed."""
_BUSY: Final = {"Retry-After": "10"}
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")


class Sending:
    """The files that are being sent."""

    def __init__(self, *, most: int = ALL, each: int = EACH) -> None:
        self._most = most
        self._each = each
        self._open: Counter[str] = Counter()

    @contextmanager
    def counted(self, person: str) -> Iterator[None]:
        """Raises PageError if no further file may be sent."""
        if self._open.total() >= self._most or self._open[person] >= self._each:
            raise PageError(
                503,
                "Too many downloads",
                "As many files as allowed are being sent.",
                "Wait for the end of one.",
                headers=_BUSY,
            )
        self._open[person] += 1
        try:
            yield
        finally:
            self._open[person] -= 1

    async def send(self, request: web.Request, content: Content) -> web.StreamResponse:
        """Sends all pieces.  An error before the first one is raised."""
        async with aclosing(cast(Any, content.pieces)) as pieces:
            first: bytes = await anext(pieces, b"")
            response = web.StreamResponse(headers=_headers(content.filename))
            await response.prepare(request)
            try:
                await self._write(response, first)
                async for piece in pieces:
                    await self._write(response, piece)
                await response.write_eof()
            except ConnectionError:  # the reader has gone
                pass
            except (TimeoutError, KubeError, FournosError):
                cut(request)
        return response

    async def _write(self, response: web.StreamResponse, piece: bytes) -> None:
        async with asyncio.timeout(_SLOW):
            await response.write(piece)


def _headers(filename: str) -> dict[str, str]:
    exact = quote(filename, safe="")
    plain = _UNSAFE.sub("_", filename).strip("._") or "file"
    return {
        "Content-Type": "application/octet-stream",
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{exact}",
        "Cache-Control": "private, no-store",
        "X-Accel-Buffering": "no",
    }
