"""Finds the runs of a query, page by page, each within one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Row, Select, func, select, union_all

from fournos.history.records import PAGE_MAX, Detail, Document, Page, Query
from fournos.history.store import reads, rows
from fournos.history.store.errors import StoreQueryError
from fournos.history.store.index_scans import IndexScan, QueryFilters, cursor_of
from fournos.history.store.query_plan import Planner, QueryPlan
from fournos.history.store.rows import columns
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

    def find(self, connection: Connection, query: Query) -> Page:
        """Returns a page of the runs that match.  Raises StoreQueryError for a query that is not valid."""
        page, until = self._page(connection, query)
        shown = tuple(map(rows.run_of, page[: query.limit]))
        if len(page) > query.limit:
            last = page[query.limit - 1]
            return Page(shown, cursor_of(last.submitted_at, last.id))
        if until is None:
            return Page(shown)
        return Page(shown, cursor_of(until, 0), until if len(page) < query.limit else None)

    def detail(self, connection: Connection, query: Query, documents: Iterable[Document]) -> Detail | None:
        """Returns the newest run that matches, with its ledger and these documents."""
        query = replace(query, limit=1)
        page, until = self._page(connection, query)
        while not page and until is not None:
            page, until = self._page(connection, replace(query, cursor=cursor_of(until, 0)))
        if not page:
            return None
        number = page[0].id
        return Detail(
            rows.run_of(page[0]),
            reads.waits_of(connection, number),
            reads.documents_of(connection, number, documents),
            reads.mark_of(connection, number),
        )

    def plan(self, connection: Connection, query: Query) -> QueryPlan:
        """Returns by which filter the page is read, and how far it searches."""
        planner = Planner(query, self.dialect)
        if (plan := planner.without_counts()) is not None:
            return plan
        if planner.leading:
            plan = planner.by_fewest(connection.execute(planner.counts_statement()).one())
            if plan is not None:
                return plan
        return planner.by_furthest(connection.execute(planner.ends_statement()).one())

    def _page(self, connection: Connection, query: Query) -> tuple[Sequence[Row[Any]], datetime | None]:
        """Returns the rows of a page and one more if there is one, and the time at which the search ended."""
        require_valid(query, self.dialect)
        if query.namespaces == ():
            return (), None
        if query.in_cluster and self._has_no_other(connection, query.in_cluster):
            query = replace(query, in_cluster="")
        plan = self.plan(connection, query)
        return connection.execute(page_statement(query, self.dialect, plan)).all(), plan.until

    def _has_no_other(self, connection: Connection, cluster: str) -> bool:
        """Whether all runs are of the cluster, so that a page needs no look at it.

        In SQLite, which usually has one cluster: all statements of a page read one state of its database.
        """
        if self.dialect != "sqlite":
            return False
        first, last = connection.execute(_CLUSTERS).one()
        return bool(first == last == indexed(cluster))


def require_valid(query: Query, dialect: str) -> None:
    """Raises StoreQueryError for a size, times or a cursor that no page has."""
    if not 1 <= query.limit <= PAGE_MAX:
        raise StoreQueryError(f"limit: {query.limit} is not between 1 and {PAGE_MAX}")
    QueryFilters(query, dialect)


def page_statement(query: Query, dialect: str, plan: QueryPlan) -> Select[Any]:
    """Returns the statement of a page's rows and one more if there is one within the bound of the plan.

    Several values of the leading filter are read by one ordered scan each, and merged: the rows of an `IN`
    would have to be sorted, however many they are.
    """
    keys = _positions(query, dialect, plan).subquery("page")
    return (
        select(*columns(dialect))
        .join(keys, keys.c.id == runs.c.id)
        .order_by(runs.c.submitted_at.desc(), runs.c.id.desc())
    )


def _positions(query: Query, dialect: str, plan: QueryPlan) -> Select[Any]:
    """Returns the statement of a page's positions: time and key."""
    filters = QueryFilters(query, dialect)

    def branch(scan: IndexScan) -> Select[Any]:
        within = () if plan.until is None else (scan.time >= plan.until,)
        return (
            select(scan.time.label("submitted_at"), scan.number.label("id"))
            .where(*scan.conditions, *within, *filters.conditions(scan, plan.leading))
            .order_by(scan.time.desc(), scan.number.desc())
            .limit(query.limit + 1)
        )

    branches = [branch(scan) for scan in filters.scans(plan.leading)]
    if len(branches) == 1:
        return branches[0]
    merged = union_all(*(select(one.subquery()) for one in branches)).subquery()
    in_order = select(merged).order_by(merged.c.submitted_at.desc(), merged.c.id.desc())
    return in_order.limit(query.limit + 1)
