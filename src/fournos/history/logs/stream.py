"""Follows the log of one container from its start to its end, or from where an earlier process stopped."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, TypeVar

from fournos.engine.kube.client import Client
from fournos.engine.kube.errors import ForbiddenError, InvalidError, KubeError, NotFoundError
from fournos.engine.kube.transport import Backoff
from fournos.engine.runtime.clock import Clock
from fournos.history.blobs import Blobs
from fournos.history.logs.limits import TAIL, Cut, LogBudget, Memory
from fournos.history.logs.lines import LineSplitter, Resumption, text_of, written
from fournos.history.logs.masking import Masking
from fournos.history.logs.models import StartedContainer
from fournos.history.logs.slots import Slots
from fournos.history.logs.writer import CHUNK, LogWriter, RunGoneError, size_of
from fournos.history.records import Identity
from fournos.history.store.errors import StoreUnavailableError, StoreUsageError

if TYPE_CHECKING:
    from fournos.history.store.logs import LogRows

log = logging.getLogger(__name__)
T = TypeVar("T")

SETTLE: Final = 5.0
"""Seconds in which the end of a container is expected after the end of its log."""
SMALL: Final = 4096
"""Bytes of lines that one log may always keep in memory."""
_SKEW: Final = timedelta(seconds=2)
_TRIES: Final = 5
"""Requests for the log of an ended container that the API server cannot read, before it counts as gone."""


@dataclass(frozen=True, slots=True)
class StreamContext:
    """The objects that all streams share."""

    rows: Callable[[], Awaitable[LogRows]]
    blobs: Blobs
    slots: Slots
    memory: Memory
    clock: Clock
    present: Callable[[StartedContainer], bool]
    """False if the pod is gone, as far as its watch shows: another one may have its name."""


class _End(Enum):
    """Why a stream ended."""

    WHOLE = auto()
    """The server closed it."""
    LOST = auto()
    GONE = auto()
    """There is no such pod, or its log cannot be read."""
    CUT = auto()


class ContainerStream:
    """Reads and stores the log of one container.  `update` takes each new state of the container."""

    def __init__(
        self,
        container: StartedContainer,
        identity: Identity,
        shared: StreamContext,
        server: Client,
        budget: LogBudget,
    ) -> None:
        self.container = container
        self.done = False
        self.writer: LogWriter | None = None
        """None before the first and after the last line."""
        self._identity = identity
        self._shared = shared
        self._server = server
        self._budget = budget
        self._ended = asyncio.Event()
        self._cut: Cut | None = None
        self._rest: Sequence[bytes] = ()
        self._refused = 0
        self._masking = Masking()
        self._backoff = Backoff(cap=60.0)
        self.update(container)

    def update(self, container: StartedContainer) -> None:
        """Takes the newest state of the container."""
        self.container = container
        if container.ended:
            self._ended.set()

    async def run(self) -> None:
        """Reads the log and stores it, until the log is complete or the history has no such run."""
        try:
            writer = await self._retried(self._opened)
            if not writer.log.complete:
                self.writer = writer
                while not await self._over(await self._read(writer)):
                    pass
                writer.add(self._rest, self._shared.clock.monotonic())
                await self._retried(lambda: writer.complete(self.container))
        except RunGoneError:
            log.info("the history has no run of %s any more: its log is not stored", self.container.pod)
        finally:
            self.done = True
            if self.writer is not None:
                self.writer.drop()
                self.writer = None

    async def _opened(self) -> LogWriter:
        rows = await self._shared.rows()
        stored, last = await rows.log(self._identity, self.container)
        self._budget.stored(stored.bytes)
        return LogWriter(rows, self._shared.blobs, self._identity, stored, last, self._shared.memory)

    async def _retried(self, call: Callable[[], Awaitable[T]]) -> T:
        """Calls until the database and the blob store answer."""
        backoff = Backoff(cap=60.0)
        while True:
            try:
                return await call()
            except (StoreUnavailableError, StoreUsageError, OSError) as error:
                log.warning("the log of %s waits for the history's store: %s", self.container.pod, error)
                await asyncio.sleep(backoff.next())

    # --- one request ---------------------------------------------------------------------------------

    async def _read(self, writer: LogWriter) -> _End:
        """Reads the log to its present end, or until it is cut."""
        await self._retried(writer.flush)
        async with self._shared.slots.taken(self._ended):
            if not self._shared.present(self.container):
                return _End.GONE
            try:
                return await self._lines(writer)
            except (NotFoundError, ForbiddenError) as error:
                log.info("the log of %s cannot be read: %s", self.container.pod, error.message)
                return _End.GONE
            except InvalidError as error:
                # The watch was faster than the kubelet, or the log is gone before its pod.
                self._refused += self.container.ended
                log.debug("the log of %s cannot be read: %s", self.container.pod, error.message)
                return _End.GONE if self._refused >= _TRIES else _End.LOST
            except KubeError as error:
                log.debug("the log of %s was lost: %s", self.container.pod, error.message)
                return _End.LOST

    async def _lines(self, writer: LogWriter) -> _End:
        position, tail = writer.begin(), None
        since = written(position.at) if position.at else ""
        if self._cut is not None and self.container.ended:
            tail, since = TAIL, ""
        elif self._cut is not None:
            since = f"{self._shared.clock.now():%Y-%m-%dT%H:%M:%SZ}"
        whole = self.container.ended
        self._rest = ()
        stream = await self._server.log_stream(
            self.container.pod, container=self.container.name, follow=not whole, since=since, tail=tail
        )
        splitter, resumption = LineSplitter(), Resumption(position)
        async with aclosing(stream) as pieces:
            async for piece in pieces:
                self._backoff.reset()
                lines = resumption.new(splitter.feed(piece))
                if lines and await self._take(writer, lines, limited=tail is None):
                    return _End.CUT
        self._rest = self._masked(resumption.new(splitter.rest()))
        return _End.GONE if whole or tail is not None else _End.WHOLE

    async def _take(self, writer: LogWriter, lines: Sequence[bytes], *, limited: bool) -> bool:
        """Takes lines; True if the log is cut here."""
        now = self._shared.clock.monotonic()
        cut = self._budget.take(size_of(lines), now) if limited else None
        if cut is not None:
            self._cut = cut
            if cut.again_at is not None or not writer.log.cut:
                at = text_of(lines[0])[0]
                writer.add([f"{at} {cut.mark}".encode()], now)
            await self._retried(lambda: writer.flush(cut=True))
            return True
        self._cut = None
        writer.add(self._masked(lines), now)
        memory = self._shared.memory
        if writer.pending_bytes >= CHUNK or (memory.full and writer.pending_bytes >= SMALL):
            # Nothing more is read meanwhile: this is what bounds the memory.
            await self._retried(writer.flush)
        return False

    def _masked(self, lines: Sequence[bytes]) -> Sequence[bytes]:
        split = [text_of(line) for line in lines]
        texts = [text for _, text in split]
        shown = self._masking.lines(texts)
        if shown is texts:
            return lines
        return [f"{at} {text}".encode() for (at, _), text in zip(split, shown, strict=True)]

    # --- the next request --------------------------------------------------------------------------------

    async def _over(self, end: _End) -> bool:
        """Waits until another request is due; True if there is nothing more to read."""
        if end is _End.GONE:
            return True
        if end is _End.CUT:
            assert self._cut is not None
            again = self._cut.again_at
            await self._wait_for_end(None if again is None else again - self._shared.clock.monotonic())
            return False
        if end is _End.WHOLE:
            closed_at = self._shared.clock.now()
            if await self._wait_for_end(SETTLE):
                # The server may have closed a log that went on: then the container has ended later.
                return (self.container.ended_at or closed_at) <= closed_at + _SKEW
        await self._wait_for_end(self._backoff.next())
        return False

    async def _wait_for_end(self, seconds: float | None) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        except TimeoutError:
            return False
        return True
