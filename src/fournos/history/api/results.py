"""The routes of results: sent by the run itself or by a person, and read."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from aiohttp import web

from fournos.history.api.authorization import Access
from fournos.history.api.errors import (
    BadRequestError,
    InvalidError,
    NotFoundError,
    TooManyRequestsError,
)
from fournos.history.api.parameters import Parameters, Text
from fournos.history.api.routes import ApiCall, Route
from fournos.history.api.runs import Which, found, written_run
from fournos.history.records import api_row
from fournos.history.results.check import CheckedResults, check
from fournos.history.results.models import ResultRecord

if TYPE_CHECKING:
    from fournos.history.api.service import HistoryService

_SHOWN: Final = 50
"""Problems that a refusal names."""
_TURN: Final = 30.0
"""Seconds that a file waits to be checked."""


class Checks:
    """Checks files outside the event loop: one at a time, one of each namespace in the queue.

    The sizes that `check` accepts bound the time of one: about 1.5 s of CPU.  The thread shares the
    interpreter with the event loop; the parsers in C hold it for a tenth of that.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="results")
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def close(self) -> None:
        """Ends the thread with the file that it checks; those that wait are not checked."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def check(self, namespace: str, content: bytes, name: str) -> CheckedResults:
        """Raises TooManyRequestsError if the files before this one take too long."""
        turn = self._turns.setdefault(namespace, asyncio.Lock())
        try:
            async with asyncio.timeout(_TURN):
                await turn.acquire()
        except TimeoutError:
            raise TooManyRequestsError(
                "other files of results of the namespace are being checked; send this one again",
                retry_after=10,
            ) from None
        checking = asyncio.get_running_loop().run_in_executor(self._thread, check, content, name)
        # Not when the request ends: one that is cancelled is checked to its end.
        checking.add_done_callback(lambda _: turn.release())
        return await asyncio.shield(checking)


@api_row
@dataclass(frozen=True, slots=True)
class Received:
    """What became of a file of results."""

    added: int = 0
    replaced: int = 0
    """Tests that were there with other content, such as that of an earlier attempt."""
    unchanged: int = 0
    refused: int = 0
    """Records beyond the limit of a run."""
    warnings: tuple[str, ...] = ()
    """Fields that are not stored, and the like."""


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
    await service.check_room(len(content))
    checked = await service.checks.check(identity.namespace, content, call.parameters.name)
    if checked.problems:
        shown = "; ".join(map(str, checked.problems[:_SHOWN]))
        more = len(checked.problems) - _SHOWN
        raise InvalidError(shown + (f"; and {more} more" if more > 0 else ""))
    stored = await (await service.results()).put(identity, checked.records, service.now())
    if stored is None:
        raise NotFoundError("the history has no record of this run yet; send it again", name=identity.uid)
    return Received(
        stored.added,
        stored.replaced,
        stored.unchanged,
        stored.refused,
        tuple(str(one) for one in checked.warnings[:_SHOWN]),
    )


async def get(service: HistoryService, call: ApiCall) -> tuple[ResultRecord, ...]:
    """Returns the records of a run, in the order in which they came."""
    run = await found(service, call)
    return await (await service.results()).of(run.identity)


_RUN: Final = "/namespaces/{namespace}/runs/{run}/results"

ROUTES: Final = (
    Route("GET", _RUN, "listResults", Access("get", "runs/results"), get, tuple[ResultRecord, ...], Which),
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
