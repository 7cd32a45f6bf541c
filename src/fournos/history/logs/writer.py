"""Stores the lines of one container's log: compressed chunks in the blob store, their index in the database.

The database names each chunk before it is written, and its row counts the lines that are valid.  A process
that ends in between leaves a chunk with more lines than its row counts: those are read again from the pod.

Two recorders may follow one container for a while, such as when one takes over.  Each writes chunks of its
own, and a write counts only if the other has stored nothing meanwhile; else what it has stored is left out.
"""

from __future__ import annotations

import asyncio
import secrets
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from fournos.history.blobs import Blobs
from fournos.history.logs.first_failure import FailureScanner
from fournos.history.logs.limits import Memory
from fournos.history.logs.lines import advance, text_of
from fournos.history.logs.models import Chunk, Log, Position, Put, StartedContainer
from fournos.history.records import Identity

if TYPE_CHECKING:
    from fournos.history.store.logs import LogRows

CHUNK: Final = 256 * 1024
"""Bytes of a chunk before compression, about: one is read to show any line of it."""
_LEVEL: Final = 6
_SHORT: Final = 32 * 1024
"""Bytes that are compressed without a thread: starting one takes longer."""
T = TypeVar("T")


class RunGoneError(Exception):
    """The run was deleted from the history."""


class LogWriter:
    """Writes one log.  `log` is what is stored of it."""

    def __init__(
        self, rows: LogRows, blobs: Blobs, identity: Identity, log: Log, last: Chunk | None, memory: Memory
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
        """True when lines may be stored that are not counted here: after an error, or by another process."""
        self._ahead = 0
        """The number of the next lines that another process has stored."""
        self._mine = secrets.token_hex(4)

    def begin(self) -> Position:
        """Returns the position after the last stored line: the lines after it are those to be added."""
        self._ahead = 0
        return self.log.position

    def add(self, lines: Sequence[bytes], now: float) -> None:
        """Takes lines, which `flush` stores."""
        skipped = min(self._ahead, len(lines))
        self._ahead -= skipped
        lines = lines[skipped:]
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
            while not await self._flushed(cut=cut):
                pass

    async def _flushed(self, *, cut: bool) -> bool:
        """Stores the pending lines; returns False if another process has stored lines meanwhile."""
        await self._reread()
        lines = self._pending[:]
        log = replace(self.log, cut=self.log.cut or cut)
        if not lines:
            return log == self.log or await self._put(log, None)
        size = size_of(lines)
        before, chunk = await self._chunk(len(lines), size)
        data = await _beside(len(before) + size, _packed, before, lines)
        if not await self._rows.claim_blob(self._identity, chunk.key, len(data)):
            raise RunGoneError
        await self._blobs.write(chunk.key, data)
        position = advance(log.position, lines)
        log = replace(log, lines=log.lines + len(lines), bytes=log.bytes + size, position=position)
        stored = await self._put(log, chunk)
        if stored:
            self._stored(len(lines))
        return stored

    async def complete(self, container: StartedContainer) -> None:
        """Stores that nothing more follows.  Raises as `flush` does."""
        stored = False
        while not stored:
            await self.flush()
            async with self._turn:
                failing = await self._failing_line() if container.exit_code else None
                line, text = failing or (None, "")
                stored = await self._put(
                    replace(
                        self.log, container=container, complete=True, failing_line=line, failing_text=text
                    ),
                    None,
                )

    def _stored(self, number: int) -> None:
        self._count(-size_of(self._pending[:number]))
        del self._pending[:number]

    async def _reread(self) -> None:
        """Drops the lines that are stored: by a write which seemed to fail, or by another process."""
        if self._unsure:
            stored, self._last = await self._rows.log(self._identity, self.log.container)
            number = stored.lines - self.log.lines
            if number < 0:
                # The run was deleted and recorded anew, or the database was restored: nothing that waits is
                # stored.  The chunks from before may be waiting for their deletion.
                number, self._mine = 0, secrets.token_hex(4)
            self._ahead += max(0, number - len(self._pending))
            self._stored(number)
            self.log, self._unsure = replace(stored, container=self.log.container), False

    async def _put(self, log: Log, chunk: Chunk | None) -> bool:
        """Stores the state of the log.  False: another process has stored lines meanwhile."""
        self._unsure = True
        put = await self._rows.put_log(self._identity, log, chunk, after=self.log.lines)
        if put is Put.STORED:
            self.log, self._last, self._unsure = log, chunk or self._last, False
            return True
        if chunk is not None and (put is Put.NO_RUN or chunk.first == self.log.lines):
            # A chunk that has grown is named by a row, which counts the lines from before.
            await self._blobs.delete([chunk.key])
            await self._rows.unclaim_blobs([chunk.key])
        if put is Put.NO_RUN:
            raise RunGoneError
        return False

    async def _chunk(self, lines: int, size: int) -> tuple[bytes, Chunk]:
        """Returns what is stored of the chunk that takes the lines, and the chunk with them."""
        last = self._last
        if last is not None and last.key.endswith(self._mine) and last.bytes + size <= CHUNK:
            packed = await self._blobs.read(last.key)
            if packed is not None:
                before = await _beside(last.bytes, first_lines, packed, last.lines)
                return before, replace(last, lines=last.lines + lines, bytes=last.bytes + size)
        number = 0 if last is None else last.number + 1
        container = self.log.container
        key = f"{self._identity.uid}/logs/{container.pod_uid}/{container.name}/{number:06}-{self._mine}"
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
