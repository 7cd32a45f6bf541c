"""The store of the history: runs with what belongs to them, in SQLite or PostgreSQL."""

from __future__ import annotations

from asyncio import to_thread
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from functools import partial
from typing import Any, Final

from sqlalchemy import Connection, delete, insert, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from fournos.history.records import Detail, Document, Identity, Page, Query, Record, Run
from fournos.history.store import reads, rows, search, writes
from fournos.history.store.database import BUSY_SECONDS, Database, open_database
from fournos.history.store.schema import baselines, keeps, runs
from fournos.history.store.text import indexed, message, unpack

_BATCH: Final = 500
"""Runs that an iteration reads at once."""


class HistoryStore:
    """Reads and writes the history.  Every method is one transaction.

    Raises StoreUnavailableError while the database does not answer or has no space: the same call may succeed
    later.  Modules with tables of their own use `reading` and `writing`.
    """

    def __init__(self, database: Database, namespace_bytes: int = 0) -> None:
        """`namespace_bytes`: most of the results, logs and artifacts of one namespace; 0: no limit."""
        self.database = database
        self.namespace_bytes = namespace_bytes

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

    def reading(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """A connection in a transaction that only reads."""
        return self.database.reading()

    def writing(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """A connection in a transaction that is committed at the end, and rolled back after an exception."""
        return self.database.writing()

    async def ping(self) -> None:
        """Reads one row.  Raises StoreUnavailableError if the database does not answer."""
        await self.database.read(lambda connection: connection.execute(select(runs.c.id).limit(1)).first())

    async def record(self, record: Record) -> bool:
        """Inserts or updates a run.  False: the stored one is newer, or was deleted from the history."""
        try:
            await self.database.write(lambda connection: writes.put(connection, record, self.namespace_bytes))
        except writes.RecordRefusedError:
            return False
        return True

    async def get(self, identity: Identity) -> Run | None:
        """Returns the run; None if there is none of this identity."""
        return await self.database.read(lambda connection: reads.get(connection, identity))

    async def find(self, query: Query) -> Page:
        """Returns a page of the runs that match, the newest submission first.

        Raises StoreQueryError for a query that is not valid.
        """
        return await self.database.read(lambda connection: search.find(connection, query))

    async def detail(self, query: Query, documents: Iterable[Document] = ()) -> Detail | None:
        """Returns the newest run that matches, with these documents, in one read."""
        return await self.database.read(lambda connection: search.detail(connection, query, documents))

    async def namespaces(self) -> list[tuple[str, str]]:
        """Returns the name and the UID of each namespace that has runs."""
        return await self.database.read(reads.namespaces)

    async def document(self, identity: Identity, name: Document) -> Any | None:
        """Returns a document of a run; None if it has none of this name."""

        def read(connection: Connection) -> Any | None:
            found = reads.documents_of(connection, reads.number_of(connection, identity), [name])
            return found.get(name)

        return await self.database.read(read)

    async def documents(self, identities: Iterable[Identity], name: Document) -> dict[Identity, Any]:
        """Returns a document of each of the runs that has one of this name."""
        statement = reads.documents_statement((identity.uid for identity in identities), name)
        async with self.reading() as connection:
            stored = (await connection.execute(statement)).all()
        return await to_thread(lambda: {rows.identity_of(row): unpack(row.data) for row in stored})

    async def open_runs(self, cluster: str, kind: str) -> AsyncIterator[Run]:
        """Yields the runs of a kind whose end is not known, in no particular order."""
        last = 0
        while True:
            read = partial(reads.open_runs, cluster=cluster, kind=kind, after=last, limit=_BATCH)
            batch = await self.database.read(read)
            for _, run in batch:
                yield run
            if len(batch) < _BATCH:
                return
            last, _ = batch[-1]

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
        """Returns those of the runs, of a page, that never expire: marked ones, and baselines."""
        by_columns = {tuple(rows.identity_columns(identity).values()): identity for identity in identities}
        marked = union_all(*(select(table.c.run_id) for table in (keeps, baselines)))
        names = select(runs.c.cluster, runs.c.namespace, runs.c.uid).where(
            runs.c.uid.in_([uid for _, _, uid in by_columns]), runs.c.id.in_(marked)
        )
        async with self.reading() as connection:
            found = [tuple(row) for row in await connection.execute(names)]
        return {by_columns[row] for row in found if row in by_columns}


def number_of(identity: Identity) -> Any:
    """Returns the subquery of `runs.id`, by which tables refer to a run."""
    same = (runs.c[name] == value for name, value in rows.identity_columns(identity).items())
    return select(runs.c.id).where(*same).scalar_subquery()
