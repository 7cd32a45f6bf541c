"""Sizes and upkeep of the database's files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import text

from fournos.history.store.database import Database


async def size(database: Database) -> int:
    """Returns the bytes of the database on disk; in SQLite with those of its write-ahead log."""
    if database.path is not None:
        return sum(_size(Path(f"{database.path}{suffix}")) for suffix in ("", "-wal"))
    async with database.reading() as connection:
        return int(await connection.scalar(text("SELECT pg_database_size(current_database())")) or 0)


async def give_back(database: Database) -> None:
    """Gives the space of deleted rows back to the file system, as far as that is possible beside other work.

    PostgreSQL does this by itself.  In SQLite deleted rows are overwritten and the log is emptied, so that
    nothing of them stays in the files.
    """
    if database.dialect == "sqlite":
        async with database.autocommit() as connection:
            driver: Any = (await connection.get_raw_connection()).driver_connection
            # Each step of this PRAGMA frees one page, and the driver's `execute` makes only one step.
            await driver.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE);")


async def vacuum(database: Database) -> None:
    """Rewrites what is needed to make the database as small as it can be, and renews its statistics."""
    async with database.autocommit() as connection:
        await connection.execute(text("VACUUM" if database.dialect == "sqlite" else "VACUUM (ANALYZE)"))
    await give_back(database)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
