"""The store as the recorder's archive: opened with the first record, its errors as those of the runtime."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from fournos.history.records import Identity, Interval, Record, Run
from fournos.history.store.errors import StoreUnavailableError, StoreUsageError
from fournos.history.store.review import suspects_regression
from fournos.history.store.store import Store
from fournos.kube.errors import ServerError

log = logging.getLogger(__name__)

OPEN_AGAIN = 30.0
"""Seconds before a database that cannot be used is tried again; a person has to change something first."""


class DatabaseArchive:
    """An `Archive` in the database of a URL.

    It is opened with the first use and not at start: a standby must not hold the lock of a SQLite database.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._store: Store | None = None
        self._opening = asyncio.Lock()
        self._records = asyncio.Event()

    async def record(self, record: Record) -> bool:
        with _translated():
            return await (await self._opened()).record(record)

    async def get(self, identity: Identity) -> Run | None:
        with _translated():
            return await (await self._opened()).get(identity)

    async def waits(self, identity: Identity) -> tuple[Interval, ...]:
        with _translated():
            return await (await self._opened()).waits(identity)

    async def suspected(self, identity: Identity) -> bool:
        with _translated():
            return await suspects_regression(await self._opened(), identity)

    async def open_runs(self, cluster: str, kind: str) -> AsyncIterator[Run]:
        with _translated():
            store = await self._opened()
            self._records.set()
            async for run in store.open_runs(cluster, kind):
                yield run

    async def recording(self) -> Store:
        """Returns the store once this replica records; a standby waits."""
        await self._records.wait()
        return await self._opened()

    async def reading(self) -> Store:
        """Returns the store, on any replica.

        Raises StoreUnavailableError on a standby of SQLite, and the errors of opening it.
        """
        if self._store is None and self._url.startswith("sqlite"):
            raise StoreUnavailableError("this replica has not opened the history's database")
        return await self._opened()

    async def run(self) -> None:
        """Keeps the database open until cancelled, then closes it."""
        try:
            await asyncio.Event().wait()
        finally:
            await self.close()

    async def close(self) -> None:
        if self._store is not None:
            await self._store.close()
            self._store = None

    async def _opened(self) -> Store:
        async with self._opening:
            if self._store is None:
                self._store = await Store.open(self._url)
            return self._store


@contextmanager
def _translated() -> Iterator[None]:
    """Raises the errors of the store as errors that the runtime retries with backoff."""
    try:
        yield
    except StoreUnavailableError as error:
        raise ServerError(str(error)) from error
    except StoreUsageError as error:
        log.error("%s", error)
        raise ServerError(str(error), retry_after=OPEN_AGAIN) from error
