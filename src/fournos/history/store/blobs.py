"""The rows of blobs, and of the logs and artifacts that they hold.

The database names each blob before it is written, so that none is left over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

from sqlalchemy import Connection, delete, select

from fournos.history.artifacts import Artifact
from fournos.history.logs.stored import ContainerLog
from fournos.history.records import Identity
from fournos.history.store.database import INSERT
from fournos.history.store.rows import indexed, message
from fournos.history.store.runs import HistoryStore, find_number, number_of
from fournos.history.store.schema import artifacts, blobs, logs
from fournos.history.store.writes import measure


class BlobRows:
    """The blobs of a store's runs.  Raises the errors of the store."""

    def __init__(self, store: HistoryStore) -> None:
        self._store = store

    async def claim_blob(self, identity: Identity, key: str, size: int) -> bool:
        """Notes a blob of a run before it is written: it goes with the run.  False: there is no such run.

        Raises NamespaceFullError if the runs of its namespace would have more bytes than are kept.
        """

        def claim(connection: Connection) -> bool:
            number = find_number(connection, identity)
            if number is None:
                return False
            changed = {"run_id": number, "size": size}
            statement = INSERT[connection.dialect.name](blobs).values(key=key, **changed)
            connection.execute(statement.on_conflict_do_update(index_elements=["key"], set_=changed))
            measure(connection, number, self._store.namespace_bytes)
            return True

        return await self._store.write(claim)

    async def unclaim_blobs(self, keys: Sequence[str]) -> None:
        """Removes the notes of deleted blobs."""

        def unclaim(connection: Connection) -> None:
            owners = select(blobs.c.run_id).where(blobs.c.key.in_(keys), blobs.c.run_id.is_not(None))
            numbers = connection.scalars(owners.distinct()).all()
            connection.execute(delete(blobs).where(blobs.c.key.in_(keys)))
            for number in numbers:
                measure(connection, number)

        await self._store.write(unclaim)


_FIELDS: Final = tuple(field.name for field in fields(ContainerLog))
_ORDER: Final = (logs.c.attempt, logs.c.started_at, logs.c.task, logs.c.pod, logs.c.position)


class LogRows(BlobRows):
    """The logs in a store.  Raises its errors."""

    async def put(self, identity: Identity, log: ContainerLog, key: str) -> None:
        """Notes the log of a container, whose text is the blob of this key."""
        row: dict[str, Any] = {name: getattr(log, name) for name in _FIELDS}
        row |= {"task": indexed(log.task), "failing_text": message(log.failing_text), "key": key}

        def put(connection: Connection) -> None:
            number = find_number(connection, identity)
            if number is not None:
                statement = INSERT[connection.dialect.name](logs).values(run_id=number, **row)
                connection.execute(statement.on_conflict_do_nothing())

        await self._store.write(put)

    async def logs(self, identity: Identity) -> list[ContainerLog]:
        """Returns the logs of a run, in the order in which their containers started."""
        columns = select(*(logs.c[name] for name in _FIELDS))
        statement = columns.where(logs.c.run_id == number_of(identity)).order_by(*_ORDER)
        rows = await self._store.rows(statement)
        return [ContainerLog(*row) for row in rows]

    async def key(self, identity: Identity, pod: str, container: str) -> str | None:
        """Returns the key of the blob with the log of a container; None if there is none."""
        statement = select(logs.c.key).where(
            logs.c.run_id == number_of(identity), logs.c.pod == pod, logs.c.container == container
        )
        return await self._store.read(lambda connection: connection.scalar(statement.limit(1)))


class ArtifactRows(BlobRows):
    """The artifacts in a store.  Raises its errors."""

    async def artifacts(self, identity: Identity) -> dict[str, Artifact]:
        """Returns the artifacts of a run, by the keys of their content, in the order of their paths."""
        mine = artifacts.c.run_id == number_of(identity)
        statement = select(artifacts).where(mine).order_by(artifacts.c.path)
        rows = await self._store.rows(statement)
        return {row.key: Artifact(row.path, row.size, row.sha256, row.stored_at) for row in rows}

    async def put_artifact(self, identity: Identity, artifact: Artifact, key: str) -> str | None:
        """Adds an artifact, or replaces the one of its path.

        Returns the key of the content that is to be deleted: that of the artifact before, or the new one if
        the run is gone.
        """

        def put(connection: Connection) -> str | None:
            number = find_number(connection, identity)
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

        return await self._store.write(put)
