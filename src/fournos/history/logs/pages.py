"""Pages of a run's log: any lines of it, from the chunks that hold them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from fournos.history.blobs import Blobs
from fournos.history.logs.first_failure import first_failed
from fournos.history.logs.lines import text_of
from fournos.history.logs.models import (
    RESOLVER_ATTEMPT,
    FailingLine,
    Log,
    LogPage,
    LogPart,
    StoredLine,
)
from fournos.history.logs.writer import first_lines
from fournos.history.records import Identity

if TYPE_CHECKING:
    from fournos.history.store.logs import LogRows

LARGEST: Final = 4_000_000
"""Bytes of lines after which a page ends, whatever was asked for."""


@dataclass(frozen=True, slots=True)
class LogSelection:
    """Which containers are asked for."""

    task: str = ""
    container: str = ""
    attempt: int | None = None
    """None: the newest one that has a log."""
    resolver: bool = False

    def of(self, logs: Sequence[Log]) -> list[Log]:
        """Returns those of the logs, in their order."""
        attempt = self._wanted
        if attempt is None:
            attempt = _newest(logs)
        return [
            log
            for log in logs
            if log.container.attempt == attempt
            and self.task in ("", log.container.task)
            and self.container in ("", log.container.name, log.container.name.removeprefix("step-"))
        ]

    def is_newest(self, logs: Sequence[Log]) -> bool:
        """True if no later attempt has a log: containers of this one may still start."""
        return self._wanted is None or self._wanted >= _newest(logs)

    @property
    def _wanted(self) -> int | None:
        return RESOLVER_ATTEMPT if self.resolver else self.attempt


def _newest(logs: Sequence[Log]) -> int:
    return max((log.container.attempt for log in logs), default=RESOLVER_ATTEMPT)


class LogReader:
    """The lines of the selected logs of a run, numbered from 1."""

    def __init__(
        self,
        rows: LogRows,
        blobs: Blobs,
        identity: Identity,
        logs: Sequence[Log],
        *,
        over: bool,
        later: bool = False,
    ) -> None:
        """`over`: nothing more will be stored, not even of logs whose end was not seen.

        `later`: further containers may start.
        """
        self._rows = rows
        self._blobs = blobs
        self._identity = identity
        self._logs = logs
        self._over = over
        self._later = later
        self._first = list(accumulate((log.lines for log in logs), initial=1))
        """The number of the first line of each log, and after the last one of the line after all."""

    @property
    def total(self) -> int:
        return self._first[-1] - 1

    @property
    def complete(self) -> bool:
        return self._over or (not self._later and all(log.complete for log in self._logs))

    def parts(self) -> tuple[LogPart, ...]:
        return tuple(
            LogPart(
                attempt=log.container.attempt,
                task=log.container.task,
                container=log.container.name,
                pod=log.container.pod.name,
                first_line=first,
                lines=log.lines,
                bytes=log.bytes,
                complete=self._over or log.complete,
                cut=log.cut,
                started_at=log.container.started_at,
                ended_at=log.container.ended_at,
                exit_code=log.container.exit_code,
            )
            for log, first in zip(self._logs, self._first, strict=False)
        )

    def failure(self) -> FailingLine | None:
        log = first_failed(self._logs)
        if log is None:
            return None
        assert log.failing_line is not None
        return FailingLine(
            line=self._first[self._logs.index(log)] + log.failing_line,
            task=log.container.task,
            container=log.container.name,
            exit_code=log.container.exit_code or 0,
            text=log.failing_text,
        )

    async def page(self, first: int, limit: int) -> LogPage:
        """Returns up to `limit` lines from the line `first` on."""
        lines: list[StoredLine] = []
        size = 0
        async for line in self.lines(first, first + limit):
            lines.append(line)
            size += len(line.text)
            if size >= LARGEST:
                break
        following = lines[-1].line + 1 if lines else max(1, min(first, self.total + 1))
        more = following <= self.total or not self.complete
        return LogPage(
            self.parts(), tuple(lines), self.total, following if more else None, self.failure(), self.complete
        )

    async def lines(self, first: int, last: int) -> AsyncIterator[StoredLine]:
        """Yields the lines from `first` to before `last`; one chunk is in memory at a time."""
        for part, log in enumerate(self._logs):
            start, end = first - self._first[part], min(last - self._first[part], log.lines)
            if end <= 0 or start >= log.lines:
                continue
            async for number, raw in self._of(log, max(start, 0), end):
                at, text = text_of(raw)
                yield StoredLine(self._first[part] + number, part, at, text)

    async def _of(self, log: Log, first: int, last: int) -> AsyncIterator[tuple[int, bytes]]:
        for chunk in await self._rows.chunks(self._identity, log, first, last):
            packed = await self._blobs.read(chunk.key)
            lines = (
                [b"[fournos: these lines are lost: their file is missing]"] * chunk.lines
                if packed is None
                else (await asyncio.to_thread(first_lines, packed, chunk.lines)).split(b"\n")[:-1]
            )
            start = max(first - chunk.first, 0)
            for number, line in enumerate(lines[start : last - chunk.first], chunk.first + start):
                yield number, line
