"""The route of logs: pages of lines, or all of them as text; of runs that are over and of those under way."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from aiohttp import web
from pydantic import Field

from fournos.history.api.authorization import Access
from fournos.history.api.errors import NotFoundError
from fournos.history.api.parameters import Scoped, Text
from fournos.history.api.routes import ApiCall, Route, streamed
from fournos.history.api.runs import found
from fournos.history.logs.models import LogPage
from fournos.history.logs.pages import LogReader, LogSelection
from fournos.history.records import Ending

if TYPE_CHECKING:
    from fournos.history.api.service import HistoryService

LINES: Final = 1000
_OVER: Final = timedelta(minutes=30)
"""So long after the end of a run nothing more is expected of its logs."""
_PIECE: Final = 2**16


class LogFilter(Scoped):
    """Which lines are shown."""

    kind: Text = Field("", description="Kind, where runs of several kinds have this name.")
    task: Text = Field("", description="Only this task of the Pipeline.")
    container: Text = Field("", description="Only this container, or this step.")
    attempt: int | None = Field(None, ge=1, description="Of this attempt; without it, of the newest.")
    resolver: bool = Field(False, description="The log of the resolver in place of those of tasks.")
    from_line: int = Field(1, ge=1, alias="from", description="The number of the first line, from 1.")
    limit: int = Field(LINES, ge=0, le=10_000, description="Maximum number of lines.")
    tail: int | None = Field(None, ge=1, le=10_000, description="The last lines, in place of `from`.")
    download: bool = Field(False, description="All lines from `from` on as text/plain, without a limit.")
    timestamps: bool = Field(False, description="The text has the times of the lines.")

    @property
    def selection(self) -> LogSelection:
        return LogSelection(self.task, self.container, self.attempt, self.resolver)


async def get_logs(service: HistoryService, call: ApiCall) -> LogPage | web.StreamResponse:
    run, asked = await found(service, call), call.parameters
    await service.flush_logs(run.identity)
    rows = await service.log_rows()
    stored = await rows.logs(run.identity)
    logs, ended = asked.selection.of(stored), run.ending is not Ending.OPEN
    over = ended and service.now() - run.observed_at > _OVER
    later = not ended and asked.selection.is_newest(stored)
    reader = LogReader(rows, service.blobs, run.identity, logs, over=over, later=later)
    first = asked.from_line if asked.tail is None else max(1, reader.total - asked.tail + 1)
    if not asked.download:
        return await reader.page(first, asked.limit if asked.tail is None else asked.tail)
    if not logs:
        raise NotFoundError(f"{run.name} has no such log", name=run.name)
    assert call.request is not None
    return await _text(call.request, reader, first, run.name, timestamps=asked.timestamps)


async def _text(
    request: web.Request, reader: LogReader, first: int, name: str, *, timestamps: bool
) -> web.StreamResponse:
    """Sends all lines as `fournos logs` shows them.  A browser saves them and never shows them."""
    response = web.StreamResponse(
        headers={
            "Content-Type": "text/plain; charset=utf-8",
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}.log",
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "private, no-cache",
        }
    )
    return await streamed(request, response, _pieces(reader, first, timestamps=timestamps))


async def _pieces(reader: LogReader, first: int, *, timestamps: bool) -> AsyncGenerator[bytes, None]:
    names = [part.source(reader.parts()) for part in reader.parts()]
    waiting: list[str] = []
    size = 0
    async for line in reader.lines(first, reader.total + 1):
        at = f"{line.at} " if timestamps else ""
        waiting.append(f"[{names[line.part]}] {at}{line.text}\n")
        size += len(line.text)
        if size >= _PIECE:
            yield "".join(waiting).encode()
            waiting, size = [], 0
    yield "".join(waiting).encode()


ROUTES: Final = (
    Route(
        "GET",
        "/namespaces/{namespace}/runs/{run}/logs",
        "getLogs",
        Access("get", "runs/logs"),
        get_logs,
        LogPage,
        LogFilter,
    ),
)
