"""Backup and restore: one file for both databases, which is itself a SQLite database of the history.

SQLite is copied by its backup API, beside a writer.  From PostgreSQL the rows of one state are copied.
As both give the same file, and a restore takes it into either, it also moves a history from one database to
the other.  Logs and artifacts are files of their own, and not in it.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, MetaData, Table, create_engine, func, insert, select, text

from fournos.history.store import migrate
from fournos.history.store.database import Database
from fournos.history.store.errors import StoreUsageError

_BATCH: Final = 500
_VERSION: Final = "alembic_version"


async def backup(database: Database, file: Path) -> None:
    """Writes the whole history to a new file.  Raises StoreUsageError if the file exists."""
    if await asyncio.to_thread(file.exists):
        raise StoreUsageError(f"{file} exists already")
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=".backup-") as folder:
        copy = Path(folder) / file.name
        if database.path is not None:
            await asyncio.to_thread(_copy_sqlite, database.path, copy)
        else:
            async with database.reading() as connection:
                await connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))
                await connection.run_sync(_export, copy)
        copy.replace(file)


async def restore(database: Database, file: Path) -> None:
    """Fills an empty history from a backup: all of it or nothing.

    Raises StoreUsageError if the history is not empty, or if this version cannot read the file as a backup.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "backup.db"
        await asyncio.to_thread(_open_backup, file, copy)
        async with database.writing() as connection:
            await connection.run_sync(_import, copy)


def _copy_sqlite(source: Path, target: Path) -> None:
    with sqlite3.connect(f"file:{source}?mode=ro", uri=True) as reader, sqlite3.connect(target) as writer:
        reader.backup(writer)
        # The copy is a file of its own, without a log beside it.
        writer.execute("PRAGMA journal_mode = DELETE")
    reader.close()
    writer.close()


def _open_backup(file: Path, copy: Path) -> None:
    """Copies a backup and brings the copy up to date."""
    try:
        _copy_sqlite(file, copy)
        with _sqlite(copy) as connection:
            if migrate.current(connection) is None:
                raise StoreUsageError(f"{file} is not a backup of a history")
            migrate.upgrade(connection)
    except sqlite3.Error as error:
        raise StoreUsageError(f"{file} is not a backup of a history: {error}") from error


def _export(source: Connection, copy: Path) -> None:
    with _sqlite(copy) as target:
        migrate.upgrade(target)
        _copy_rows(source, target)


def _import(target: Connection, copy: Path) -> None:
    tables = _tables(target)
    for name in ("runs", "tombstones"):
        if target.scalar(select(func.count()).select_from(tables[name])):
            raise StoreUsageError("The history is not empty: a backup is restored into an empty one alone")
    with _sqlite(copy) as source:
        _copy_rows(source, target)
    if target.dialect.name == "postgresql":
        for table in tables.values():
            continue_numbers(target, table)


def _copy_rows(source: Connection, target: Connection) -> None:
    written = _tables(target)
    for name, table in _tables(source).items():
        for batch in _batches(source, table):
            target.execute(insert(written[name]), batch)


def _batches(source: Connection, table: Table) -> Iterator[Sequence[Mapping[str, Any]]]:
    """Yields the rows of a table; a whole one could be too large for the memory."""
    rows = source.execution_options(yield_per=_BATCH).execute(select(table))
    for batch in rows.partitions():
        yield [dict(row._mapping) for row in batch]


def _tables(connection: Connection) -> dict[str, Table]:
    """Returns all tables of the database, those first to which others refer: also those of other modules."""
    found = MetaData()
    found.reflect(connection)
    return {table.name: table for table in found.sorted_tables if table.name != _VERSION}


def continue_numbers(connection: Connection, table: Table) -> None:
    """Has PostgreSQL number new rows after those that were restored with their numbers."""
    for column in table.columns:
        sequence = connection.scalar(select(func.pg_get_serial_sequence(table.name, column.name)))
        if sequence is not None:
            highest = connection.scalar(select(func.max(column)))
            connection.scalar(select(func.setval(sequence, highest or 1, highest is not None)))


@contextmanager
def _sqlite(file: Path) -> Iterator[Connection]:
    """A connection to a file, in one transaction."""
    engine = create_engine(f"sqlite:///{file}")
    try:
        with engine.begin() as connection:
            yield connection
    finally:
        engine.dispose()
