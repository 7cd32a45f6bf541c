"""The routes of what runs measured and left: results, lists of values, artifacts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from aiohttp import ClientError, web
from pydantic import Field

from fournos.history.api.routes import (
    Access,
    ApiCall,
    BadRequestError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    Route,
    everywhere_and_in_one,
    streamed,
)
from fournos.history.api.runs import Which, found, written_run
from fournos.history.artifacts import Artifact, ArtifactError, NoRunError
from fournos.history.records import Document, Identity, Parameters, Query, RunFilter, Text, Texts
from fournos.history.results.models import Received, RunValues, Test, ValuePage
from fournos.history.results.read import read_file
from fournos.insight.manifests import field_of

if TYPE_CHECKING:
    from fournos.history.api.service import HistoryService


_SHOWN: Final = 50
"""Problems that a refusal names."""


class FileName(Parameters):
    """The name of the file; its extension gives the format."""

    name: Text = ""


class NamedFile(Which, FileName):
    """A file for a run that is named."""


async def put_results(service: HistoryService, call: ApiCall) -> Received:
    """Stores all records of a file, or none: one that is not valid refuses the file."""
    identity = await written_run(service, call)
    assert call.request is not None
    try:
        content = await call.request.read()
    except web.HTTPRequestEntityTooLarge:
        raise BadRequestError("the file is too large; send its records in several files") from None
    async with service.reading:  # one file at a time: each takes memory and the interpreter
        file = await asyncio.to_thread(read_file, content, call.parameters.name)
    if file.problems:
        shown = "; ".join(map(str, file.problems[:_SHOWN]))
        more = len(file.problems) - _SHOWN
        raise InvalidError(shown + (f"; and {more} more" if more > 0 else ""))
    stored = await (await service.results()).put(identity, file.tests, service.now())
    if stored is None:
        raise NotFoundError("the history has no record of this run yet; send it again", name=identity.uid)
    return replace(stored, warnings=tuple(map(str, file.warnings[:_SHOWN])))


async def list_results(service: HistoryService, call: ApiCall) -> tuple[Test, ...]:
    """Returns the records of a run, in the order in which they came."""
    run = await found(service, call)
    return await (await service.results()).of(run.identity)


MOST: Final = 20_000
"""Values of a page."""


class ValueFilter(RunFilter):
    """Which values of which runs."""

    kpi: Texts = Field((), description="Only these KPIs.")
    by: Texts = Field(
        (),
        description="Also these fields of the objects, such as params.model; takes the right to documents.",
    )
    limit: int = Field(50, ge=1, le=200, description="Maximum number of runs.")


async def list_values(service: HistoryService, call: ApiCall) -> ValuePage:
    """Returns a page of runs with what their last attempts measured, without curves.

    Raises BadRequestError if that is more than MOST values.
    """
    filters: ValueFilter = call.parameters
    store = await service.store()
    page = await store.find(Query(call.scope, call.namespace, filters))
    if filters.by and not all(map(call.details.includes, page.runs)):
        raise ForbiddenError('by: takes the right to get "runs/documents" of all these runs')
    identities = [run.identity for run in page.runs]
    values = await (await service.results()).values_of(identities, filters.kpi, most=MOST)
    if values is None:
        raise BadRequestError(f"these runs have more than {MOST:,} values: name KPIs, or a smaller limit")
    objects: dict[Identity, Any] = {}
    if filters.by:
        objects = await store.documents(identities, Document.OBJECT)
    return ValuePage(
        tuple(
            RunValues(
                run,
                values.get(run.identity, ()),
                {path: field_of(objects.get(run.identity) or {}, path) for path in filters.by},
            )
            for run in page.runs
        ),
        page.cursor,
    )


async def put_artifact(service: HistoryService, call: ApiCall) -> Artifact:
    identity, request = await written_run(service, call), call.request
    assert request is not None
    size = request.content_length
    if size is None:
        raise BadRequestError("Content-Length: the size of the file is needed")
    try:
        return await service.artifacts.receive(
            identity,
            call.path["path"],
            _pieces(request),
            size=size,
            sha256=request.headers.get("X-Content-SHA256", ""),
            now=service.now(),
        )
    except ArtifactError as error:
        raise InvalidError(str(error)) from None
    except NoRunError:
        raise NotFoundError(
            "the history has no record of this run yet; send it again", name=identity.uid
        ) from None


async def _pieces(request: web.Request) -> AsyncIterator[bytes]:
    try:
        async for piece in request.content.iter_chunked(2**18):
            yield piece
    except ClientError as error:
        raise ArtifactError("the connection was lost") from error


async def list_artifacts(service: HistoryService, call: ApiCall) -> list[Artifact]:
    run = await found(service, call)
    return list((await (await service.artifact_rows()).artifacts(run.identity)).values())


async def download(service: HistoryService, call: ApiCall) -> web.StreamResponse:
    """Sends a file.  A browser saves it and never shows it: any task may have made its content."""
    run, path, request = await found(service, call), call.path["path"], call.request
    assert request is not None
    stored = await service.artifacts.find(run.identity, path)
    if stored is None:
        raise NotFoundError(f"{run.name} has no artifact {path}", name=path)
    key, artifact = stored
    tag = f'"{artifact.sha256}"'
    name = quote(path.rpartition("/")[2], safe="")
    headers = {
        "Content-Type": "application/octet-stream",
        "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
        "Content-Length": str(artifact.size),
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "private, no-cache",
        "ETag": tag,
    }
    if tag in request.headers.get("If-None-Match", ""):
        return web.Response(status=304, headers={"ETag": tag})
    chunks = service.artifacts.read(key)
    return await streamed(request, web.StreamResponse(headers=headers), chunks)


_RESULTS: Final = "/namespaces/{namespace}/runs/{run}/results"
_ARTIFACTS: Final = "/namespaces/{namespace}/runs/{run}/artifacts"

ROUTES: Final = (
    Route(
        "GET",
        _RESULTS,
        "listResults",
        Access("get", "runs/results"),
        list_results,
        tuple[Test, ...],
        Which,
    ),
    Route(
        "POST",
        _RESULTS,
        "putResults",
        Access("create", "runs/results"),
        put_results,
        Received,
        NamedFile,
        stream=True,
    ),
    Route(
        "POST",
        "/own/run/results",
        "putOwnResults",
        Access("create", "own/results"),
        put_results,
        Received,
        FileName,
        own=True,
        stream=True,
    ),
    *everywhere_and_in_one(
        "/results",
        "listValues",
        Access("list", "results"),
        list_values,
        ValuePage,
        ValueFilter,
        Access("get", "runs/documents"),
    ),
    Route(
        "GET",
        _ARTIFACTS,
        "listArtifacts",
        Access("get", "runs/artifacts"),
        list_artifacts,
        list[Artifact],
        Which,
    ),
    Route(
        "GET",
        _ARTIFACTS + "/{path}",
        "getArtifact",
        Access("get", "runs/artifacts"),
        download,
        Any,
        Which,
        stream=True,
    ),
    Route(
        "PUT",
        _ARTIFACTS + "/{path}",
        "putArtifact",
        Access("update", "runs/artifacts"),
        put_artifact,
        Artifact,
        Which,
        stream=True,
    ),
    Route(
        "PUT",
        "/own/run/artifacts/{path}",
        "putOwnArtifact",
        Access("update", "own/artifacts"),
        put_artifact,
        Artifact,
        own=True,
        stream=True,
    ),
)
