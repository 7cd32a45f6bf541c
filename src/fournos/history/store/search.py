"""Finds the runs of a query, page by page, each within one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Row, func, select

from fournos.history.records import Detail, Document, Page, Query
from fournos.history.store import reads, rows
from fournos.history.store.entries import cursor_of
from fournos.history.store.pages import page_statement, require_valid
from fournos.history.store.reach import Choice, Reach
from fournos.history.store.schema import runs
from fournos.history.store.text import indexed

_CLUSTERS: Final = select(
    select(func.min(runs.c.cluster)).scalar_subquery(), select(func.max(runs.c.cluster)).scalar_subquery()
)
"""The first and the last cluster of the database: two looks at an index."""


@dataclass(frozen=True, slots=True)
class Search:
    """How the runs of a database are found."""

    dialect: str
    has_trigrams: bool
    """Whether it has the index of `trigrams`."""

    def find(self, connection: Connection, query: Query) -> Page:
        """Returns a page of the runs that match.  Raises StoreQueryError for a query that is not valid."""
        found, until = self._page(connection, query)
        shown = tuple(map(rows.run_of, found[: query.limit]))
        if len(found) > query.limit:
            last = found[query.limit - 1]
            return Page(shown, cursor_of(last.submitted_at, last.id))
        if until is None:
            return Page(shown)
        return Page(shown, cursor_of(until, 0), until if len(found) < query.limit else None)

    def detail(self, connection: Connection, query: Query, wanted: Iterable[Document]) -> Detail | None:
        """Returns the newest run that matches, with its ledger and these documents."""
        query = replace(query, limit=1)
        found, until = self._page(connection, query)
        while not found and until is not None:
            found, until = self._page(connection, replace(query, cursor=cursor_of(until, 0)))
        if not found:
            return None
        number = found[0].id
        return Detail(
            rows.run_of(found[0]),
            reads.waits_of(connection, number),
            reads.documents_of(connection, number, wanted),
            reads.mark_of(connection, number),
        )

    def reach(self, connection: Connection, query: Query) -> Reach:
        """Returns by which filter the page is read, and how far it searches."""
        choice = Choice(query, self.dialect)
        if (known := choice.known()) is not None:
            return known
        if choice.leading:
            few = choice.fewest(connection.execute(choice.counts()).one())
            if few is not None:
                return few
        if self.has_trigrams and choice.trigrams:
            found = _by_trigrams(connection, choice)
            if found is not None:
                return found
        return choice.furthest(connection.execute(choice.ends()).one())

    def _page(self, connection: Connection, query: Query) -> tuple[Sequence[Row[Any]], datetime | None]:
        """Returns the rows of a page and one more if there is one, and the time at which the search ended."""
        require_valid(query, self.dialect)
        if query.namespaces == ():
            return (), None
        if query.in_cluster and self._has_no_other(connection, query.in_cluster):
            query = replace(query, in_cluster="")
        reach = self.reach(connection, query)
        return connection.execute(page_statement(query, self.dialect, reach)).all(), reach.until

    def _has_no_other(self, connection: Connection, cluster: str) -> bool:
        """Whether all runs are of the cluster, so that a page needs no look at it.

        In SQLite, which usually has one cluster: all statements of a page read one state of its database.
        """
        if self.dialect != "sqlite":
            return False
        first, last = connection.execute(_CLUSTERS).one()
        return bool(first == last == indexed(cluster))


def _by_trigrams(connection: Connection, choice: Choice) -> Reach | None:
    """Returns the reach by the index of trigrams; None where the names are compared."""
    numbers = connection.execute(choice.numbers()).scalars().all()
    if not numbers:
        return None
    found = choice.rarest(numbers)
    if found is None or choice.is_few(min(numbers)):
        return found
    return found if choice.is_few(connection.execute(choice.found(found.rare)).scalar_one()) else None
