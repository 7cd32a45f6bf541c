"""The reads of runs, each within one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, bindparam, select

from fournos.history.records import Detail, Document, Identity, Interval, KeepMark, Page, Query, Run
from fournos.history.store import rows
from fournos.history.store.entries import cursor_of
from fournos.history.store.pages import page_statement, require_valid
from fournos.history.store.reach import Choice, Reach
from fournos.history.store.schema import documents, keeps, runs, waits
from fournos.history.store.text import unpack

IDENTITY: Final = tuple(runs.c[name] == bindparam(name) for name in ("cluster", "namespace", "uid"))
"""The condition of one run; its parameters are those of `rows.identity_columns`."""
_NUMBER: Final = select(runs.c.id).where(*IDENTITY)
_WAITS: Final = select(waits).where(waits.c.run_id == bindparam("number")).order_by(waits.c.position)
_MARK: Final = select(keeps.c.by, keeps.c.at, keeps.c.reason).where(keeps.c.run_id == bindparam("number"))
_DOCUMENTS: Final = select(documents.c.name, documents.c.data).where(
    documents.c.run_id == bindparam("number"), documents.c.name.in_(bindparam("names", expanding=True))
)


def find(connection: Connection, query: Query, *, has_trigrams: bool) -> Page:
    """Returns a page of the runs that match.  Raises StoreQueryError for a query that is not valid."""
    found, until = _page(connection, query, has_trigrams)
    shown = tuple(map(rows.run_of, found[: query.limit]))
    if len(found) > query.limit:
        last = found[query.limit - 1]
        return Page(shown, cursor_of(last.submitted_at, last.id))
    if until is None:
        return Page(shown)
    return Page(shown, cursor_of(until, 0), until if len(found) < query.limit else None)


def detail(
    connection: Connection, query: Query, wanted: Iterable[Document], *, has_trigrams: bool
) -> Detail | None:
    """Returns the newest run that matches, with its ledger and these documents."""
    found, until = _page(connection, query, has_trigrams)
    while not found and until is not None:
        found, until = _page(connection, replace(query, cursor=cursor_of(until, 0)), has_trigrams)
    if not found:
        return None
    number = found[0].id
    return Detail(
        rows.run_of(found[0]),
        waits_of(connection, number),
        documents_of(connection, number, wanted),
        mark_of(connection, number),
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


def mark_of(connection: Connection, number: int) -> KeepMark | None:
    found = connection.execute(_MARK, {"number": number}).first()
    return None if found is None else KeepMark(*found)


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


def reach(connection: Connection, query: Query, *, has_trigrams: bool) -> Reach:
    """Returns by which filter the page is read, and how far it searches."""
    choice = Choice(query, connection.dialect.name, has_trigrams=has_trigrams)
    if (known := choice.known()) is not None:
        return known
    for names in choice.rounds:
        few = choice.fewest(names, connection.execute(choice.counts(names)).one())
        if few is not None:
            return few
    return choice.furthest(connection.execute(choice.ends()).one())


def _page(
    connection: Connection, query: Query, has_trigrams: bool
) -> tuple[Sequence[Row[Any]], datetime | None]:
    """Returns the rows of a page and one more if there is one, and the time at which the search ended."""
    dialect = connection.dialect.name
    require_valid(query, dialect)
    if query.namespaces == ():
        return (), None
    found = reach(connection, query, has_trigrams=has_trigrams)
    return connection.execute(page_statement(query, dialect, found)).all(), found.until
