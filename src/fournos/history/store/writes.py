"""The write of a record, within one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

from sqlalchemy import Connection, Table, bindparam, delete, insert, select

from fournos.history.records import Document, Record
from fournos.history.store import rows
from fournos.history.store.database import INSERT
from fournos.history.store.errors import NamespaceFullError
from fournos.history.store.result_rows import prepare, put_tests
from fournos.history.store.schema import documents, labels, runs, tombstones
from fournos.history.store.text import pack

# Statements are made once: making one takes longer than running it.
_BURIED: Final = select(tombstones.c.at).where(
    *(tombstones.c[name] == bindparam(name) for name in ("cluster", "namespace", "uid"))
)


class RecordRefusedError(Exception):
    """Rolls the transaction of a record back."""


def packed(new_documents: Mapping[Document, Any]) -> list[dict[str, Any]]:
    """Returns the rows of the documents, without the run's key."""
    found = {name.value: pack(document) for name, document in new_documents.items()}
    return [{"name": name, "size": len(data), "data": data} for name, data in found.items()]


def put(connection: Connection, record: Record, namespace_bytes: int = 0) -> None:
    """Inserts or updates a run.  Raises RecordRefusedError if the stored one is newer, or was deleted.

    Results beyond the bytes of a namespace are not stored; its problems have the reason.
    """
    row = rows.row_of(record.run)
    number = connection.scalar(_upsert(connection.dialect.name, tuple(row)), row)
    # Looked for after the upsert, which waits for a deletion of the run that is under way.
    identity = rows.identity_columns(record.run.identity)
    if number is None or connection.scalar(_BURIED, identity) is not None:
        raise RecordRefusedError
    _replace(connection, labels, number, rows.label_rows(record.run))
    new_documents = dict(record.documents)
    if record.results:
        now = record.run.ended_at or record.run.observed_at
        try:
            with connection.begin_nested():
                put_tests(connection, number, prepare(record.results), now, namespace_bytes=namespace_bytes)
        except NamespaceFullError as error:
            new_documents[Document.PROBLEMS] = [*(new_documents.get(Document.PROBLEMS) or ()), str(error)]
    if new_documents:
        found = [{"run_id": number, **each} for each in packed(new_documents)]
        connection.execute(_put_documents(connection.dialect.name), found)


@cache
def _upsert(dialect: str, names: tuple[str, ...]) -> Any:
    """Returns the upsert of these columns of a run."""
    statement = INSERT[dialect](runs)
    changed = {
        name: statement.excluded[name] for name in names if name not in ("cluster", "namespace", "uid")
    }
    return statement.on_conflict_do_update(
        index_elements=["cluster", "namespace", "uid"],
        set_=changed,
        where=runs.c.resource_version <= statement.excluded.resource_version,
    ).returning(runs.c.id)


@cache
def _put_documents(dialect: str) -> Any:
    statement = INSERT[dialect](documents)
    return statement.on_conflict_do_update(
        index_elements=["run_id", "name"],
        set_={"size": statement.excluded["size"], "data": statement.excluded["data"]},
    )


def _replace(
    connection: Connection, table: Table, number: int, new_rows: Sequence[Mapping[str, Any]]
) -> None:
    """Makes `new_rows` the rows of a run in the table.  Nothing is written if they are stored already."""
    stored, removal = _of_run(table)
    present = [dict(row._mapping) for row in connection.execute(stored, {"number": number})]
    if present == list(new_rows):
        return
    if present:
        connection.execute(removal, {"number": number})
    if new_rows:
        connection.execute(insert(table), [{"run_id": number, **row} for row in new_rows])


@cache
def _of_run(table: Table) -> tuple[Any, Any]:
    """Returns the statements that read and that delete the rows of a run in a table."""
    columns = [column for column in table.c if column.name != "run_id"]
    keys = [column for column in table.primary_key if column.name != "run_id"]
    mine = table.c.run_id == bindparam("number")
    return select(*columns).where(mine).order_by(*keys), delete(table).where(mine)
