"""Opens the history's database by its URL, SQLite in a file or PostgreSQL, and makes its tables.

Alembic takes 8 MB, so it is imported only where a revision is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    Table,
    column,
    create_engine,
    event,
    func,
    inspect,
    make_url,
    select,
    table,
    text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine


class StoreError(Exception):
    """The store cannot be used as asked."""


class StoreUsageError(StoreError):
    """The URL, the file or the database is not one that can be used; only a person can change that."""


class StoreQueryError(StoreError):
    """The cursor is not one that a page had."""


class NamespaceFullError(StoreError):
    """The runs of the namespace have as many results, logs and artifacts as are kept."""


class StoreUnavailableError(StoreError):
    """The database does not answer, or cannot write now.  The same call may succeed later."""


class StoreFullError(StoreUnavailableError):
    """There is no space left for the database."""


_FULL = ("database or disk is full", "DiskFullError", "No space left on device")
# SQLite has one class for these and for a statement that is wrong.
_LATER = (
    "attempt to write a readonly database",
    "database is locked",
    "database table is locked",
    "disk I/O error",
    "unable to open database file",
    "AdminShutdownError",
    "CannotConnectNowError",
    "ConnectionDoesNotExistError",
    "ConnectionFailureError",
    "CrashShutdownError",
    "DeadlockDetectedError",
    "InterfaceError",
    "ReadOnlySQLTransactionError",
    "SerializationError",
    "TooManyConnectionsError",
    "connection is closed",
)


@contextmanager
def translated() -> Iterator[None]:
    """Raises the driver's errors that are no fault of the program as one of the above."""
    try:
        yield
    except DBAPIError as error:
        text = f"{type(error.orig).__qualname__}: {error.orig}"
        if any(words in text for words in _FULL):
            raise StoreFullError(f"The history's database has no space left: {error.orig}") from error
        if error.connection_invalidated or any(words in text for words in _LATER):
            raise StoreUnavailableError(f"The history's database does not answer: {error.orig}") from error
        raise
    except (OSError, PoolTimeoutError) as error:
        raise StoreUnavailableError(f"The history's database does not answer: {error}") from error


_SCRIPTS: Final = Path(__file__).parent / "migrations"
_VERSION: Final = table("alembic_version", column("version_num"))
_ADVISORY_LOCK: Final = 0x666F75726E6F73  # "fournos"


def is_current(connection: Connection) -> bool:
    """Returns whether the tables are those of this version; False if there are older ones, or none.

    Raises StoreUsageError for those of a later version.
    """
    revision = None
    if inspect(connection).has_table(_VERSION.name):
        revision = connection.scalar(select(_VERSION.c.version_num))
    if revision is not None and revision not in revisions():
        raise StoreUsageError(
            f"The history's database was written by a later version of fournos (revision {revision}): "
            "use that version, or a backup from before it"
        )
    return bool(revision == revisions()[-1])


def upgrade(connection: Connection) -> None:
    """Applies the revisions that are missing, in the connection's transaction: all or none."""
    if connection.dialect.name == "postgresql":
        # Several replicas may start together.  The lock ends with the transaction.
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _ADVISORY_LOCK})
    if not is_current(connection):
        _migrate(connection)


def revisions() -> list[str]:
    """Returns all revisions, the oldest first: the names of the files begin with them."""
    return sorted(path.name.partition("_")[0] for path in (_SCRIPTS / "versions").glob("[0-9]*_*.py"))


def _migrate(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


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
    """An open database.  In SQLite at most one transaction writes at a time; others wait BUSY_SECONDS."""

    def __init__(self, engine: Engine | AsyncEngine) -> None:
        """`engine`: of SQLite one that blocks the thread that uses it; of PostgreSQL an asynchronous one."""
        self._engine = engine
        self._turn = asyncio.Lock()
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
        with translated():
            if isinstance(self._engine, Engine):
                return await self._in_thread(self._engine, work, writes=False)
            async with self._engine.connect() as connection:
                # PostgreSQL shows each statement the newest state; a transaction around one adds nothing.
                await connection.execution_options(isolation_level="AUTOCOMMIT")
                return await connection.run_sync(work)

    async def write(self, work: Callable[[Connection], T]) -> T:
        """Calls `work` in a transaction that is committed at its end, and rolled back after an exception."""
        with translated():
            if isinstance(self._engine, Engine):
                async with self._turn:
                    return await self._in_thread(self._engine, work, writes=True)
            async with self._engine.begin() as connection:
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

    async def size(self) -> int:
        """Returns the bytes of the database on disk; in SQLite with those of its write-ahead log."""
        if (path := self.path) is not None:
            files = [Path(f"{path}{suffix}") for suffix in ("", "-wal")]
            return sum(file.stat().st_size for file in files if file.exists())
        sized = select(func.pg_database_size(func.current_database()))
        return await self.read(lambda connection: int(connection.scalar(sized) or 0))

    async def tidy(self) -> None:
        """Renews SQLite's statistics, by which it chooses indexes, and gives the space of deleted rows back.

        PostgreSQL does both by itself.  What was deleted stays in no file of SQLite after this.
        """
        if not isinstance(self._engine, Engine):
            return
        with translated():
            async with self._turn:
                await asyncio.to_thread(_tidy, self._engine)
        # Connections that are open have the statistics of before.
        self._engine.dispose()

    async def close(self) -> None:
        await asyncio.to_thread(self._threads.shutdown)
        if isinstance(self._engine, Engine):
            self._engine.dispose()
        else:
            await self._engine.dispose()


async def open_database(url: str, busy_seconds: float = BUSY_SECONDS) -> Database:
    """Opens the database and makes its tables if there are none.

    Raises StoreUsageError for a URL, a file or tables that cannot be used, StoreUnavailableError if the
    database does not answer.
    """
    database = Database(_engine(_parsed(url), busy_seconds))
    try:
        if not await database.read(is_current):
            await database.write(upgrade)
    except BaseException:
        await database.close()
        raise
    return database


def _make_folder(path: Path) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreUsageError(f"The history's database {path} cannot be opened: {error.strerror}") from error


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
        return parsed.set(drivername="sqlite")
    if backend not in ("postgresql", "postgres"):
        raise StoreUsageError(f"{backend}: the history's database is sqlite:///… or postgresql://…")
    query = dict(parsed.query)
    if "sslmode" in query:  # as libpq calls it
        query["ssl"] = query.pop("sslmode")
    return parsed.set(drivername="postgresql+asyncpg", query=query)


def _engine(url: URL, busy_seconds: float) -> Engine | AsyncEngine:
    if url.get_backend_name() != "sqlite":
        return create_async_engine(
            url, pool_timeout=busy_seconds, pool_pre_ping=True, connect_args={"timeout": busy_seconds}
        )
    _make_folder(Path(url.database or ""))
    # A connection is used by one thread after the other.
    engine = create_engine(
        url, pool_timeout=busy_seconds, connect_args={"timeout": busy_seconds, "check_same_thread": False}
    )
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


_PRAGMAS: Final = (
    "auto_vacuum = INCREMENTAL",  # before the first table: a file that shrinks without being copied
    "journal_mode = WAL",
    "synchronous = NORMAL",
    "cache_size = -16384",  # KiB: the index of all names of 200,000 runs
    "foreign_keys = ON",
    "secure_delete = ON",  # what is deleted is overwritten
)


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    # The driver begins no transactions by itself: it would begin them too late, and none around CREATE TABLE.
    connection.isolation_level = None
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_sqlite(connection: Connection) -> None:
    options = connection.get_execution_options()
    if options.get("isolation_level") != "AUTOCOMMIT":
        # A transaction that became a writer later could find that the state it has read is an old one.
        connection.exec_driver_sql("BEGIN IMMEDIATE" if options.get(_WRITES) else "BEGIN")


def _tidy(engine: Engine) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        cursor: Any = connection.connection.cursor()
        # Each step of `incremental_vacuum` frees one page, and `execute` makes only one step.
        cursor.executescript(
            "PRAGMA analysis_limit = 1000; ANALYZE; PRAGMA incremental_vacuum; "
            "PRAGMA wal_checkpoint(TRUNCATE);"
        )
