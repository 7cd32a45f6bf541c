"""The rows of artifacts, and of the blobs that hold them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from fournos.history.artifacts.archive import ContentGoneError, NoRunError, StoredArtifact
from fournos.history.artifacts.rules import Artifact
from fournos.history.records import Identity
from fournos.history.store.blob_rows import BlobRows, claimed, for_keys
from fournos.history.store.database import INSERT
from fournos.history.store.schema import artifacts, blobs, runs
from fournos.history.store.sizes import total
from fournos.history.store.store import number_of
from fournos.history.store.text import indexed


class ArtifactRows(BlobRows):
    """The artifacts in a store.  Raises its errors."""

    async def artifacts(self, identity: Identity) -> list[Artifact]:
        """Returns the artifacts of a run, by path."""
        return [one.artifact for one in await self.stored_artifacts(identity)]

    async def stored_artifacts(self, identity: Identity) -> list[StoredArtifact]:
        """Returns the artifacts of a run with their uploads, by path."""
        statement = (
            select(artifacts).where(artifacts.c.run_id == number_of(identity)).order_by(artifacts.c.path)
        )
        async with self._store.reading() as connection:
            rows = (await connection.execute(statement)).all()
        return [_stored(row) for row in rows]

    async def blob_bytes(self, identity: Identity) -> int:
        """Returns the bytes of all logs and artifacts in the namespace of a run."""
        statement = (
            select(total(blobs.c.size))
            .join(runs, runs.c.id == blobs.c.run_id)
            .where(runs.c.cluster == identity.cluster, runs.c.namespace == identity.namespace)
        )
        async with self._store.reading() as connection:
            return int(await connection.scalar(statement) or 0)

    async def put_artifact(self, identity: Identity, stored: StoredArtifact) -> StoredArtifact | None:
        """Adds an artifact, or replaces the one of its path, which is returned.

        Raises NoRunError, and ContentGoneError if a chunk of it has been released.
        """
        artifact = stored.artifact
        async with self._store.writing() as connection:
            number = await self._run(connection, identity)
            if number is None:
                raise NoRunError
            keys = stored.keys(identity.uid)
            if len(await claimed(connection, number, keys)) < len(keys):
                raise ContentGoneError
            path = indexed(artifact.path)
            this = (artifacts.c.run_id == number, artifacts.c.path == path)
            before = (await connection.execute(select(artifacts).where(*this))).first()
            changed = {
                "size": artifact.size,
                "sha256": artifact.sha256,
                "stored_at": artifact.stored_at,
                "upload": stored.upload,
            }
            statement = INSERT[self._store.database.dialect](artifacts)
            await connection.execute(
                statement.values(run_id=number, path=path, **changed).on_conflict_do_update(
                    index_elements=["run_id", "path"], set_=changed
                )
            )
            return None if before is None else _stored(before)

    async def release_artifact(self, identity: Identity, stored: StoredArtifact) -> list[str]:
        """Returns the keys of the content if no artifact has it any more: they are to be deleted.

        From then on nothing can refer to it; a process that ends before it is deleted leaves it to the
        retention.
        """
        async with self._store.writing() as connection:
            number = await self._run(connection, identity)
            if number is None:
                return []  # The retention deletes what the run had.
            upload = func.coalesce(artifacts.c.upload, "")
            same = (artifacts.c.sha256 == stored.artifact.sha256, upload == stored.upload)
            used = select(artifacts.c.path).where(artifacts.c.run_id == number, *same).limit(1)
            if await connection.scalar(used) is not None:
                return []
            keys = await claimed(connection, number, stored.keys(identity.uid))
            await for_keys(connection, keys, lambda some: update(blobs).where(some).values(run_id=None))
            return keys

    async def _run(self, connection: AsyncConnection, identity: Identity) -> int | None:
        """Returns the run's number; until the end of the transaction no other changes its artifacts."""
        this = select(runs.c.id).where(runs.c.id == number_of(identity))
        number: int | None = await connection.scalar(this.with_for_update(key_share=True))
        return number


def _stored(row: Row[Any]) -> StoredArtifact:
    return StoredArtifact(Artifact(row.path, row.size, row.sha256, row.stored_at), row.upload or "")
