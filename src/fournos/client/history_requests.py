"""Requests to the history, through the API server: how they are sent, lists page by page, and uploads."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from io import BufferedReader
from typing import TYPE_CHECKING, Any, Final, Protocol, TypedDict, TypeVar, Unpack, cast
from urllib.parse import quote, urlencode

from fournos.client.connection import PATIENCE, repeated
from fournos.client.errors import (
    HistoryBusyError,
    HistoryFullError,
    HistoryUnavailableError,
    MissingError,
    NoHistoryError,
    typed,
    typed_iterator,
)
from fournos.engine.kube.api import Api
from fournos.engine.kube.client import Paths
from fournos.engine.kube.errors import (
    ConnectionLostError,
    NoSuchResourceError,
    NotFoundError,
    ServerError,
    TimedOutError,
)
from fournos.engine.kube.resource import Obj
from fournos.history.records import Page, Run

if TYPE_CHECKING:
    from fournos.history.artifacts import Artifact
    from fournos.history.results.models import Received, RunValues


T = TypeVar("T")
PREFIX: Final = "/apis/history.fournos.dev/v1"
_UNAVAILABLE: Final = 503
_TIMED_OUT: Final = 504
_MEANT: Final = {429: HistoryBusyError, _UNAVAILABLE: HistoryUnavailableError, 507: HistoryFullError}


class HistoryRequests:
    """Base of the parts of `AsyncHistory`."""

    def __init__(self, api: Api | Paths, namespace: str, *, patience: float = PATIENCE) -> None:
        """`api` is a client, which takes paths, too."""
        self._api = cast(Paths, api)
        self._patience = patience
        self.namespace = namespace
        """The namespace of all methods, unless they are given another one."""

    def _where(self, namespace: str | None, *, everywhere: bool = False) -> str:
        """Returns the path of a namespace, or of all of them."""
        return "" if everywhere else f"/namespaces/{quote(namespace or self.namespace, safe='')}"

    def _path(self, name: str, namespace: str | None) -> str:
        return f"{self._where(namespace)}/runs/{named(name)}"

    def _of(self, run: Run) -> str:
        return self._path(run.identity.uid, run.identity.namespace)

    async def _send(self, method: str, path: str, body: Obj | None = None) -> bytes:
        with missing():
            return await self._api.raw(method, PREFIX + path, body)

    async def _get(self, path: str, kind: type[T]) -> T:
        return parsed(kind, await self._read(lambda: self._api.raw("GET", PREFIX + path)))

    async def _read(self, call: Callable[[], Awaitable[T]]) -> T:
        """Sends a request that only reads; again while the history asks for another try (Retry-After)."""
        with missing():
            return await repeated(call, seconds=self._patience, when=_asks_for_another_try)


def named(name: str) -> str:
    """Returns a name as a segment of a path; without its kind, which `list -o name` prints before it."""
    return quote(_KIND.sub("", name), safe="")


_KIND: Final = re.compile(r"^[A-Za-z][A-Za-z0-9.-]*/")


def parsed(kind: type[T], answer: bytes) -> T:
    """Returns the value that an answer has as JSON."""
    from fournos.history.records import adapter

    value: T = adapter(cast(Hashable, kind)).validate_json(answer)
    return value


def times(**given: datetime | None) -> list[tuple[str, str]]:
    """Returns the parameters of times that are given."""
    return [(name, time.isoformat()) for name, time in given.items() if time]


@contextmanager
def missing() -> Iterator[None]:
    """Raises MissingError for what the history does not have, and NoHistoryError if there is none.

    Raises HistoryUnavailableError if its API or its store does not answer, is busy, or is full.
    """
    try:
        yield
    except (NotFoundError, NoSuchResourceError) as error:
        # A history answers with a Status, which has a reason; an API server without one with plain text.
        if error.reason or isinstance(error, NotFoundError):
            raise MissingError(error.message, fix="see what there is: fournos list --all-time") from error
        raise NoHistoryError(
            "the cluster has no history", fix="install deploy/history, or ask an administrator for it"
        ) from error
    except ServerError as error:
        made = _MEANT.get(error.status, HistoryUnavailableError)
        # Plain text is of the API server, whose request to the history has failed.
        where = "" if error.reason else "the API of the history does not answer: "
        raise made(
            f"{where}{error.message}",
            status=error.status,
            reason=error.reason or "ServiceUnavailable",
            retry_after=error.retry_after,
        ) from error
    except TimedOutError as error:
        text = f"the API of the history does not answer: {error.message}"
        raise HistoryUnavailableError(text, status=_TIMED_OUT, reason="Timeout") from error


def _asks_for_another_try(error: ServerError | ConnectionLostError) -> bool:
    return isinstance(error, ServerError) and error.status == _UNAVAILABLE and bool(error.retry_after)


_PAGE: Final = 200
_VALUES: Final = 100
"""Runs of a page with their values."""
_SEVERAL: Final = ("kind", "phase", "owner", "cluster", "pipeline", "fingerprint")
_TEXTS: Final = ("name", "text")


class RunFilters(TypedDict, total=False):
    """The filters of a list of runs."""

    everywhere: bool
    namespace: str | None
    kind: str | Sequence[str]
    phase: str | Sequence[str]
    owner: str | Sequence[str]
    cluster: str | Sequence[str]
    pipeline: str | Sequence[str]
    fingerprint: str | Sequence[str]
    labels: Mapping[str, str] | None
    name: str
    text: str
    since: datetime | None
    until: datetime | None


class AsyncRuns(HistoryRequests):
    """The part of `AsyncHistory` for the list of runs."""

    @typed_iterator
    async def runs(self, *, limit: int | None = None, **filters: Unpack[RunFilters]) -> AsyncIterator[Run]:
        """Yields the matching runs, newest first; `limit` of them at most.

        A filter with several values matches any of them; `text` is part of the name.  `everywhere` means all
        namespaces that the caller may read.
        """

        async def read(size: int, cursor: str) -> Page:
            return await self._run_page(size, cursor, filters)

        async for page in _pages(read, _PAGE, limit):
            for run in page.runs:
                yield run

    @typed_iterator
    async def pages(self, *, first: int = _PAGE, **filters: Unpack[RunFilters]) -> AsyncIterator[Page]:
        """Yields the pages of `runs`, the first one with `first` runs at most."""
        page = await self._run_page(first, "", filters)
        yield page
        while page.cursor:
            page = await self._run_page(_PAGE, page.cursor, filters)
            yield page

    @typed_iterator
    async def values(
        self,
        *,
        kpis: Sequence[str] = (),
        by: Sequence[str] = (),
        limit: int | None = 100,
        **filters: Unpack[RunFilters],
    ) -> AsyncIterator[RunValues]:
        """Yields the runs as `runs` does, each with the single values that its last attempt measured.

        `kpis`: only these.  `by`: also these fields of the objects, such as "params.model" or
        "metadata.labels.team", which need the right to documents.
        """
        from fournos.history.results.models import ValuePage

        asked = [("kpi", kpi) for kpi in kpis] + [("by", path) for path in by]

        async def read(size: int, cursor: str) -> ValuePage:
            return await self._get(self._list("results", size, cursor, filters, asked), ValuePage)

        async for page in _pages(read, _VALUES, limit):
            for run in page.runs:
                yield run

    async def _run_page(self, size: int, cursor: str, filters: RunFilters) -> Page:
        return await self._get(self._list("runs", size, cursor, filters), Page)

    def _list(
        self,
        resource: str,
        size: int,
        cursor: str,
        filters: RunFilters,
        more: Sequence[tuple[str, str]] = (),
    ) -> str:
        """Returns the path of a page of a list."""
        asked = [*_query(filters), *more, ("limit", str(size)), *([("cursor", cursor)] if cursor else [])]
        where = self._where(filters.get("namespace"), everywhere=filters.get("everywhere", False))
        return f"{where}/{resource}?{urlencode(asked)}"


class _RunPage(Protocol):
    """A page of a list of runs."""

    @property
    def runs(self) -> Sequence[object]: ...

    @property
    def cursor(self) -> str: ...


P = TypeVar("P", bound=_RunPage)


async def _pages(read: Callable[[int, str], Awaitable[P]], size: int, limit: int | None) -> AsyncIterator[P]:
    """Yields pages of `size` runs at most, until there are no more or they have `limit` runs."""
    left, cursor = limit, ""
    while left is None or left > 0:
        page = await read(size if left is None else min(left, size), cursor)
        yield page
        left = None if left is None else left - len(page.runs)
        cursor = page.cursor
        if not cursor:
            return


def _query(filters: RunFilters) -> list[tuple[str, str]]:
    """Returns the parameters of the API.  Raises TypeError for a filter that there is not."""
    given: Mapping[str, Any] = filters
    if unknown := given.keys() - RunFilters.__annotations__.keys():
        raise TypeError(f"no filter of runs: {', '.join(sorted(unknown))}")
    query: list[tuple[str, str]] = []
    for name in _SEVERAL:
        values = given.get(name, ())
        query += [(name, value) for value in ([values] if isinstance(values, str) else values)]
    query += [("label", f"{name}={value}") for name, value in (given.get("labels") or {}).items()]
    query += [(name, given[name]) for name in _TEXTS if given.get(name)]
    return query + times(since=given.get("since"), until=given.get("until"))


_UPLOAD: Final = 3600.0
"""Seconds that one file may take."""
_PATIENCE_IN_TASK: Final = 900.0
"""Seconds after which a file that cannot be stored for now is an error, within a task.

It would fail its job, and the history may be away for some minutes.  Elsewhere it is PATIENCE.
"""
_PAUSE: Final = 1.0


class AsyncUploads(HistoryRequests):
    """The part of `AsyncHistory` for uploads.

    An upload that fails for now is repeated for some time; a file that arrives twice is stored once.
    """

    @typed
    async def push_results(
        self, content: bytes, *, filename: str = "", name: str = "", namespace: str | None = None
    ) -> Received:
        """Stores a file of results of a run: all of its records, or none.

        Without a name the run is that of the calling pod.  Pushing a file again changes nothing.  Raises
        RefusedError, which names every problem.
        """
        from fournos.history.results.models import Received

        where = f"{self._path(name, namespace)}/results" if name else "/own/run/results"
        path = f"{PREFIX}{where}?{urlencode({'name': filename})}"

        async def send() -> bytes:
            return await self._api.raw("POST", path, content=content, seconds=_UPLOAD)

        return parsed(Received, await _sent(send, in_task=not name))

    @typed
    async def push_artifact(
        self, file: BufferedReader, path: str, *, name: str = "", namespace: str | None = None
    ) -> Artifact:
        """Stores a file as an artifact of a run; without a name of the calling pod's run.

        `path` is its path among the artifacts.  A file that is stored already is not stored again.
        """
        from fournos.history.artifacts import Artifact

        digest = await asyncio.to_thread(lambda: hashlib.file_digest(file, "sha256").hexdigest())
        where = f"{self._path(name, namespace)}/artifacts" if name else "/own/run/artifacts"
        url = f"{PREFIX}{where}/{quote(path)}"
        headers = {"X-Content-SHA256": digest, "Content-Length": str(file.tell())}

        async def send() -> bytes:
            return await self._api.raw("PUT", url, content=file, headers=headers, seconds=_UPLOAD)

        return parsed(Artifact, await _sent(send, in_task=not name))


async def _sent(send: Callable[[], Awaitable[bytes]], *, in_task: bool) -> bytes:
    async def sent() -> bytes:
        with missing():
            return await send()

    return await repeated(sent, seconds=_PATIENCE_IN_TASK if in_task else PATIENCE, pause=_PAUSE)
