"""The routes of artifacts: sent by the run itself or by a person, listed, downloaded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from aiohttp import ClientError, web

from fournos.history.api.routes import (
    Access,
    ApiCall,
    BadRequestError,
    InvalidError,
    NotFoundError,
    Route,
    TooManyRequestsError,
    streamed,
)
from fournos.history.api.runs import Which, found, written_run
from fournos.history.artifacts.archive import NoRunError, UploadBusyError
from fournos.history.artifacts.rules import Artifact, ArtifactError

if TYPE_CHECKING:
    from fournos.history.api.service import HistoryService


async def put(service: HistoryService, call: ApiCall) -> Artifact:
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
    except UploadBusyError as error:
        raise TooManyRequestsError(str(error), retry_after=2) from None
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


_RUN: Final = "/namespaces/{namespace}/runs/{run}/artifacts"

ROUTES: Final = (
    Route(
        "GET", _RUN, "listArtifacts", Access("get", "runs/artifacts"), list_artifacts, list[Artifact], Which
    ),
    Route(
        "GET",
        _RUN + "/{path}",
        "getArtifact",
        Access("get", "runs/artifacts"),
        download,
        Any,
        Which,
        stream=True,
    ),
    Route(
        "PUT",
        _RUN + "/{path}",
        "putArtifact",
        Access("update", "runs/artifacts"),
        put,
        Artifact,
        Which,
        stream=True,
    ),
    Route(
        "PUT",
        "/own/run/artifacts/{path}",
        "putOwnArtifact",
        Access("update", "own/artifacts"),
        put,
        Artifact,
        own=True,
        stream=True,
    ),
)
