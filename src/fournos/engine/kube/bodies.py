"""Bodies of requests and responses: whole, as lines, in pieces; bounded, with typed errors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import BinaryIO, Final

import aiohttp

from fournos.engine.kube.errors import ConnectionLostError, TooLongError

_PIECE: Final = 2**18
"""Bytes of a file that are read at a time."""
_LONGEST_LINE: Final = 2**24
"""Bytes of a line of text; a file of a container's log is shorter."""


async def whole_body(response: aiohttp.ClientResponse, limit: int | None) -> bytes:
    """Returns the body; raises TooLongError if it is longer than `limit` bytes."""
    if limit is None:
        return await response.read()
    chunks: list[bytes] = []
    room = limit
    async for chunk in response.content.iter_any():
        room -= len(chunk)
        if room < 0:
            raise _too_long(limit)
        chunks.append(chunk)
    return b"".join(chunks)


def _too_long(limit: int) -> TooLongError:
    return TooLongError(f"the answer is longer than {limit // 2**20} MiB")


async def lines_of(
    response: aiohttp.ClientResponse, *, limit: int | None = None
) -> AsyncGenerator[bytes, None]:
    """Yields the lines of an endless body, each of any length or of about `limit` bytes at most.

    Raises ConnectionLostError if the body is cut or a line is too long.
    """
    head: list[bytes] = []
    size = 0
    try:
        async for chunk in response.content.iter_any():
            head.append(chunk)
            if b"\n" not in chunk:
                size += len(chunk)
                if limit is not None and size > limit:
                    raise _too_long(limit)
                continue
            *whole, rest = b"".join(head).split(b"\n")
            head, size = [rest], len(rest)
            for line in whole:
                if line:
                    yield line
    except (aiohttp.ClientError, OSError) as error:
        raise ConnectionLostError(f"stream cut: {error or type(error).__name__}") from error
    if last := b"".join(head):
        yield last


async def text_lines(response: aiohttp.ClientResponse) -> AsyncIterator[str]:
    """Yields the lines of an endless text, and closes the response."""
    async with response, aclosing(lines_of(response, limit=_LONGEST_LINE)) as lines:
        async for line in lines:
            yield line.decode(errors="replace")


async def pieces(response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    """Yields a body as it arrives, and closes the response.  Raises ConnectionLostError if it is cut."""
    async with response:
        try:
            async for piece in response.content.iter_any():
                yield piece
        except (aiohttp.ClientError, OSError) as error:
            raise ConnectionLostError(f"the connection was lost: {error}") from error


async def lines_of_text(body: bytes) -> AsyncIterator[str]:
    """Yields the lines of a text that has arrived as a whole."""
    for line in body.decode(errors="replace").splitlines():
        yield line


async def pieces_of_file(file: BinaryIO) -> AsyncIterator[bytes]:
    """Yields a file from its beginning.  Unlike aiohttp it leaves the file open: it may be sent again."""
    file.seek(0)
    while piece := await asyncio.to_thread(file.read, _PIECE):
        yield piece
