"""Opens the history's database by its URL: SQLite in a file, or PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy import URL, Connection, Engine, Table, create_engine, event, make_url
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from fournos.history.store import migrate
from fournos.history.store.errors import StoreUsageError, translated
from fournos.history.store.lockfile import WriterLock, warn_of_network

BUSY_SECONDS: Final = 30.0
"""How long SQLite waits for another process's lock, and a pool for a free connection."""
_WRITES: Final = "fournos_writes"
INSERT: Final[Mapping[str, Callable[[Table], Any]]] = {
    "sqlite": sqlite.insert,
    "postgresql": postgresql.insert,
}
"""Dialect → its INSERT, which unlike the common one has `on_conflict_do_update`."""
_THREADS: Final = 4
"""Transactions of SQLite that run beside each other."""

T = TypeVar("T")


class Database:
    """An open database.  In SQLite at most one transaction writes at a time, in this process alone.

    `read` and `write` run a whole transaction; `reading` and `writing` give a connection whose statements are
    awaited one by one, each of which costs SQLite several changes of the thread.
    """

    def __init__(
        self, engine: AsyncEngine, lock: WriterLock | None, *, writable: bool, sync: Engine | None = None
    ) -> None:
        """`sync`: for SQLite, which blocks the thread that uses it."""
        self._engine = engine
        self._single = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._lock = lock
        self._writable = writable
        self._turn = asyncio.Lock()
        self._sync = sync
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="history")

    @property
    def dialect(self) -> str:
        """`sqlite` or `postgresql`."""
        return self._engine.dialect.name

    @property
    def path(self) -> Path | None:
        """The file of a SQLite database."""
        name = self._engine.url.database
        return Path(name) if self.dialect == "sqlite" and name else None

    async def read(self, work: Callable[[Connection], T]) -> T:
        """Calls `work` with a connection that only reads, and returns its result.

        In SQLite all its statements read one state of the database.
        """
        if self._sync is not None:
            with translated():
                return await self._in_thread(self._sync, work, writes=False)
        # PostgreSQL shows each statement the newest state; a transaction around one adds nothing.
        with translated():
            async with self._single.connect() as connection:
                return await connection.run_sync(work)

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Calls `work` in a transaction that is committed at its end, and rolled back after an exception."""
        if self._sync is not None:
            self._require_writable()
            with translated():
                async with self._turn:
                    return await self._in_thread(self._sync, work, writes=True)
        async with self.writing() as connection:
            return await connection.run_sync(work)

    async def _in_thread(self, engine: Engine, work: Callable[[Connection], T], *, writes: bool) -> T:
        def transaction() -> T:
            with engine.connect().execution_options(**{_WRITES: writes}) as connection, connection.begin():
                return work(connection)

        running = asyncio.get_running_loop().run_in_executor(self._threads, transaction)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            # The thread cannot be stopped, and the next transaction must not begin beside it.
            await asyncio.wait([running])
            raise

    def _require_writable(self) -> None:
        if not self._writable:
            raise StoreUsageError("The history's database is open for reading only")

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A connection in a transaction that only reads."""
        with translated():
            async with self._engine.connect() as connection:
                yield connection

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """A connection in a transaction that is committed at the end, and rolled back after an exception."""
        self._require_writable()
        with translated():
            if self.dialect != "sqlite":
                async with self._engine.begin() as connection:
                    yield connection
                return
            async with self._turn, self._engine.connect() as connection:
                await connection.execution_options(**{_WRITES: True})
                async with connection.begin():
                    yield connection

    @asynccontextmanager
    async def autocommit(self) -> AsyncIterator[AsyncConnection]:
        """A connection without transactions, for statements like VACUUM."""
        with translated():
            async with self._turn, self._engine.connect() as connection:
                yield await connection.execution_options(isolation_level="AUTOCOMMIT")

    async def close(self) -> None:
        await asyncio.to_thread(self._threads.shutdown)
        if self._sync is not None:
            self._sync.dispose()
        await self._engine.dispose()
        if self._lock is not None:
            self._lock.release()


async def open_database(url: str, *, writable: bool = True, busy_seconds: float = BUSY_SECONDS) -> Database:
    """Opens the database and brings its tables up to date; with `writable=False` it must be up to date.

    Raises StoreUsageError for a URL, a file or tables that cannot be used, StoreUnavailableError if the
    database does not answer.
    """
    parsed = _parsed(url)
    lock = None
    if parsed.get_backend_name() == "sqlite":
        path = Path(parsed.database or "")
        if writable:
            lock = _lock_for(path)
        else:
            _require_file(path)
    sync = _sync_engine(parsed, busy_seconds) if parsed.get_backend_name() == "sqlite" else None
    database = Database(_engine(parsed, busy_seconds), lock, writable=writable, sync=sync)
    try:
        await _bring_up_to_date(database, writable=writable)
    except BaseException:
        await database.close()
        raise
    return database


async def _bring_up_to_date(database: Database, *, writable: bool) -> None:
    async with database.writing() if writable else database.reading() as connection:
        await connection.run_sync(migrate.upgrade if writable else migrate.require_head)


def _require_file(path: Path) -> None:
    if not path.is_file():
        raise StoreUsageError(f"There is no database {path}")


def _lock_for(path: Path) -> WriterLock:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = WriterLock(path)
    except OSError as error:
        raise StoreUsageError(f"The history's database {path} cannot be opened: {error.strerror}") from error
    warn_of_network(path)
    return lock


def _parsed(url: str) -> URL:
    """Returns the URL with the driver that this program brings."""
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        # The URL may hold a password, so the message does not repeat it.
        raise StoreUsageError(
            "The URL of the history's database is not one like sqlite:////var/lib/fournos/history.db "
            "or postgresql://user@host/database"
        ) from error
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        if not parsed.database or parsed.database == ":memory:":
            raise StoreUsageError(
                "sqlite:// needs the path of a file, like sqlite:////var/lib/fournos/history.db"
            )
        return parsed.set(drivername="sqlite+aiosqlite")
    if backend not in ("postgresql", "postgres"):
        raise StoreUsageError(f"{backend}: the history's database is sqlite:///… or postgresql://…")
    query = dict(parsed.query)
    if "sslmode" in query:  # as libpq calls it
        query["ssl"] = query.pop("sslmode")
    return parsed.set(drivername="postgresql+asyncpg", query=query)


def _engine(url: URL, busy_seconds: float) -> AsyncEngine:
    if url.get_backend_name() == "sqlite":
        engine = create_async_engine(url, pool_timeout=busy_seconds, connect_args={"timeout": busy_seconds})
        _listen(engine.sync_engine)
        return engine
    return create_async_engine(
        url, pool_timeout=busy_seconds, pool_pre_ping=True, connect_args={"timeout": busy_seconds}
    )


def _sync_engine(url: URL, busy_seconds: float) -> Engine:
    """Returns the engine of SQLite whose connections are used by one thread after the other."""
    engine = create_engine(
        url.set(drivername="sqlite"),
        pool_timeout=busy_seconds,
        connect_args={"timeout": busy_seconds, "check_same_thread": False},
    )
    _listen(engine)
    return engine


def _listen(engine: Engine) -> None:
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    # The driver begins no transactions by itself: it would begin them too late, and none around CREATE TABLE.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in (
        "auto_vacuum = INCREMENTAL",  # before the first table: a file that shrinks without being copied
        "journal_mode = WAL",
        "synchronous = NORMAL",
        "cache_size = -16384",  # KiB: the index of all names of 200,000 runs
        "foreign_keys = ON",
        "secure_delete = ON",  # what is deleted is overwritten
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get("isolation_level") != "AUTOCOMMIT":
        # A transaction that became a writer later could find that the state it has read is an old one.
        connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get(_WRITES) else "BEGIN")
