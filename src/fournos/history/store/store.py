"""The store of the history: runs with what belongs to them, in SQLite or PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from functools import cache
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, Table, delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from fournos.history.records import Document, Identity, Interval, Page, Query, Record, Run
from fournos.history.store import rows
from fournos.history.store.database import BUSY_SECONDS, INSERT, Database, open_database
from fournos.history.store.pages import cursor_of, page_statement
from fournos.history.store.schema import blobs, documents, keeps, labels, runs, tombstones, waits
from fournos.history.store.text import indexed, message, pack, unpack

_BATCH: Final = 500
"""Runs that an iteration reads at once."""


class _RefusedError(Exception):
    """Rolls the transaction of a record back."""


class Store:
    """Reads and writes the history.  Every method is one transaction.

    Raises StoreUnavailableError while the database does not answer or has no space: the same call may succeed
    later.  Modules with tables of their own use `reading` and `writing`.
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    @classmethod
    async def open(cls, url: str, *, writable: bool = True, busy_seconds: float = BUSY_SECONDS) -> Store:
        """Opens the database of the URL and brings its tables up to date.

        Raises StoreUsageError for one that cannot be used: a SQLite database has exactly one writer.
        """
        return cls(await open_database(url, writable=writable, busy_seconds=busy_seconds))

    async def close(self) -> None:
        await self.database.close()

    async def __aenter__(self) -> Store:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    def reading(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """A connection in a transaction that only reads."""
        return self.database.reading()

    def writing(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """A connection in a transaction that is committed at the end, and rolled back after an exception."""
        return self.database.writing()

    async def record(self, record: Record) -> bool:
        """Inserts or updates a run.  False: the stored one is newer, or was deleted from the history."""
        packed = await asyncio.to_thread(_packed, record) if record.documents else []
        try:
            await self._record(record, packed)
        except _RefusedError:
            return False
        return True

    async def _record(self, record: Record, packed: Sequence[Mapping[str, Any]]) -> None:
        async with self.writing() as connection:
            number = await self._upsert(connection, record.run)
            # Looked for after the upsert, which waits for a deletion of the run that is under way.
            buried = _equal(tombstones, rows.identity_columns(record.run.identity))
            if number is None or await connection.scalar(select(tombstones.c.at).where(*buried)):
                raise _RefusedError
            await _replace(connection, labels, number, rows.label_rows(record.run))
            await _replace(connection, waits, number, rows.wait_rows(record.waits))
            if packed:
                await self._put_documents(connection, number, packed)

    async def get(self, identity: Identity) -> Run | None:
        """Returns the run; None if there is none of this identity."""
        statement = select(*rows.COLUMNS).where(*_equal(runs, rows.identity_columns(identity)))
        async with self.reading() as connection:
            found = await _runs(connection, (await connection.execute(statement)).all())
        return found[0] if found else None

    async def find(self, query: Query) -> Page:
        """Returns a page of the runs that match.  Raises StoreQueryError for a query that is not valid."""
        statement = page_statement(query, self.database.dialect)
        if statement is None:
            return Page(())
        async with self.reading() as connection:
            found = (await connection.execute(statement)).all()
            page = found[: query.limit]
            return Page(
                tuple(await _runs(connection, page)),
                cursor_of(page[-1].submitted_at, page[-1].id) if len(found) > query.limit else "",
            )

    async def waits(self, identity: Identity) -> tuple[Interval, ...]:
        """Returns the waiting ledger of a run, oldest first."""
        statement = select(waits).where(waits.c.run_id == number_of(identity)).order_by(waits.c.position)
        async with self.reading() as connection:
            return tuple(rows.interval_of(row) for row in await connection.execute(statement))

    async def document(self, identity: Identity, name: Document) -> Any | None:
        """Returns a document of a run; None if it has none of this name."""
        statement = select(documents.c.data).where(
            documents.c.run_id == number_of(identity), documents.c.name == name.value
        )
        async with self.reading() as connection:
            data = await connection.scalar(statement)
        return None if data is None else unpack(data)

    async def open_runs(self, cluster: str, kind: str) -> AsyncIterator[Run]:
        """Yields the runs of a kind whose end is not known, in no particular order."""
        wanted = (runs.c.cluster == indexed(cluster), runs.c.kind == kind, runs.c.closed_at.is_(None))
        last = 0
        while True:
            statement = (
                select(*rows.COLUMNS).where(*wanted, runs.c.id > last).order_by(runs.c.id).limit(_BATCH)
            )
            async with self.reading() as connection:
                found = (await connection.execute(statement)).all()
                batch = await _runs(connection, found)
            for run in batch:
                yield run
            if len(found) < _BATCH:
                return
            last = found[-1].id

    async def ended(self, since: datetime, kind: str = "") -> AsyncIterator[Run]:
        """Yields the runs that ended at or after a time, the first end first."""
        after: ColumnElement[bool] = runs.c.ended_at >= since
        wanted = (runs.c.closed_at.is_not(None), *((runs.c.kind == kind,) if kind else ()))
        while True:
            statement = (
                select(*rows.COLUMNS).where(after, *wanted).order_by(runs.c.ended_at, runs.c.id).limit(_BATCH)
            )
            async with self.reading() as connection:
                found = (await connection.execute(statement)).all()
                batch = await _runs(connection, found)
            for run in batch:
                yield run
            if len(found) < _BATCH:
                return
            after = rows.after(found[-1].ended_at, found[-1].id)

    async def keep(self, identity: Identity, on: bool, *, by: str, reason: str, now: datetime) -> bool:
        """Marks a run as one that never expires, or takes the mark away.  False: there is no such run."""
        async with self.writing() as connection:
            number = await connection.scalar(select(number_of(identity)))
            if number is None:
                return False
            await connection.execute(delete(keeps).where(keeps.c.run_id == number))
            if on:
                mark = {"run_id": number, "at": now, "by": indexed(by), "reason": message(reason)}
                await connection.execute(insert(keeps).values(mark))
            return True

    async def kept(self, identities: Iterable[Identity]) -> set[Identity]:
        """Returns those of the runs that have a keep mark."""
        found = set()
        async with self.reading() as connection:
            for identity in identities:
                mark = select(keeps.c.run_id).where(keeps.c.run_id == number_of(identity))
                if await connection.scalar(mark) is not None:
                    found.add(identity)
        return found

    async def claim_blob(self, identity: Identity, key: str, size: int) -> bool:
        """Notes a blob of a run before it is written: it goes with the run.  False: there is no such run."""
        async with self.writing() as connection:
            number = await connection.scalar(select(number_of(identity)))
            if number is None:
                return False
            statement = INSERT[self.database.dialect](blobs)
            row = {"key": key, "run_id": number, "size": size}
            changed = {"run_id": number, "size": size}
            await connection.execute(
                statement.values(row).on_conflict_do_update(index_elements=["key"], set_=changed)
            )
            return True

    async def _upsert(self, connection: AsyncConnection, run: Run) -> int | None:
        """Returns the key of the run's row; None if the stored one is newer."""
        row = rows.row_of(run)
        statement = _upsert_statement(self.database.dialect, tuple(row))
        found: int | None = await connection.scalar(statement, row)
        return found

    async def _put_documents(
        self, connection: AsyncConnection, number: int, packed: Sequence[Mapping[str, Any]]
    ) -> None:
        statement = INSERT[self.database.dialect](documents)
        await connection.execute(
            statement.on_conflict_do_update(
                index_elements=["run_id", "name"],
                set_={"size": statement.excluded["size"], "data": statement.excluded["data"]},
            ),
            [{"run_id": number, **each} for each in packed],
        )
        total = select(func.coalesce(func.sum(documents.c.size), 0)).where(documents.c.run_id == number)
        await connection.execute(
            update(runs).where(runs.c.id == number).values(document_bytes=total.scalar_subquery())
        )


@cache
def _upsert_statement(dialect: str, names: tuple[str, ...]) -> Any:
    """Returns the upsert of these columns of a run; made once: making it takes longer than running it."""
    statement = INSERT[dialect](runs)
    changed = {
        name: statement.excluded[name] for name in names if name not in ("cluster", "namespace", "uid")
    }
    return statement.on_conflict_do_update(
        index_elements=["cluster", "namespace", "uid"],
        set_=changed,
        where=runs.c.resource_version <= statement.excluded.resource_version,
    ).returning(runs.c.id)


def number_of(identity: Identity) -> Any:
    """Returns the subquery of `runs.id`, by which tables refer to a run."""
    return select(runs.c.id).where(*_equal(runs, rows.identity_columns(identity))).scalar_subquery()


def _packed(record: Record) -> list[dict[str, Any]]:
    packed = {name.value: pack(document) for name, document in record.documents.items()}
    return [{"name": name, "size": len(data), "data": data} for name, data in packed.items()]


def _equal(table: Table, values: Mapping[str, str]) -> list[ColumnElement[bool]]:
    return [table.c[name] == value for name, value in values.items()]


async def _runs(connection: AsyncConnection, found: Sequence[Row[Any]]) -> list[Run]:
    """Returns the runs of rows, with their labels."""
    if not found:
        return []
    statement = select(labels.c.run_id, labels.c.name, labels.c.value)
    theirs: dict[int, dict[str, str]] = {row.id: {} for row in found}
    for number, name, value in await connection.execute(statement.where(labels.c.run_id.in_(theirs))):
        theirs[number][name] = value
    return [rows.run_of(row, theirs[row.id]) for row in found]


async def _replace(
    connection: AsyncConnection, table: Table, number: int, wanted: Sequence[Mapping[str, Any]]
) -> None:
    """Makes `wanted` the rows of a run in the table.  Nothing is written if they are stored already."""
    columns = [column for column in table.c if column.name != "run_id"]
    keys = [column for column in table.primary_key if column.name != "run_id"]
    statement = select(*columns).where(table.c.run_id == number).order_by(*keys)
    stored = [dict(row._mapping) for row in await connection.execute(statement)]
    if stored == list(wanted):
        return
    if stored:
        await connection.execute(delete(table).where(table.c.run_id == number))
    if wanted:
        await connection.execute(insert(table), [{"run_id": number, **row} for row in wanted])
