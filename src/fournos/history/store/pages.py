"""The statement of one page: by an index, in its order, no further than the page goes.  Pure.

Several values of the leading filter are read by one ordered scan each, and merged: the rows of an `IN` would
have to be sorted, however many they are.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, select, union_all

from fournos.history.records import PAGE_MAX, Query
from fournos.history.store.errors import StoreQueryError
from fournos.history.store.index_scans import IndexScan, QueryFilters
from fournos.history.store.query_plan import QueryPlan
from fournos.history.store.rows import columns
from fournos.history.store.schema import runs


def require_valid(query: Query, dialect: str) -> None:
    """Raises StoreQueryError for a size, times or a cursor that no page has."""
    if not 1 <= query.limit <= PAGE_MAX:
        raise StoreQueryError(f"limit: {query.limit} is not between 1 and {PAGE_MAX}")
    QueryFilters(query, dialect)


def page_statement(query: Query, dialect: str, plan: QueryPlan) -> Select[Any]:
    """Returns the statement of a page's rows and one more if there is one within the bound of the plan."""
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
