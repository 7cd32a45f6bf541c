"""The statement of one page: by an index, in its order, no further than the page goes.  Pure.

Several values of the leading filter are read as one ordered list each, and merged: an `IN` would have to be
sorted, however long it is.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Select, select, union_all

from fournos.history.records import PAGE_MAX, Query
from fournos.history.store.entries import Entries, Lists
from fournos.history.store.errors import StoreQueryError
from fournos.history.store.reach import Reach
from fournos.history.store.rows import columns
from fournos.history.store.schema import runs


def require_valid(query: Query, dialect: str) -> None:
    """Raises StoreQueryError for a size, times or a cursor that no page has."""
    if not 1 <= query.limit <= PAGE_MAX:
        raise StoreQueryError(f"limit: {query.limit} is not between 1 and {PAGE_MAX}")
    Lists(query, dialect)


def page_statement(query: Query, dialect: str, reach: Reach) -> Select[Any]:
    """Returns the statement of a page's rows and one more if there is one within the reach."""
    keys = _positions(query, dialect, reach).subquery("page")
    return (
        select(*columns(dialect))
        .join(keys, keys.c.id == runs.c.id)
        .order_by(runs.c.submitted_at.desc(), runs.c.id.desc())
    )


def _positions(query: Query, dialect: str, reach: Reach) -> Select[Any]:
    """Returns the statement of a page's positions: time and key."""
    lists = Lists(query, dialect)

    def branch(entries: Entries) -> Select[Any]:
        within = () if reach.until is None else (entries.time >= reach.until,)
        return (
            select(entries.time.label("submitted_at"), entries.number.label("id"))
            .where(*entries.conditions, *within, *lists.tested(entries, reach.leading))
            .order_by(entries.time.desc(), entries.number.desc())
            .limit(query.limit + 1)
        )

    branches = [branch(entries) for entries in lists.entries(reach.leading, reach.rare)]
    if len(branches) == 1:
        return branches[0]
    merged = union_all(*(select(one.subquery()) for one in branches)).subquery()
    in_order = select(merged).order_by(merged.c.submitted_at.desc(), merged.c.id.desc())
    return in_order.limit(query.limit + 1)
