"""The logs of runs in the history, also when their pods are gone."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, TypedDict, Unpack, cast
from urllib.parse import quote

from fournos.client.errors import (
    MissingError,
    NoHistoryError,
    NoLogError,
    NotAllowedError,
    UnreachableError,
    typed,
    typed_iterator,
)
from fournos.client.history_requests import PREFIX, HistoryRequests, missing
from fournos.client.logs import LogLine

if TYPE_CHECKING:
    from fournos.history.logs.stored import ContainerLog


class LogSelection(TypedDict, total=False):
    """Which logs of a run are meant; all of the newest attempt without any."""

    task: str
    container: str
    attempt: int | None
    resolver: bool
    """The log of the resolver, which runs before the first attempt."""


class AsyncLogs(HistoryRequests):
    """The part of `AsyncHistory` for logs."""

    @typed
    async def stored_logs(
        self, name: str, *, namespace: str | None = None, **selection: Unpack[LogSelection]
    ) -> list[ContainerLog]:
        """Returns what is stored of the logs of a run: one entry a container, in the order of their starts.

        A log is stored when its container has ended.  The entry of a container that failed has the first line
        that shows why.  Raises MissingError if there is no such run.
        """
        from fournos.history.logs.stored import ContainerLog, chosen

        logs = await self._get(f"{self._path(name, namespace)}/logs", list[ContainerLog])
        return chosen(logs, **selection)

    @typed_iterator
    async def logs(
        self,
        name: str,
        *,
        tail: int | None = None,
        namespace: str | None = None,
        **selection: Unpack[LogSelection],
    ) -> AsyncIterator[LogLine]:
        """Yields the lines of the stored logs of a run, selected as by `stored_logs`.

        `tail` is the number of last lines of each container.  Raises MissingError if there is no such run,
        NoLogError if it has no such log.
        """
        logs = await self.stored_logs(name, namespace=namespace, **selection)
        if not logs:
            raise NoLogError(f"the history has no such log of {name}", fix="see the run: fournos get")
        for log in logs:
            source = log.source(logs)
            async with aclosing(cast(AsyncGenerator[str, None], self.log(name, log, namespace))) as lines:
                if tail is None:
                    async for line in lines:
                        yield LogLine(source, line)
                else:
                    for line in deque([line async for line in lines], maxlen=tail):
                        yield LogLine(source, line)

    @typed_iterator
    async def log(self, name: str, log: ContainerLog, namespace: str | None = None) -> AsyncIterator[str]:
        """Yields the lines of one of `stored_logs`."""
        path = f"{self._path(name, namespace)}/logs/{quote(log.pod, safe='')}/{quote(log.container, safe='')}"
        where, rest = PREFIX + path, b""
        with missing():
            async with aclosing(await self._read(lambda: self._api.raw_stream(where))) as pieces:
                async for piece in pieces:
                    *lines, rest = (rest + piece).split(b"\n")
                    for line in lines:
                        yield line.decode(errors="replace")
        if rest:
            yield rest.decode(errors="replace")


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
