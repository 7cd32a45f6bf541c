"""The rows of blobs: the database names each blob before it is written, so that none is left over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sqlalchemy import ColumnElement, Executable, delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from fournos.history.records import Identity
from fournos.history.store.database import INSERT
from fournos.history.store.schema import blobs
from fournos.history.store.store import HistoryStore, number_of

_BATCH: Final = 1000


class BlobRows:
    """The blobs of a store's runs.  Raises the errors of the store."""

    def __init__(self, store: HistoryStore) -> None:
        self._store = store

    async def claim_blob(self, identity: Identity, key: str, size: int) -> bool:
        """Notes a blob of a run before it is written: it goes with the run.  False: there is no such run."""
        async with self._store.writing() as connection:
            number = await connection.scalar(select(number_of(identity)))
            if number is None:
                return False
            changed = {"run_id": number, "size": size}
            statement = INSERT[self._store.database.dialect](blobs).values(key=key, **changed)
            await connection.execute(statement.on_conflict_do_update(index_elements=["key"], set_=changed))
            return True

    async def unclaim_blobs(self, keys: list[str]) -> None:
        """Removes the notes of deleted blobs."""
        async with self._store.writing() as connection:
            await for_keys(connection, keys, lambda some: delete(blobs).where(some))


async def claimed(connection: AsyncConnection, number: int, keys: Sequence[str]) -> list[str]:
    """Returns those of the keys that belong to the run."""
    own: list[str] = []
    for start in range(0, len(keys), _BATCH):
        some = (blobs.c.run_id == number, blobs.c.key.in_(keys[start : start + _BATCH]))
        own += await connection.scalars(select(blobs.c.key).where(*some))
    return own


async def for_keys(
    connection: AsyncConnection,
    keys: Sequence[str],
    statement: Callable[[ColumnElement[bool]], Executable],
) -> None:
    """Executes the statement for the blobs of these keys, batch by batch: a statement has few parameters."""
    for start in range(0, len(keys), _BATCH):
        await connection.execute(statement(blobs.c.key.in_(keys[start : start + _BATCH])))
