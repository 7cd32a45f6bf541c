"""The list of runs, page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol, TypedDict, TypeVar, Unpack
from urllib.parse import urlencode

from fournos.client.errors import typed_iterator
from fournos.client.history_requests import HistoryRequests, times
from fournos.history.records import Page, Run

if TYPE_CHECKING:
    from fournos.history.results.models import RunValues

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
