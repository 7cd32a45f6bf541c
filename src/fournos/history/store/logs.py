"""The rows of logs: one a container, and one a chunk of its lines."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Row, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from fournos.engine.kube.resource import Key
from fournos.history.logs.models import Chunk, Log, Position, Put, StartedContainer
from fournos.history.records import Identity
from fournos.history.store.blob_rows import BlobRows
from fournos.history.store.database import INSERT
from fournos.history.store.schema import log_chunks, logs
from fournos.history.store.store import number_of
from fournos.history.store.text import indexed, message

_ORDER: Final = (logs.c.attempt, logs.c.started_at, logs.c.task, logs.c.pod, logs.c.position)


class LogRows(BlobRows):
    """The logs in a store.  Raises its errors."""

    async def log(self, identity: Identity, container: StartedContainer) -> tuple[Log, Chunk | None]:
        """Returns what is stored of a container's log, and its last chunk."""
        statement = select(logs).where(
            logs.c.run_id == number_of(identity),
            logs.c.pod_uid == container.pod_uid,
            logs.c.container == container.name,
        )
        async with self._store.reading() as connection:
            row = (await connection.execute(statement)).one_or_none()
            if row is None:
                return Log(container), None
            last = select(log_chunks).where(log_chunks.c.log_id == row.id)
            chunk = (await connection.execute(last.order_by(log_chunks.c.number.desc()).limit(1))).first()
        return _log(row, identity.namespace), None if chunk is None else _chunk(chunk)

    async def put_log(self, identity: Identity, log: Log, chunk: Chunk | None, *, after: int) -> Put:
        """Stores the state of a log that has `after` lines, and a chunk of it."""
        async with self._store.writing() as connection:
            run = await connection.scalar(select(number_of(identity)))
            if run is None:
                return Put.NO_RUN
            number = await self._upsert(connection, run, log, after)
            if number is None:
                return Put.BEHIND
            if chunk is not None:
                await self._put_chunk(connection, number, chunk)
            return Put.STORED

    async def _upsert(self, connection: AsyncConnection, run: int, log: Log, after: int) -> int | None:
        """Returns the number of the row of the log; None if it has not `after` lines, as when it is gone."""
        row = _row(log)
        same = logs.c.lines == after
        statement: Any
        if after:
            this = (logs.c.run_id == run, *(logs.c[name] == row[name] for name in ("pod_uid", "container")))
            statement = update(logs).where(*this, same).values(row)
        else:
            statement = INSERT[self._store.database.dialect](logs).values(run_id=run, **row)
            statement = statement.on_conflict_do_update(
                index_elements=["run_id", "pod_uid", "container"], set_=row, where=same
            )
        number: int | None = await connection.scalar(statement.returning(logs.c.id))
        return number

    async def _put_chunk(self, connection: AsyncConnection, log: int, chunk: Chunk) -> None:
        changed = {
            "first_line": chunk.first,
            "lines": chunk.lines,
            "bytes": chunk.bytes,
            "key": chunk.key,
        }
        statement = INSERT[self._store.database.dialect](log_chunks)
        statement = statement.values(log_id=log, number=chunk.number, **changed)
        await connection.execute(
            statement.on_conflict_do_update(index_elements=["log_id", "number"], set_=changed)
        )

    async def logs(self, identity: Identity) -> list[Log]:
        """Returns the logs of a run, in the order in which their containers started."""
        statement = select(logs).where(logs.c.run_id == number_of(identity)).order_by(*_ORDER)
        async with self._store.reading() as connection:
            rows = (await connection.execute(statement)).all()
        return [_log(row, identity.namespace) for row in rows]

    async def chunks(self, identity: Identity, log: Log, first: int, last: int) -> list[Chunk]:
        """Returns the chunks with the lines from `first` to before `last`."""
        this = select(logs.c.id).where(
            logs.c.run_id == number_of(identity),
            logs.c.pod_uid == log.container.pod_uid,
            logs.c.container == log.container.name,
        )
        statement = select(log_chunks).where(
            log_chunks.c.log_id == this.scalar_subquery(),
            log_chunks.c.first_line < last,
            log_chunks.c.first_line + log_chunks.c.lines > first,
        )
        async with self._store.reading() as connection:
            rows = (await connection.execute(statement.order_by(log_chunks.c.number))).all()
        return [_chunk(row) for row in rows]


def _row(log: Log) -> dict[str, Any]:
    container = log.container
    return {
        "pod_uid": container.pod_uid,
        "container": container.name,
        "pod": container.pod.name,
        "task": indexed(container.task),
        "attempt": container.attempt,
        "position": container.position,
        "started_at": container.started_at,
        "ended_at": container.ended_at,
        "exit_code": container.exit_code,
        "lines": log.lines,
        "bytes": log.bytes,
        "last_at": log.position.at,
        "last_same": log.position.same,
        "complete": log.complete,
        "cut": log.cut,
        "failing_line": log.failing_line,
        "failing_text": message(log.failing_text),
    }


def _log(row: Row[Any], namespace: str) -> Log:
    return Log(
        StartedContainer(
            pod=Key(namespace, row.pod),
            pod_uid=row.pod_uid,
            name=row.container,
            task=row.task,
            attempt=row.attempt,
            position=row.position,
            started_at=row.started_at,
            ended_at=row.ended_at,
            exit_code=row.exit_code,
        ),
        lines=row.lines,
        bytes=row.bytes,
        position=Position(row.last_at, row.last_same),
        complete=row.complete,
        cut=row.cut,
        failing_line=row.failing_line,
        failing_text=row.failing_text,
    )


def _chunk(row: Row[Any]) -> Chunk:
    return Chunk(row.number, row.first_line, row.lines, row.bytes, row.key)
