"""The logs of runs in the history, also when their pods are gone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypedDict, Unpack
from urllib.parse import urlencode

from fournos.client.errors import (
    MissingError,
    NoHistoryError,
    NoLogError,
    NotAllowedError,
    UnreachableError,
    typed,
    typed_iterator,
)
from fournos.client.history_requests import HistoryRequests
from fournos.client.log_cursor import LogCursor
from fournos.client.logs import LogLine
from fournos.client.retries import repeated
from fournos.engine.kube.transport import Backoff

if TYPE_CHECKING:
    from fournos.history.logs.models import LogPage

LINES: Final = 1000
"""Lines of a page."""
_SOON: Final = 1.0
_SELDOM: Final = 5.0
"""Seconds between two pages of a log that grows, and of one from which nothing comes."""
_PATIENCE: Final = 120.0
"""Seconds that a log is followed further while the history does not answer, such as while it is updated."""


class LogSelection(TypedDict, total=False):
    """Which lines of a run's log are meant; all of the newest attempt without any."""

    task: str
    container: str
    attempt: int | None
    resolver: bool
    """The log of the resolver, which runs before the first attempt."""
    namespace: str | None


@dataclass(frozen=True, slots=True)
class _Asked:
    """The log that is asked for."""

    name: str
    task: str = ""
    container: str = ""
    attempt: int | None = None
    resolver: bool = False
    namespace: str | None = None

    def query(self, first: int, limit: int) -> str:
        attempt = "" if self.attempt is None else str(self.attempt)
        resolver = "true" if self.resolver else ""
        selection = {"task": self.task, "container": self.container, "attempt": attempt, "resolver": resolver}
        given = {name: value for name, value in selection.items() if value}
        return urlencode({"from": first, "limit": limit} | given)

    @property
    def newest(self) -> bool:
        """True if the newest attempt is meant, whichever that is."""
        return self.attempt is None and not self.resolver

    def of(self, attempt: int) -> _Asked:
        """The same of one attempt; before the first one the resolver prints."""
        return replace(self, attempt=attempt or None, resolver=not attempt)


class AsyncLogs(HistoryRequests):
    """The part of `AsyncHistory` for logs."""

    @typed
    async def log_page(
        self, name: str, *, first: int = 1, limit: int = LINES, **selection: Unpack[LogSelection]
    ) -> LogPage:
        """Returns lines of a run's log from the line `first` on, also while it runs.

        Lines count from 1 through the containers of the newest attempt, or of `attempt`, in the order in
        which they started; `task` and `container` select some of them, `resolver` the resolver's log.  The
        page has the first line that shows why the run failed.
        """
        return await self._log_page(_Asked(name, **selection), first, limit)

    @typed_iterator
    async def logs(
        self,
        name: str,
        *,
        first: int = 1,
        tail: int | None = None,
        follow: bool = False,
        **selection: Unpack[LogSelection],
    ) -> AsyncIterator[LogLine]:
        """Yields the lines of a run's log that are stored now, page by page, selected as by `log_page`.

        `tail` is the number of last lines of each container.  With `follow` it goes on as lines are stored,
        through the attempts, until the run has ended; each line comes once, whatever breaks in between.
        Raises MissingError if there is no such run, NoLogError if it has no such log.
        """
        asked = _Asked(name, **selection)
        cursor, printed = LogCursor(first=first, tail=tail), False
        pages = self._followed(asked, cursor, first) if follow else self._stored(asked, cursor, first)
        async with aclosing(pages):
            async for page in pages:
                printed = printed or bool(page.parts)
                for line in cursor.take(page):
                    yield line
        if not printed:
            raise NoLogError(f"the history has no such log of {name}", fix="see the run: fournos get")

    async def _stored(self, asked: _Asked, cursor: LogCursor, first: int) -> AsyncGenerator[LogPage, None]:
        """Yields the pages of what is stored now."""
        begin = first
        while True:
            page = await self._log_page(asked, begin)
            yield page
            following = cursor.following(page)
            if following > page.total or following == begin:
                return
            begin = following

    async def _followed(self, asked: _Asked, cursor: LogCursor, first: int) -> AsyncGenerator[LogPage, None]:
        """Yields pages until the run has ended, one attempt after the other."""
        part = asked
        begin, backoff = first, Backoff(base=_SOON, cap=_SELDOM)
        while True:
            page = await self._soon(part, begin)
            yield page
            following = cursor.following(page)
            if part.newest and page.parts:
                part = part.of(page.parts[0].attempt)
            if begin != following <= page.total:
                backoff.reset()
            elif page.complete:
                later = await self._later(asked, part)
                if later is None:
                    return
                part, following = later, 1
            else:
                await asyncio.sleep(backoff.next())
            begin = following

    async def _later(self, asked: _Asked, read: _Asked) -> _Asked | None:
        """Returns what is asked for of the next attempt; None if the last one was read."""
        if not asked.newest or read.newest:
            return None
        page, attempt = await self._soon(asked, 1, limit=0), read.attempt or 0
        last = not page.parts or page.parts[0].attempt <= attempt
        return None if last and page.complete else asked.of(attempt + 1)

    async def _soon(self, asked: _Asked, first: int, limit: int = LINES) -> LogPage:
        """Returns a page, if need be once the history answers again."""
        return await repeated(lambda: self._log_page(asked, first, limit), seconds=_PATIENCE)

    async def _log_page(self, asked: _Asked, first: int, limit: int = LINES) -> LogPage:
        from fournos.history.logs.models import LogPage

        path = self._path(asked.name, asked.namespace)
        return await self._get(f"{path}/logs?{asked.query(first, limit)}", LogPage)


async def lines_or(error: Exception, lines: AsyncIterator[LogLine]) -> AsyncGenerator[LogLine, None]:
    """Yields the lines of the history.  Raises `error` if it has none, or may not be read."""
    printed = False
    try:
        async for line in lines:
            printed = True
            yield line
    except (MissingError, NoHistoryError, NoLogError, NotAllowedError, UnreachableError):
        if printed:
            raise
    if not printed:
        raise error
