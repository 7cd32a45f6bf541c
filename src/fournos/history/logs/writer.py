"""Stores the lines of one container's log: compressed chunks in the blob store, their index in the database.

The database names each chunk before it is written, and its row counts the lines that are valid.  A process
that ends in between leaves a chunk with more lines than its row counts: those are read again from the pod.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol, TypeVar

from fournos.history.blobs import Blobs
from fournos.history.logs.first_failure import FailureScanner
from fournos.history.logs.limits import Memory
from fournos.history.logs.lines import advance, text_of
from fournos.history.logs.models import Chunk, Container, Log
from fournos.history.records import Identity

CHUNK: Final = 256 * 1024
"""Bytes of a chunk before compression, about: one is read to show any line of it."""
_LEVEL: Final = 6
_SHORT: Final = 32 * 1024
"""Bytes that are compressed without a thread: starting one takes longer."""
T = TypeVar("T")


class Rows(Protocol):
    """What of the store is needed here.  Raises its errors."""

    async def claim_blob(self, identity: Identity, key: str, size: int) -> bool: ...
    async def unclaim_blobs(self, keys: list[str]) -> None: ...
    async def log(self, identity: Identity, container: Container) -> tuple[Log, Chunk | None]: ...
    async def put_log(self, identity: Identity, log: Log, chunk: Chunk | None) -> bool: ...
    async def chunks(self, identity: Identity, log: Log, first: int, last: int) -> list[Chunk]: ...


class RunGoneError(Exception):
    """The run was deleted from the history."""


class LogWriter:
    """Writes one log.  `log` is what is stored of it."""

    def __init__(
        self, rows: Rows, blobs: Blobs, identity: Identity, log: Log, last: Chunk | None, memory: Memory
    ) -> None:
        self._rows = rows
        self._blobs = blobs
        self._identity = identity
        self.log = log
        self._last = last
        self._memory = memory
        self._pending: list[bytes] = []
        self.pending_bytes = 0
        self.pending_since = 0.0
        """When the oldest line that is not stored came, by the monotonic clock."""
        self._turn = asyncio.Lock()
        self._unsure = False
        """True after an error: what it was to store may be stored."""

    def add(self, lines: Sequence[bytes], now: float) -> None:
        """Takes lines, which `flush` stores."""
        if not self._pending:
            self.pending_since = now
        self._pending += lines
        self._count(size_of(lines))

    def drop(self) -> None:
        """Forgets the lines that are not stored."""
        self._pending.clear()
        self._count(-self.pending_bytes)

    def _count(self, size: int) -> None:
        self.pending_bytes += size
        self._memory.used += size

    async def flush(self, *, cut: bool = False) -> None:
        """Stores the lines that were added.  Raises RunGoneError, and the errors of the store and the blobs.

        After an error the same call may be made again.
        """
        async with self._turn:
            await self._reread()
            lines = self._pending[:]
            log = replace(self.log, cut=self.log.cut or cut)
            if not lines:
                if log != self.log:
                    await self._put(log, None)
                return
            size = size_of(lines)
            before, chunk = await self._chunk(len(lines), size)
            data = await _beside(len(before) + size, _packed, before, lines)
            if not await self._rows.claim_blob(self._identity, chunk.key, len(data)):
                raise RunGoneError
            await self._blobs.write(chunk.key, data)
            position = advance(log.position, lines)
            log = replace(log, lines=log.lines + len(lines), bytes=log.bytes + size, position=position)
            await self._put(log, chunk)
            self._stored(len(lines))

    async def complete(self, container: Container) -> None:
        """Stores that nothing more follows.  Raises as `flush` does."""
        await self.flush()
        async with self._turn:
            failing = await self._failing_line() if container.exit_code else None
            line, text = failing or (None, "")
            log = replace(self.log, container=container, complete=True, failing_line=line, failing_text=text)
            await self._put(log, None)

    def _stored(self, number: int) -> None:
        self._count(-size_of(self._pending[:number]))
        del self._pending[:number]

    async def _reread(self) -> None:
        """Drops the lines that a write has stored which seemed to fail."""
        if self._unsure:
            found, self._last = await self._rows.log(self._identity, self.log.container)
            self._stored(found.lines - self.log.lines)
            self.log, self._unsure = replace(found, container=self.log.container), False

    async def _put(self, log: Log, chunk: Chunk | None) -> None:
        self._unsure = True
        taken = await self._rows.put_log(self._identity, log, chunk)
        self._unsure = False
        if not taken:
            if chunk is not None:
                await self._blobs.delete([chunk.key])
                await self._rows.unclaim_blobs([chunk.key])
            raise RunGoneError
        self.log, self._last = log, chunk or self._last

    async def _chunk(self, lines: int, size: int) -> tuple[bytes, Chunk]:
        """Returns what is stored of the chunk that takes the lines, and the chunk with them."""
        last = self._last
        if last is not None and last.bytes + size <= CHUNK:
            packed = await self._blobs.read(last.key)
            if packed is not None:
                before = await _beside(last.bytes, first_lines, packed, last.lines)
                return before, replace(last, lines=last.lines + lines, bytes=last.bytes + size)
        number = 0 if last is None else last.number + 1
        container = self.log.container
        key = f"{self._identity.uid}/logs/{container.pod_uid}/{container.name}/{number:06}"
        return b"", Chunk(number, self.log.lines, lines, size, key)

    async def _failing_line(self) -> tuple[int, str] | None:
        """Looks through the stored log: it may have been written by several processes."""
        scanner = FailureScanner()
        for chunk in await self._rows.chunks(self._identity, self.log, 0, self.log.lines):
            packed = await self._blobs.read(chunk.key)
            if packed is not None and await _beside(chunk.bytes, _scan, scanner, chunk, packed):
                break
        return scanner.found()


async def _beside(size: int, call: Callable[..., T], *args: Any) -> T:
    """Calls in a thread if there is much to do: most logs are short."""
    return call(*args) if size < _SHORT else await asyncio.to_thread(call, *args)


def size_of(lines: Sequence[bytes]) -> int:
    """Returns the bytes of lines with their line breaks."""
    return sum(map(len, lines)) + len(lines)


def _packed(before: bytes, lines: Sequence[bytes]) -> bytes:
    return zlib.compress(before + b"\n".join(lines) + b"\n", _LEVEL)


def first_lines(packed: bytes, number: int) -> bytes:
    """Returns the first lines of a chunk; it may have more than its row counts."""
    data = zlib.decompress(packed)
    lines = data.split(b"\n")
    return data if len(lines) == number + 1 else b"".join(line + b"\n" for line in lines[:number])


def _scan(scanner: FailureScanner, chunk: Chunk, packed: bytes) -> bool:
    lines = first_lines(packed, chunk.lines).split(b"\n")[:-1]
    scanner.feed(chunk.first, [text_of(line)[1] for line in lines])
    return scanner.certain
