"""What can go wrong with the history's database, by what a caller does about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError


class StoreError(Exception):
    """The store cannot be used as asked."""


class StoreUsageError(StoreError):
    """The URL, the file or the database is not one that can be used; only a person can change that."""


class StoreQueryError(StoreError):
    """The query is not valid: its cursor, its limit or its times."""


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
