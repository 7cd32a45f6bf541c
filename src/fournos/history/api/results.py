"""The routes of results: sent by the run itself or by a person, and read."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from aiohttp import web

from fournos.history.api.routes import (
    Access,
    ApiCall,
    BadRequestError,
    InvalidError,
    NotFoundError,
    Parameters,
    Route,
    Text,
)
from fournos.history.api.runs import Which, found, written_run
from fournos.history.results.models import Received, Test
from fournos.history.results.read import read_file

if TYPE_CHECKING:
    from fournos.history.api.service import HistoryService

_SHOWN: Final = 50
"""Problems that a refusal names."""


class FileName(Parameters):
    """The name of the file; its extension gives the format."""

    name: Text = ""


class NamedFile(Which, FileName):
    """A file for a run that is named."""


async def put(service: HistoryService, call: ApiCall) -> Received:
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


async def get(service: HistoryService, call: ApiCall) -> tuple[Test, ...]:
    """Returns the records of a run, in the order in which they came."""
    run = await found(service, call)
    return await (await service.results()).of(run.identity)


_RUN: Final = "/namespaces/{namespace}/runs/{run}/results"

ROUTES: Final = (
    Route("GET", _RUN, "listResults", Access("get", "runs/results"), get, tuple[Test, ...], Which),
    Route(
        "POST", _RUN, "putResults", Access("create", "runs/results"), put, Received, NamedFile, stream=True
    ),
    Route(
        "POST",
        "/own/run/results",
        "putOwnResults",
        Access("create", "own/results"),
        put,
        Received,
        FileName,
        own=True,
        stream=True,
    ),
)
