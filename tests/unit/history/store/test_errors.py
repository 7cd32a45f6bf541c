"""The driver's errors by what a caller does about them."""

from __future__ import annotations

import sqlite3

import asyncpg
import pytest
from sqlalchemy.exc import DBAPIError, IntegrityError, OperationalError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from fournos.history.store.database import StoreError, StoreFullError, StoreUnavailableError, translated


def wrapped(kind: type[DBAPIError], error: Exception, *, lost: bool = False) -> DBAPIError:
    return kind("INSERT …", {}, error, connection_invalidated=lost)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (wrapped(OperationalError, sqlite3.OperationalError("database or disk is full")), StoreFullError),
        (wrapped(DBAPIError, asyncpg.DiskFullError("could not extend file")), StoreFullError),
        (
            wrapped(OperationalError, sqlite3.OperationalError("database is locked")),
            StoreUnavailableError,
        ),
        (wrapped(DBAPIError, asyncpg.CannotConnectNowError("starting up")), StoreUnavailableError),
        (wrapped(DBAPIError, asyncpg.DeadlockDetectedError("deadlock")), StoreUnavailableError),
        (wrapped(DBAPIError, asyncpg.PostgresError("whatever"), lost=True), StoreUnavailableError),
        (ConnectionRefusedError(111, "Connection refused"), StoreUnavailableError),
        (PoolTimeoutError("no connection"), StoreUnavailableError),
    ],
)
def test_what_may_succeed_later(error: Exception, kind: type[StoreError]) -> None:
    with pytest.raises(StoreError) as found, translated():
        raise error
    assert type(found.value) is kind
    assert found.value.__cause__ is error


@pytest.mark.parametrize(
    "error",
    [
        wrapped(OperationalError, sqlite3.OperationalError("no such table: runs")),
        wrapped(IntegrityError, sqlite3.IntegrityError("NOT NULL constraint failed")),
        wrapped(ProgrammingError, asyncpg.UndefinedTableError("relation does not exist")),
        ValueError("a fault of the program"),
    ],
)
def test_a_fault_of_the_program_stays_one(error: Exception) -> None:
    with pytest.raises(type(error)) as found, translated():
        raise error
    assert found.value is error
