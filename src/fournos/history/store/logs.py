"""The rows of logs, one a container."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from sqlalchemy import select

from fournos.history.logs.stored import ContainerLog
from fournos.history.records import Identity
from fournos.history.store.blob_rows import BlobRows
from fournos.history.store.database import INSERT
from fournos.history.store.schema import logs
from fournos.history.store.store import number_of
from fournos.history.store.text import indexed, message

_FIELDS: Final = tuple(field.name for field in fields(ContainerLog))
_ORDER: Final = (logs.c.attempt, logs.c.started_at, logs.c.task, logs.c.pod, logs.c.position)


class LogRows(BlobRows):
    """The logs in a store.  Raises its errors."""

    async def put(self, identity: Identity, log: ContainerLog, key: str) -> None:
        """Notes the log of a container, whose text is the blob of this key."""
        row: dict[str, Any] = {name: getattr(log, name) for name in _FIELDS}
        row |= {"task": indexed(log.task), "failing_text": message(log.failing_text), "key": key}
        async with self._store.writing() as connection:
            number = await connection.scalar(select(number_of(identity)))
            if number is not None:
                statement = INSERT[self._store.database.dialect](logs).values(run_id=number, **row)
                await connection.execute(statement.on_conflict_do_nothing())

    async def logs(self, identity: Identity) -> list[ContainerLog]:
        """Returns the logs of a run, in the order in which their containers started."""
        columns = select(*(logs.c[name] for name in _FIELDS))
        statement = columns.where(logs.c.run_id == number_of(identity)).order_by(*_ORDER)
        async with self._store.reading() as connection:
            return [ContainerLog(*row) for row in await connection.execute(statement)]

    async def key(self, identity: Identity, pod: str, container: str) -> str | None:
        """Returns the key of the blob with the log of a container; None if there is none."""
        statement = select(logs.c.key).where(
            logs.c.run_id == number_of(identity), logs.c.pod == pod, logs.c.container == container
        )
        async with self._store.reading() as connection:
            key: str | None = await connection.scalar(statement.limit(1))
        return key
