"""The rows of artifacts, and of the blobs that hold them."""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Column, Table, Text, delete, select

from fournos.history.artifacts.rules import Artifact
from fournos.history.records import Identity
from fournos.history.store.database import INSERT
from fournos.history.store.schema import Time, blobs, metadata, of_run
from fournos.history.store.store import Store, number_of
from fournos.history.store.text import indexed

artifacts: Final = Table(
    "artifacts",
    metadata,
    of_run(primary_key=True),
    Column("path", Text, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("stored_at", Time, nullable=False),
)


class ArtifactRows:
    """Implements `fournos.history.artifacts.archive.Rows`.  Raises the errors of the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def artifacts(self, identity: Identity) -> list[Artifact]:
        """Returns the artifacts of a run, by path."""
        statement = (
            select(artifacts).where(artifacts.c.run_id == number_of(identity)).order_by(artifacts.c.path)
        )
        async with self._store.reading() as connection:
            rows = (await connection.execute(statement)).all()
        return [Artifact(row.path, row.size, row.sha256, row.stored_at) for row in rows]

    async def put_artifact(self, identity: Identity, artifact: Artifact) -> bool:
        """Adds an artifact, or replaces the one of its path.  False: there is no such run."""
        async with self._store.writing() as connection:
            number = await connection.scalar(select(number_of(identity)))
            if number is None:
                return False
            changed = {
                "size": artifact.size,
                "sha256": artifact.sha256,
                "stored_at": artifact.stored_at,
            }
            statement = INSERT[self._store.database.dialect](artifacts)
            await connection.execute(
                statement.values(run_id=number, path=indexed(artifact.path), **changed).on_conflict_do_update(
                    index_elements=["run_id", "path"], set_=changed
                )
            )
            return True

    async def claim_blob(self, identity: Identity, key: str, size: int) -> bool:
        """Notes a blob before it is written.  False: there is no such run."""
        return await self._store.claim_blob(identity, key, size)

    async def unclaim_blobs(self, keys: list[str]) -> None:
        """Removes the notes of deleted blobs."""
        async with self._store.writing() as connection:
            for key in keys:
                await connection.execute(delete(blobs).where(blobs.c.key == key))
