"""The reads of runs, each within one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, bindparam, select

from fournos.history.records import Detail, Document, Identity, Interval, Page, Query, Run
from fournos.history.store import rows
from fournos.history.store.pages import chosen, cursor_of, page_statement, probe
from fournos.history.store.schema import documents, runs, waits
from fournos.history.store.text import unpack

IDENTITY: Final = tuple(runs.c[name] == bindparam(name) for name in ("cluster", "namespace", "uid"))
"""The condition of one run; its parameters are those of `rows.identity_columns`."""
_NUMBER: Final = select(runs.c.id).where(*IDENTITY)
_WAITS: Final = select(waits).where(waits.c.run_id == bindparam("number")).order_by(waits.c.position)
_DOCUMENTS: Final = select(documents.c.name, documents.c.data).where(
    documents.c.run_id == bindparam("number"), documents.c.name.in_(bindparam("names", expanding=True))
)


def find(connection: Connection, query: Query) -> Page:
    """Returns a page of the runs that match.  Raises StoreQueryError for a query that is not valid."""
    found = _page(connection, query)
    page = found[: query.limit]
    more = cursor_of(page[-1].submitted_at, page[-1].id) if len(found) > query.limit else ""
    return Page(tuple(map(rows.run_of, page)), more)


def detail(connection: Connection, query: Query, wanted: Iterable[Document]) -> Detail | None:
    """Returns the newest run that matches, with its ledger and these documents."""
    found = _page(connection, query)
    if not found:
        return None
    number = found[0].id
    return Detail(
        rows.run_of(found[0]), waits_of(connection, number), documents_of(connection, number, wanted)
    )


def get(connection: Connection, identity: Identity) -> Run | None:
    statement = select(*rows.columns(connection.dialect.name)).where(*IDENTITY)
    row = connection.execute(statement, rows.identity_columns(identity)).first()
    return None if row is None else rows.run_of(row)


def number_of(connection: Connection, identity: Identity) -> int | None:
    """Returns `runs.id`, by which tables refer to a run; None if there is none of this identity."""
    found: int | None = connection.scalar(_NUMBER, rows.identity_columns(identity))
    return found


def waits_of(connection: Connection, number: int | None) -> tuple[Interval, ...]:
    return tuple(map(rows.interval_of, connection.execute(_WAITS, {"number": number})))


def documents_of(
    connection: Connection, number: int | None, wanted: Iterable[Document]
) -> dict[Document, Any]:
    names = [one.value for one in wanted]
    if not names:
        return {}
    found = connection.execute(_DOCUMENTS, {"number": number, "names": names})
    return {Document(name): unpack(data) for name, data in found}


def batch(
    connection: Connection, conditions: Sequence[ColumnElement[bool]], order: Sequence[Any], limit: int
) -> tuple[Sequence[Row[Any]], list[Run]]:
    """Returns the first rows that meet the conditions, and their runs."""
    columns = rows.columns(connection.dialect.name)
    found = connection.execute(select(*columns).where(*conditions).order_by(*order).limit(limit)).all()
    return found, list(map(rows.run_of, found))


def leading(connection: Connection, query: Query) -> str | None:
    """Returns the filter that leaves the fewest runs; None where the query alone decides."""
    choice = probe(query, connection.dialect.name)
    if choice is None:
        return None
    names, statement = choice
    return chosen(query, names, connection.execute(statement).one())


def _page(connection: Connection, query: Query) -> Sequence[Row[Any]]:
    page = page_statement(query, connection.dialect.name, leading(connection, query))
    return () if page is None else connection.execute(page).all()
