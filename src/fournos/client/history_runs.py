"""The list of runs, page by page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Final, TypedDict, Unpack
from urllib.parse import quote, urlencode

from fournos.client.errors import typed_iterator
from fournos.client.history_requests import Requests
from fournos.history.records import Page, Run

_PAGE: Final = 200


class RunFilters(TypedDict, total=False):
    """The filters of `AsyncRuns.runs`."""

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


class AsyncRuns(Requests):
    """The part of `AsyncHistory` for the list of runs."""

    @typed_iterator
    async def runs(
        self,
        *,
        everywhere: bool = False,
        namespace: str | None = None,
        kind: str | Sequence[str] = (),
        phase: str | Sequence[str] = (),
        owner: str | Sequence[str] = (),
        cluster: str | Sequence[str] = (),
        pipeline: str | Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        name: str = "",
        text: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[Run]:
        """Yields the matching runs, newest first; `limit` of them at most.

        A filter with several values matches any of them; `text` is part of the name.  `everywhere` means all
        namespaces that the caller may read.
        """
        filters = RunFilters(
            everywhere=everywhere,
            namespace=namespace,
            kind=kind,
            phase=phase,
            owner=owner,
            cluster=cluster,
            pipeline=pipeline,
            labels=labels,
            name=name,
            text=text,
            since=since,
            until=until,
        )
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
        space = quote(filters.get("namespace") or self.namespace, safe="")
        where = "" if filters.get("everywhere") else f"/namespaces/{space}"
        page: Page = await self._get(f"{where}/runs?{urlencode(asked)}", Page)
        return page


def _query(filters: RunFilters) -> list[tuple[str, str]]:
    query: list[tuple[str, str]] = []
    for parameter, values in (
        ("kind", filters.get("kind", ())),
        ("phase", filters.get("phase", ())),
        ("owner", filters.get("owner", ())),
        ("cluster", filters.get("cluster", ())),
        ("pipeline", filters.get("pipeline", ())),
    ):
        query += [(parameter, one) for one in ([values] if isinstance(values, str) else values)]
    query += [("label", f"{one}={value}") for one, value in (filters.get("labels") or {}).items()]
    texts = (("name", filters.get("name")), ("text", filters.get("text")))
    query += [(parameter, value) for parameter, value in texts if value]
    times = (("since", filters.get("since")), ("until", filters.get("until")))
    return query + [(parameter, when.isoformat()) for parameter, when in times if when]
