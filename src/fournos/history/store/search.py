"""Finds the runs of a query, page by page, each by one ordinary statement."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, literal, select, tuple_

from fournos.history.records import PAGE_MAX, Detail, Document, Page, Query
from fournos.history.store import reads, rows
from fournos.history.store.errors import StoreQueryError
from fournos.history.store.rows import columns
from fournos.history.store.schema import ID, Time, labels, microseconds, runs, time_of
from fournos.history.store.text import folded, indexed

FILTERS: Final = {
    "uid": runs.c.uid,
    "fingerprints": runs.c.fingerprint,
    "name": runs.c.name,
    "pipelines": runs.c.pipeline,
    "owners": runs.c.owner,
    "targets": runs.c.target,
    "namespaces": runs.c.namespace_uid,
    "namespace": runs.c.namespace,
    "phases": runs.c.phase,
    "kinds": runs.c.kind,
    "in_cluster": runs.c.cluster,
}
"""The filters of `records.Query` over one column each."""


def find(connection: Connection, query: Query) -> Page:
    """Returns a page of the runs that match.  Raises StoreQueryError for a query that is not valid."""
    statement = page_statement(query, connection.dialect.name)
    page = connection.execute(statement).all()
    shown = tuple(map(rows.run_of, page[: query.limit]))
    if len(page) <= query.limit:
        return Page(shown)
    last = page[query.limit - 1]
    return Page(shown, _cursor_of(last.submitted_at, last.id))


def detail(connection: Connection, query: Query, documents: Iterable[Document]) -> Detail | None:
    """Returns the newest run that matches, with its ledger and these documents."""
    row = connection.execute(page_statement(replace(query, limit=1), connection.dialect.name)).first()
    if row is None:
        return None
    return Detail(
        rows.run_of(row),
        reads.documents_of(connection, row.id, documents),
        reads.mark_of(connection, row.id),
    )


def page_statement(query: Query, dialect: str) -> Select[Any]:
    """Returns the statement of a page's rows, and one more if there is one.

    Raises StoreQueryError for a size, times or a cursor that no page has.
    """
    if not 1 <= query.limit <= PAGE_MAX:
        raise StoreQueryError(f"limit: {query.limit} is not between 1 and {PAGE_MAX}")
    newest_first = (runs.c.submitted_at.desc(), runs.c.id.desc())
    # The labels of a run are read for the rows of the page alone, not for all that are sorted.
    keys = select(runs.c.id).where(*_conditions(query)).order_by(*newest_first).limit(query.limit + 1)
    page = keys.subquery("page")
    return select(*columns(dialect)).join(page, page.c.id == runs.c.id).order_by(*newest_first)


def _conditions(query: Query) -> Iterator[ColumnElement[bool]]:
    for name, column in FILTERS.items():
        value = getattr(query, name)
        if isinstance(value, str):
            if value:
                yield column == indexed(value)
        elif value or (name == "namespaces" and value is not None):
            # No namespace may be read, where none is given.
            yield column.in_([indexed(each) for each in value])
    for name, value in query.labels.items():
        of_label = (labels.c.name == indexed(name), labels.c.value == indexed(value))
        yield runs.c.id.in_(select(labels.c.run_id).where(*of_label))
    if query.text:
        yield runs.c.search.contains(folded(query.text), autoescape=True)
    for bound in (query.since, query.until):
        if bound is not None and bound.tzinfo is None:
            raise StoreQueryError(f"since, until: {bound} has no time zone")
    if query.since is not None:
        yield runs.c.submitted_at >= query.since
    if query.until is not None:
        yield runs.c.submitted_at < query.until
    if query.cursor:
        submitted_at, last = _position(query.cursor)
        here = tuple_(literal(submitted_at, Time()), literal(last, ID))
        yield tuple_(runs.c.submitted_at, runs.c.id) < here


def _cursor_of(submitted_at: datetime, number: int) -> str:
    """Returns the cursor after the run with this time and this `runs.id`."""
    return base64.urlsafe_b64encode(f"{microseconds(submitted_at)}.{number}".encode()).decode().rstrip("=")


def _position(cursor: str) -> tuple[datetime, int]:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        text = base64.b64decode(padded, altchars=b"-_", validate=True).decode("ascii")
        submitted_at, number = (int(part) for part in text.split("."))
        position = time_of(submitted_at), number
    except (ValueError, OverflowError, binascii.Error):
        position = None
    if position is None or not 0 <= position[1] < 2**63:
        raise StoreQueryError("cursor: not one that a page of this history had")
    return position
