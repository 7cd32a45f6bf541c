"""The store as the recorder's archive: opened with the first record, its errors as those of the runtime."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from fournos.engine.kube.errors import ServerError
from fournos.history.records import Identity, Record, Run
from fournos.history.store.database import StoreError, StoreUnavailableError, StoreUsageError
from fournos.history.store.runs import HistoryStore
from fournos.history.store.verdicts import suspects_regression

log = logging.getLogger(__name__)

OPEN_AGAIN = 30.0
"""Seconds before a database that cannot be used is tried again; a person has to change something first."""
LOOK: Final = 5.0
"""Seconds between two reads that find out whether the database answers."""
PATIENCE: Final = 10.0
"""Seconds after which such a read counts as not answered."""
_CLOSED: Final = "this replica has not opened the history's database"


class DatabaseArchive:
    """The store of a URL.  Raises ServerError while it does not answer: the runtime retries with backoff.

    It is opened with the first use and not at start: a standby makes no SQLite database.
    """

    def __init__(self, url: str, namespace_bytes: int = 0) -> None:
        """`namespace_bytes`: as in `HistoryStore`."""
        self._url = url
        self._namespace_bytes = namespace_bytes
        self._sqlite = url.startswith("sqlite")
        self._store: HistoryStore | None = None
        self._opening = asyncio.Lock()
        self._records = asyncio.Event()
        self._problem = _CLOSED

    def problems(self) -> list[str]:
        """Returns why the database does not answer, in one line; nothing if it does."""
        return [f"history: {self._problem}"] if self._problem else []

    async def record(self, record: Record) -> bool:
        """Inserts or updates a run.  False: the stored one is newer, or was deleted from the history."""
        with _translated():
            return await (await self._opened()).record(record)

    async def get(self, identity: Identity) -> Run | None:
        with _translated():
            return await (await self._opened()).get(identity)

    async def suspected(self, identity: Identity) -> bool:
        """True if the results of this run are suspected to be a regression, compared with earlier runs."""
        with _translated():
            return await suspects_regression(await self._opened(), identity)

    async def open_runs(self, cluster: str, kind: str) -> AsyncIterator[Run]:
        """Yields the runs of a kind that have not ended."""
        with _translated():
            store = await self._opened()
            self._records.set()
            async for run in store.open_runs(cluster, kind):
                yield run

    async def recording(self) -> HistoryStore:
        """Returns the store once this replica records; a standby waits."""
        await self._records.wait()
        return await self._opened()

    async def reading(self) -> HistoryStore:
        """Returns the store, on any replica.

        Raises StoreUnavailableError on a standby of SQLite, and the errors of opening it.
        """
        if self._store is None and self._sqlite:
            raise StoreUnavailableError(_CLOSED)
        return await self._opened()

    async def run(self) -> None:
        """Reads every `LOOK` seconds whether the database answers, until cancelled; then closes it.

        PostgreSQL is opened by it, on every replica.  SQLite is opened by the replica that records.
        """
        try:
            while True:
                await self._look()
                await asyncio.sleep(LOOK)
        finally:
            await self.close()

    async def _look(self) -> None:
        if self._store is None and self._sqlite:
            return  # The attempt to open it reports why it fails.
        answer = asyncio.create_task(self._answer())
        try:
            # Without a time limit of its own: a thread that waits for SQLite's file cannot be stopped.
            if not (await asyncio.wait([answer], timeout=PATIENCE))[0]:
                self._report(f"the history's database has not answered for {PATIENCE:g} s")
            self._report(await answer)
        finally:
            answer.cancel()

    async def _answer(self) -> str:
        """Returns why the database does not answer; "" if it does."""
        try:
            await (await self.reading()).ping()
        except (StoreError, SQLAlchemyError) as error:
            return self._reason(error)
        return ""

    def _report(self, problem: str) -> None:
        if problem != self._problem:
            if problem:
                log.warning("the store of the history does not answer: %s", problem)
            else:
                log.info("the store of the history answers")
        self._problem = problem

    def _reason(self, error: Exception) -> str:
        """Returns the text of an error; of PostgreSQL's driver only the class.

        Its text may have an address and a user, and probes are answered to everyone in reach.
        """
        if isinstance(error, StoreUsageError) or self._sqlite:
            return str(error)
        root: BaseException = error
        while root.__cause__ is not None:
            root = root.__cause__
        return f"the history's database does not answer ({type(root).__name__})"

    async def close(self) -> None:
        if self._store is not None:
            await self._store.close()
            self._store = None
            self._problem = _CLOSED

    async def _opened(self) -> HistoryStore:
        async with self._opening:
            if self._store is None:
                try:
                    self._store = await HistoryStore.open(self._url, namespace_bytes=self._namespace_bytes)
                except (StoreError, SQLAlchemyError) as error:
                    self._report(self._reason(error))
                    raise
                self._report("")
            return self._store


@contextmanager
def _translated() -> Iterator[None]:
    """Raises the errors of the store as errors that the runtime retries with backoff."""
    try:
        yield
    except StoreUnavailableError as error:
        raise ServerError(str(error)) from error
    except StoreUsageError as error:
        raise ServerError(str(error), retry_after=OPEN_AGAIN) from error
