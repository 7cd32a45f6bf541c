"""The logs of runs in the history, also when their pods are gone."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TYPE_CHECKING
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
from fournos.client.history_requests import Requests
from fournos.client.logs import LogLine

if TYPE_CHECKING:
    from fournos.history.logs.models import LogPage


class AsyncLogs(Requests):
    """The part of `AsyncHistory` for logs."""

    @typed
    async def log_page(
        self,
        name: str,
        *,
        task: str = "",
        container: str = "",
        attempt: int | None = None,
        resolver: bool = False,
        first: int = 1,
        limit: int = 1000,
        namespace: str | None = None,
    ) -> LogPage:
        """Returns lines of a run's log from the line `first` on, also while it runs.

        Lines count from 1 through the containers of the newest attempt, or of `attempt`, in the order in
        which they started; `task` and `container` select some of them, `resolver` the resolver's log.  The
        page has the first line that shows why the run failed.
        """
        from fournos.history.logs.models import LogPage

        asked: list[tuple[str, str | int]] = [("from", first), ("limit", limit)]
        asked += [(one, value) for one, value in (("task", task), ("container", container)) if value]
        asked += [("attempt", attempt)] if attempt is not None else []
        asked += [("resolver", "true")] if resolver else []
        found: LogPage = await self._get(f"{self._path(name, namespace)}/logs?{urlencode(asked)}", LogPage)
        return found

    @typed_iterator
    async def logs(
        self,
        name: str,
        *,
        task: str = "",
        container: str = "",
        attempt: int | None = None,
        resolver: bool = False,
        first: int = 1,
        tail: int | None = None,
        namespace: str | None = None,
    ) -> AsyncIterator[LogLine]:
        """Yields the lines of a run's log that are stored now, page by page, selected as by `log_page`.

        `tail` is the number of last lines of each container.  Raises MissingError if there is no such run,
        NoLogError if it has no such log.
        """
        begin, page = first, None
        while page is None or begin <= page.total:
            page = await self.log_page(
                name,
                task=task,
                container=container,
                attempt=attempt,
                resolver=resolver,
                first=begin,
                namespace=namespace,
            )
            if not page.parts:
                raise NoLogError(f"the history has no such log of {name}", fix="see the run: fournos get")
            sources = [part.source(page.parts) for part in page.parts]
            for line in page.lines:
                part = page.parts[line.part]
                if tail is None or line.line >= part.first_line + part.lines - tail:
                    yield LogLine(sources[line.part], line.text)
            if not page.lines:
                return
            begin = page.lines[-1].line + 1


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
