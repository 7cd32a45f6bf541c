"""The routes of logs: what is stored of a run's containers, and the text of one."""

from __future__ import annotations

import zlib
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from aiohttp import web

from fournos.history.api.routes import Access, ApiCall, NotFoundError, Route, streamed
from fournos.history.api.runs import Which, found
from fournos.history.logs.stored import ContainerLog

if TYPE_CHECKING:
    from fournos.history.api.service import HistoryService

_PIECE: Final = 256 * 1024


async def list_logs(service: HistoryService, call: ApiCall) -> list[ContainerLog]:
    run = await found(service, call)
    return await (await service.log_rows()).logs(run.identity)


async def get_log(service: HistoryService, call: ApiCall) -> web.StreamResponse:
    """Sends the text.  A browser saves it and never shows it: any task may have printed it."""
    run, pod, container = await found(service, call), call.path["pod"], call.path["container"]
    key = await (await service.log_rows()).key(run.identity, pod, container)
    packed = await service.blobs.read(key) if key is not None else None
    if packed is None:
        raise NotFoundError(f"{run.name} has no log of {pod}/{container}", name=run.name)
    response = web.StreamResponse(
        headers={
            "Content-Type": "text/plain; charset=utf-8",
            "Content-Disposition": f"attachment; filename*=UTF-8''{quote(f'{pod}-{container}', safe='')}.log",
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "private, no-cache",
        }
    )
    assert call.request is not None
    return await streamed(call.request, response, _unpacked(packed))


async def _unpacked(packed: bytes) -> AsyncGenerator[bytes, None]:
    """Yields the text in pieces: it may be a hundred times as long as what is stored."""
    unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
    while piece := unpacker.decompress(packed, _PIECE):
        packed = unpacker.unconsumed_tail
        yield piece


_ALL: Final = "/namespaces/{namespace}/runs/{run}/logs"

ROUTES: Final = (
    Route("GET", _ALL, "listLogs", Access("get", "runs/logs"), list_logs, list[ContainerLog], Which),
    Route(
        "GET",
        _ALL + "/{pod}/{container}",
        "getLog",
        Access("get", "runs/logs"),
        get_log,
        Any,
        Which,
        stream=True,
    ),
)
