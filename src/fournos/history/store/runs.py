"""The store of the history: runs with what belongs to them, in SQLite or PostgreSQL."""

from __future__ import annotations

import base64
import binascii
from asyncio import to_thread
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Executable,
    Row,
    Select,
    bindparam,
    delete,
    func,
    insert,
    literal,
    select,
    tuple_,
    union_all,
)

from fournos.api.phase import NEW
from fournos.history.records import Detail, Document, Identity, KeepMark, Page, Query, Record, Run
from fournos.history.store import rows, writes
from fournos.history.store.database import BUSY_SECONDS, Database, StoreQueryError, open_database
from fournos.history.store.rows import columns, folded, indexed, message, unpack
from fournos.history.store.schema import (
    ID,
    Time,
    baselines,
    documents,
    keeps,
    labels,
    microseconds,
    runs,
    time_of,
)

IDENTITY: Final = tuple(runs.c[name] == bindparam(name) for name in ("cluster", "namespace", "uid"))
"""The condition of one run; its parameters are those of `rows.identity_columns`."""
_NUMBER: Final = select(runs.c.id).where(*IDENTITY)
_MARK: Final = select(keeps.c.by, keeps.c.at, keeps.c.reason).where(keeps.c.run_id == bindparam("number"))
_DOCUMENTS: Final = select(documents.c.name, documents.c.data).where(
    documents.c.run_id == bindparam("number"), documents.c.name.in_(bindparam("names", expanding=True))
)


def find_namespaces(connection: Connection) -> list[tuple[str, str]]:
    """Returns the name and the UID of each namespace that has runs, without reading the runs.

    Each step asks the index for the next UID, so the number of namespaces counts and not that of the runs.
    """
    first = select(func.min(runs.c.namespace_uid).label("uid")).cte("uids", recursive=True)
    following = select(
        select(func.min(runs.c.namespace_uid)).where(runs.c.namespace_uid > first.c.uid).scalar_subquery()
    ).where(first.c.uid.is_not(None))
    uids = first.union_all(following)
    name = select(runs.c.namespace).where(runs.c.namespace_uid == uids.c.uid).limit(1).scalar_subquery()
    pairs = connection.execute(select(name, uids.c.uid).where(uids.c.uid.is_not(None)))
    return [(row[0], row[1]) for row in pairs]


def find_number(connection: Connection, identity: Identity) -> int | None:
    """Returns `runs.id`, by which tables refer to a run; None if there is none of this identity."""
    found: int | None = connection.scalar(_NUMBER, rows.identity_columns(identity))
    return found


def documents_of(
    connection: Connection, number: int | None, wanted: Iterable[Document]
) -> dict[Document, Any]:
    names = [one.value for one in wanted]
    if not names:
        return {}
    found = connection.execute(_DOCUMENTS, {"number": number, "names": names})
    return {Document(name): unpack(data) for name, data in found}


FILTERS: Final = {
    "fingerprint": runs.c.fingerprint,
    "pipeline": runs.c.pipeline,
    "owner": runs.c.owner,
    "cluster": runs.c.target,
    "phase": runs.c.phase,
    "kind": runs.c.kind,
}
"""The filters with several values, over one column each."""


def page_statement(query: Query, dialect: str) -> Select[Any]:
    """Returns the statement of a page's rows, and one more if there is one.

    Raises StoreQueryError for a cursor that no page has.
    """
    newest_first = (runs.c.submitted_at.desc(), runs.c.id.desc())
    # The labels of a run are read for the rows of the page alone, not for all that are sorted.
    keys = select(runs.c.id).where(*_conditions(query)).order_by(*newest_first).limit(query.filters.limit + 1)
    page = keys.subquery("page")
    return select(*columns(dialect)).join(page, page.c.id == runs.c.id).order_by(*newest_first)


def _conditions(query: Query) -> Iterator[ColumnElement[bool]]:
    yield from rows.within(query.scope)
    filters = query.filters
    exact = ((query.uid, runs.c.uid), (query.namespace, runs.c.namespace), (filters.name, runs.c.name))
    for text, column in exact:
        if text:
            yield column == indexed(text)
    for name, column in FILTERS.items():
        if values := getattr(filters, name):
            # A run that nothing has reconciled yet may have no phase at all.
            more = ("",) if name == "phase" and NEW in values else ()
            yield column.in_([indexed(each) for each in (*values, *more)])
    for name, _, value in (label.partition("=") for label in filters.label):
        of_label = (labels.c.name == indexed(name), labels.c.value == indexed(value))
        yield runs.c.id.in_(select(labels.c.run_id).where(*of_label))
    if filters.text:
        yield runs.c.search.contains(folded(filters.text), autoescape=True)
    if filters.since is not None:
        yield runs.c.submitted_at >= filters.since
    if filters.until is not None:
        yield runs.c.submitted_at < filters.until
    if filters.cursor:
        submitted_at, last = _position(filters.cursor)
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


T = TypeVar("T")
_BATCH: Final = 500
"""Runs that an iteration reads at once."""
_PARAMETERS: Final = 10_000
"""Parameters of one statement; SQLite takes 32,766, PostgreSQL 65,535."""


class HistoryStore:
    """Reads and writes the history.  Every method is one transaction.

    Raises StoreUnavailableError while the database does not answer or has no space: the same call may succeed
    later.  Modules with tables of their own use `read`, `rows`, `write` and `execute`.
    """

    def __init__(self, database: Database, namespace_bytes: int = 0) -> None:
        """`namespace_bytes`: most of the results, logs and artifacts of one namespace; 0: no limit."""
        self.database = database
        self.namespace_bytes = namespace_bytes
        self._columns = columns(database.dialect)

    @classmethod
    async def open(
        cls, url: str, *, namespace_bytes: int = 0, busy_seconds: float = BUSY_SECONDS
    ) -> HistoryStore:
        """Opens the database of the URL and makes its tables.

        Raises StoreUsageError for one that cannot be used.
        """
        return cls(await open_database(url, busy_seconds), namespace_bytes)

    async def close(self) -> None:
        await self.database.close()

    async def __aenter__(self) -> HistoryStore:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Calls `work` with a connection that only reads, and returns its result."""
        return await self.database.read(work)

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Calls `work` in a transaction that is committed at its end, and rolled back after an exception."""
        return await self.database.write(work)

    async def rows(self, statement: Executable) -> Sequence[Row[*tuple[Any, ...]]]:
        """Returns the rows that a statement selects."""
        return await self.read(lambda connection: connection.execute(statement).all())

    async def rows_of(
        self, statement: Select[Any], column: ColumnElement[Any], values: Iterable[Any]
    ) -> list[Row[*tuple[Any, ...]]]:
        """Returns the rows whose column has one of the values.

        Of many values in several statements: a database takes a bounded number of parameters.
        """
        wanted = list(values)
        found: list[Row[*tuple[Any, ...]]] = []
        for start in range(0, len(wanted), _PARAMETERS):
            found += await self.rows(statement.where(column.in_(wanted[start : start + _PARAMETERS])))
        return found

    async def execute(self, statement: Executable) -> int:
        """Executes one statement that writes, and returns the number of rows that it has changed."""
        return await self.write(lambda connection: connection.execute(statement).rowcount)

    async def ping(self) -> None:
        """Reads one row.  Raises StoreUnavailableError if the database does not answer."""
        await self.read(lambda connection: connection.execute(select(runs.c.id).limit(1)).first())

    async def record(self, record: Record) -> bool:
        """Inserts or updates a run.  False: the stored one is newer, or was deleted from the history."""
        try:
            await self.write(lambda connection: writes.put(connection, record, self.namespace_bytes))
        except writes.RecordRefusedError:
            return False
        return True

    async def get(self, identity: Identity) -> Run | None:
        """Returns the run; None if there is none of this identity."""
        statement = select(*self._columns).where(runs.c.id == number_of(identity))
        row = await self.read(lambda connection: connection.execute(statement).first())
        return None if row is None else rows.run_of(row)

    async def find(self, query: Query) -> Page:
        """Returns a page of the runs that match, the newest submission first.

        Raises StoreQueryError for a cursor that no page had.
        """
        page = await self.rows(page_statement(query, self.database.dialect))
        shown = page[: query.filters.limit]
        more = len(page) > len(shown)
        cursor = _cursor_of(shown[-1].submitted_at, shown[-1].id) if more else ""
        return Page(tuple(map(rows.run_of, shown)), cursor)

    async def detail(self, query: Query, documents: Iterable[Document] = ()) -> Detail | None:
        """Returns the newest run that matches, with these documents, in one read."""
        statement = page_statement(query, self.database.dialect)

        def read(connection: Connection) -> Detail | None:
            row = connection.execute(statement).first()
            if row is None:
                return None
            mark = connection.execute(_MARK, {"number": row.id}).first()
            kept = None if mark is None else KeepMark(*mark)
            return Detail(rows.run_of(row), documents_of(connection, row.id, documents), kept)

        return await self.read(read)

    async def namespaces(self) -> list[tuple[str, str]]:
        """Returns the name and the UID of each namespace that has runs."""
        return await self.read(find_namespaces)

    async def document(self, identity: Identity, name: Document) -> Any | None:
        """Returns a document of a run; None if it has none of this name."""

        def read(connection: Connection) -> Any | None:
            found = documents_of(connection, find_number(connection, identity), [name])
            return found.get(name)

        return await self.read(read)

    async def documents(self, identities: Iterable[Identity], name: Document) -> dict[Identity, Any]:
        """Returns a document of each of the runs that has one of this name."""
        uids = {indexed(identity.uid) for identity in identities}
        statement = (
            select(runs.c.cluster, runs.c.namespace, runs.c.uid, documents.c.data)
            .join(documents, documents.c.run_id == runs.c.id)
            .where(documents.c.name == name.value)
        )
        stored = await self.rows_of(statement, runs.c.uid, uids)
        return await to_thread(lambda: {rows.identity_of(row): unpack(row.data) for row in stored})

    async def open_runs(self, cluster: str, kind: str) -> AsyncIterator[Run]:
        """Yields the runs of a kind whose end is not known, in no particular order."""
        still_open = (
            runs.c.cluster == indexed(cluster),
            runs.c.kind == kind,
            runs.c.closed_at.is_(None),
        )
        statement = select(*self._columns).where(*still_open).order_by(runs.c.id).limit(_BATCH)
        last = 0
        while batch := await self.rows(statement.where(runs.c.id > last)):
            for row in batch:
                yield rows.run_of(row)
            if len(batch) < _BATCH:
                return
            last = batch[-1].id

    async def keep(self, identity: Identity, on: bool, *, by: str, reason: str, now: datetime) -> bool:
        """Marks a run as one that never expires, or takes the mark away.  False: there is no such run."""

        def mark(connection: Connection) -> bool:
            number = find_number(connection, identity)
            if number is None:
                return False
            connection.execute(delete(keeps).where(keeps.c.run_id == number))
            if on:
                row = {"run_id": number, "at": now, "by": indexed(by), "reason": message(reason)}
                connection.execute(insert(keeps).values(row))
            return True

        return await self.write(mark)

    async def kept(self, identities: Iterable[Identity]) -> set[Identity]:
        """Returns those of the runs, of a page, that never expire: marked ones, and baselines."""
        by_columns = {tuple(rows.identity_columns(identity).values()): identity for identity in identities}
        marked = union_all(*(select(table.c.run_id) for table in (keeps, baselines)))
        names = select(runs.c.cluster, runs.c.namespace, runs.c.uid).where(
            runs.c.uid.in_([uid for _, _, uid in by_columns]), runs.c.id.in_(marked)
        )
        found = await self.rows(names)
        return {by_columns[key] for row in found if (key := tuple(row)) in by_columns}


def number_of(identity: Identity) -> Any:
    """Returns the subquery of `runs.id`, by which tables refer to a run."""
    same = (runs.c[name] == value for name, value in rows.identity_columns(identity).items())
    return select(runs.c.id).where(*same).scalar_subquery()
