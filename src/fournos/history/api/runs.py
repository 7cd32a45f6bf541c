"""The routes of runs: lists, one run with its documents, logs, keep marks and deletion."""

from __future__ import annotations

import re
import zlib
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote

from aiohttp import web
from pydantic import Field

from fournos.engine.kube.resource import key_of, uid_of
from fournos.history.api.routes import (
    Access,
    ApiCall,
    NotFoundError,
    Route,
    everywhere_and_in_one,
    streamed,
)
from fournos.history.logs.stored import ContainerLog
from fournos.history.records import (
    Detail,
    Document,
    Identity,
    Page,
    Parameters,
    Query,
    Run,
    RunFilter,
    Text,
    api_row,
)

if TYPE_CHECKING:
    from fournos.history.api.service import HistoryService


UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@api_row
@dataclass(frozen=True, slots=True)
class Keep:
    """A mark that keeps a run from expiring."""

    reason: Annotated[str, Field(max_length=1024)] = ""


class Which(Parameters):
    """The kind of a run that is named."""

    kind: Text = Field("", description="Kind, where runs of several kinds have this name.")


async def found(service: HistoryService, call: ApiCall) -> Run:
    """Returns the run of the path: by its UID, or the newest of its name.  Raises NotFoundError."""
    return await named(service, call, call.path["run"])


async def written_run(service: HistoryService, call: ApiCall) -> Identity:
    """Returns the run that gets what the call brings: the one that calls, or that of the path."""
    if call.own is None:
        return (await found(service, call)).identity
    return Identity(service.cluster, key_of(call.own).namespace, uid_of(call.own))


async def named(service: HistoryService, call: ApiCall, asked: str) -> Run:
    """Returns a run of the call's namespace, by its UID or the newest of its name.  Raises NotFoundError."""
    page = await (await service.store()).find(_query(call, asked))
    if not page.runs:
        raise _not_found(asked)
    return page.runs[0]


async def _detail(service: HistoryService, call: ApiCall, *documents: Document) -> Detail:
    """Returns the run of the path with these documents, in one read of the store."""
    asked = call.path["run"]
    detail = await (await service.store()).detail(_query(call, asked), documents)
    if detail is None:
        raise _not_found(asked)
    return detail


def _query(call: ApiCall, asked: str) -> Query:
    kind = getattr(call.parameters, "kind", "")
    by_uid = bool(UID.fullmatch(asked))
    # Without validation: a name of the path matches nothing, whatever it is.
    filters = RunFilter.model_construct(name="" if by_uid else asked, kind=(kind,) if kind else (), limit=1)
    return Query(call.scope, call.namespace, filters, asked if by_uid else "")


def _not_found(asked: str) -> NotFoundError:
    return NotFoundError(f'runs.history.fournos.dev "{asked}" not found', name=asked)


async def list_runs(service: HistoryService, call: ApiCall) -> Page:
    filters: RunFilter = call.parameters
    return await (await service.store()).find(Query(call.scope, call.namespace, filters))


async def get_run(service: HistoryService, call: ApiCall) -> Detail:
    return await _detail(service, call)


async def get_document(service: HistoryService, call: ApiCall) -> Any:
    name = call.path["document"]
    by_name = {document.value: document for document in Document}
    names = [by_name[name]] if name in by_name else []
    detail = await _detail(service, call, *names)
    value = next(iter(detail.documents.values()), None)
    if value is None:
        raise NotFoundError(
            f"{detail.run.name} has no document {name}; there are: {', '.join(by_name)}", name=name
        )
    return value


async def keep_run(service: HistoryService, call: ApiCall) -> None:
    run = await found(service, call)
    mark: Keep = call.body
    await (await service.store()).keep(
        run.identity, True, by=call.user.name, reason=mark.reason, now=service.now()
    )


async def release_run(service: HistoryService, call: ApiCall) -> None:
    run = await found(service, call)
    await (await service.store()).keep(run.identity, False, by=call.user.name, reason="", now=service.now())


async def delete_run(service: HistoryService, call: ApiCall) -> None:
    await service.delete((await found(service, call)).identity)


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


_RUN: Final = "/namespaces/{namespace}/runs/{run}"

ROUTES: Final = (
    *everywhere_and_in_one("/runs", "listRuns", Access("list"), list_runs, Page, RunFilter),
    Route("GET", _RUN, "getRun", Access("get"), get_run, Detail, Which),
    Route(
        "GET",
        _RUN + "/documents/{document}",
        "getDocument",
        Access("get", "runs/documents"),
        get_document,
        Any,
        Which,
    ),
    Route("PUT", _RUN + "/keep", "keepRun", Access("update", "runs/keep"), keep_run, None, Which, Keep),
    Route("DELETE", _RUN + "/keep", "releaseRun", Access("delete", "runs/keep"), release_run, None, Which),
    Route("DELETE", _RUN, "deleteRun", Access("delete"), delete_run, None),
    Route(
        "GET", _RUN + "/logs", "listLogs", Access("get", "runs/logs"), list_logs, list[ContainerLog], Which
    ),
    Route(
        "GET",
        _RUN + "/logs" + "/{pod}/{container}",
        "getLog",
        Access("get", "runs/logs"),
        get_log,
        Any,
        Which,
        stream=True,
    ),
)
