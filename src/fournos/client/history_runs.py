"""The list of runs, page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypedDict, Unpack
from urllib.parse import urlencode

from fournos.client.errors import typed_iterator
from fournos.client.history_requests import HistoryRequests, times
from fournos.history.records import Page, Run

_PAGE: Final = 200
_SEVERAL: Final = ("kind", "phase", "owner", "cluster", "pipeline")
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
        left, cursor = limit, ""
        while left is None or left > 0:
            page = await self._run_page(_PAGE if left is None else min(left, _PAGE), cursor, filters)
            for run in page.runs:
                yield run
            left = None if left is None else left - len(page.runs)
            cursor = page.cursor
            if not cursor:
                return

    @typed_iterator
    async def pages(self, *, first: int = _PAGE, **filters: Unpack[RunFilters]) -> AsyncIterator[Page]:
        """Yields the pages of `runs`, the first one with `first` runs at most.

        A page whose search ended early has fewer, and `searched_until`: the time back to which it searched.
        """
        page = await self._run_page(first, "", filters)
        yield page
        while page.cursor:
            page = await self._run_page(_PAGE, page.cursor, filters)
            yield page

    async def _run_page(self, size: int, cursor: str, filters: RunFilters) -> Page:
        asked = [*_query(filters), ("limit", str(size)), *([("cursor", cursor)] if cursor else [])]
        where = self._where(filters.get("namespace"), everywhere=filters.get("everywhere", False))
        return await self._get(f"{where}/runs?{urlencode(asked)}", Page)


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
