"""The rows of blobs: the database names each blob before it is written, so that none is left over."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, select

from fournos.history.records import Identity
from fournos.history.store import reads
from fournos.history.store.database import INSERT
from fournos.history.store.schema import blobs
from fournos.history.store.sizes import measure
from fournos.history.store.store import HistoryStore


class BlobRows:
    """The blobs of a store's runs.  Raises the errors of the store."""

    def __init__(self, store: HistoryStore) -> None:
        self._store = store

    async def claim_blob(self, identity: Identity, key: str, size: int) -> bool:
        """Notes a blob of a run before it is written: it goes with the run.  False: there is no such run.

        Raises NamespaceFullError if the runs of its namespace would have more bytes than are kept.
        """

        def claim(connection: Connection) -> bool:
            number = reads.number_of(connection, identity)
            if number is None:
                return False
            changed = {"run_id": number, "size": size}
            statement = INSERT[connection.dialect.name](blobs).values(key=key, **changed)
            connection.execute(statement.on_conflict_do_update(index_elements=["key"], set_=changed))
            measure(connection, number, self._store.namespace_bytes)
            return True

        return await self._store.database.write(claim)

    async def unclaim_blobs(self, keys: Sequence[str]) -> None:
        """Removes the notes of deleted blobs."""

        def unclaim(connection: Connection) -> None:
            owners = select(blobs.c.run_id).where(blobs.c.key.in_(keys), blobs.c.run_id.is_not(None))
            numbers = connection.scalars(owners.distinct()).all()
            connection.execute(delete(blobs).where(blobs.c.key.in_(keys)))
            for number in numbers:
                measure(connection, number)

        await self._store.database.write(unclaim)
