"""The rows of artifacts, each with the key of the blob that holds its content."""

from __future__ import annotations

from sqlalchemy import Connection, select

from fournos.history.artifacts import Artifact
from fournos.history.records import Identity
from fournos.history.store import reads
from fournos.history.store.blob_rows import BlobRows
from fournos.history.store.database import INSERT
from fournos.history.store.schema import artifacts
from fournos.history.store.store import number_of
from fournos.history.store.text import indexed


class ArtifactRows(BlobRows):
    """The artifacts in a store.  Raises its errors."""

    async def artifacts(self, identity: Identity) -> dict[str, Artifact]:
        """Returns the artifacts of a run, by the keys of their content, in the order of their paths."""
        mine = artifacts.c.run_id == number_of(identity)
        statement = select(artifacts).where(mine).order_by(artifacts.c.path)
        async with self._store.reading() as connection:
            rows = (await connection.execute(statement)).all()
        return {row.key: Artifact(row.path, row.size, row.sha256, row.stored_at) for row in rows}

    async def put_artifact(self, identity: Identity, artifact: Artifact, key: str) -> str | None:
        """Adds an artifact, or replaces the one of its path.

        Returns the key of the content that is to be deleted: that of the artifact before, or the new one if
        the run is gone.
        """

        def put(connection: Connection) -> str | None:
            number = reads.number_of(connection, identity)
            if number is None:
                return key
            path = indexed(artifact.path)
            before = select(artifacts.c.key).where(artifacts.c.run_id == number, artifacts.c.path == path)
            replaced = connection.scalar(before.with_for_update())
            changed = {
                "size": artifact.size,
                "sha256": artifact.sha256,
                "stored_at": artifact.stored_at,
                "key": key,
            }
            statement = INSERT[connection.dialect.name](artifacts).values(run_id=number, path=path, **changed)
            connection.execute(
                statement.on_conflict_do_update(index_elements=["run_id", "path"], set_=changed)
            )
            return replaced

        return await self._store.database.write(put)
