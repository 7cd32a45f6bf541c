"""The writes of records and results, each within one transaction, and the bound of a namespace's bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Table, bindparam, delete, func, insert, select, update

from fournos.history.records import Document, Record
from fournos.history.results.models import Received, Test, series_id, series_labels
from fournos.history.store import rows
from fournos.history.store.database import INSERT, NamespaceFullError
from fournos.history.store.rows import pack
from fournos.history.store.schema import blobs, documents, kpi_values, labels, runs, series, tests, tombstones

VALUE_BYTES: Final = 200
"""What one value takes, with its part of the index."""


def total(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Returns the sum of a column; 0 without rows."""
    return func.coalesce(func.sum(column), 0)


_MINE: Final[Any] = bindparam("number")
_TESTS: Final = select(tests.c.id).where(tests.c.run_id == _MINE)
_SIZES: Final = (
    select(total(documents.c.size)).where(documents.c.run_id == _MINE),
    select(total(blobs.c.size)).where(blobs.c.run_id == _MINE),
    select(total(tests.c.size)).where(tests.c.run_id == _MINE),
    select(func.count() * VALUE_BYTES).select_from(kpi_values).where(kpi_values.c.test_id.in_(_TESTS)),
)
_TOTAL: Final[Any] = sum(one.scalar_subquery() for one in _SIZES)
_MEASURE: Final = update(runs).where(runs.c.id == _MINE).values(bytes=_TOTAL)
_NAMESPACE: Final = select(runs.c.namespace_uid).where(runs.c.id == _MINE).scalar_subquery()
_USED: Final = select(total(runs.c.bytes)).where(runs.c.namespace_uid == _NAMESPACE)


def measure(connection: Connection, number: int, most: int = 0) -> None:
    """Sets the bytes of the run `number`, after its documents, results, logs or artifacts have changed.

    Raises NamespaceFullError if the runs of its namespace have more than `most` bytes with it; 0: no limit.
    """
    connection.execute(_MEASURE, {"number": number})
    if most and (used := int(connection.scalar(_USED, {"number": number}) or 0)) > most:
        raise NamespaceFullError(
            f"the results, logs and artifacts of the namespace would have {used / 10**6:.1f} MB, and at most "
            f"{most // 10**6} MB are kept: delete runs that are not needed, or ask an administrator for more"
        )


MAX_TESTS: Final = 5_000
"""Tests of one run."""

PackedTest = tuple[Test, bytes]


def prepare(pushed: Iterable[Test]) -> list[PackedTest]:
    """Packs tests for the store.  Of several with the same identity the last one counts."""
    return [
        (test, pack(test.model_dump(mode="json"))) for test in {test.slot: test for test in pushed}.values()
    ]


def put_tests(
    connection: Connection,
    number: int,
    prepared: Sequence[PackedTest],
    now: datetime,
    *,
    most: int = MAX_TESTS,
    namespace_bytes: int = 0,
) -> Received:
    """Stores the tests of the run `number`; those that are there with the same content stay as they are.

    Raises NamespaceFullError if the namespace would have more than `namespace_bytes`; 0: no limit.
    """
    fingerprint = str(connection.scalar(select(runs.c.fingerprint).where(runs.c.id == number)))
    content_keys = _content_keys(connection, number)
    added = refused = unchanged = 0
    stored: list[tuple[int, Test]] = []
    for test, document in prepared:
        if content_keys.get(test.slot) == test.content_key:
            unchanged += 1
        elif test.slot not in content_keys and len(content_keys) + added >= most:
            refused += 1
        else:
            added += test.slot not in content_keys
            stored.append((_put_test(connection, number, test, document, now), test))
    _put_values(connection, fingerprint, stored, now)
    replaced = len(prepared) - added - refused - unchanged
    if added or replaced:
        measure(connection, number, namespace_bytes)
    return Received(added, replaced, unchanged, refused)


def _put_values(
    connection: Connection, fingerprint: str, stored: Iterable[tuple[int, Test]], now: datetime
) -> None:
    """Writes a row for each KPI, and one for each series, by few statements."""
    series_rows: dict[str, dict[str, Any]] = {}
    value_rows: list[dict[str, Any]] = []
    for key, test in stored:
        for kpi in test.kpis:
            name = series_id(fingerprint, test, kpi)
            series_rows[name] = {
                "id": name,
                "fingerprint": fingerprint,
                "kpi_id": kpi.kpi_id,
                "is_curve": kpi.is_curve,
                "unit": kpi.measured_in,
                "labels": json.dumps(series_labels(test)),
            }
            value_rows.append(
                {
                    "test_id": key,
                    "kpi_id": kpi.kpi_id,
                    "series": name,
                    "at": _time(test, now),
                    "value": kpi.height,
                    "higher_is_better": kpi.higher_is_better,
                }
            )
    if value_rows:
        statement = INSERT[connection.dialect.name](series)
        connection.execute(statement.on_conflict_do_nothing(), list(series_rows.values()))
        connection.execute(insert(kpi_values), value_rows)


def _time(test: Test, now: datetime) -> datetime:
    """Returns when the test ran, by its author; never after its results came."""
    return min(test.timestamp or now, now)


def _put_test(connection: Connection, number: int, test: Test, document: bytes, now: datetime) -> int:
    """Writes a test in the place of the one of its slot, and returns its key."""
    connection.execute(delete(tests).where(tests.c.run_id == number, tests.c.slot == test.slot))
    row = {
        "run_id": number,
        "slot": test.slot,
        "content_key": test.content_key,
        "at": _time(test, now),
        "success": test.success,
        "size": len(document),
        "document": document,
    }
    key: int | None = connection.scalar(insert(tests).values(row).returning(tests.c.id))
    assert key is not None, "the row was inserted"
    return key


def _content_keys(connection: Connection, number: int) -> dict[str, str]:
    statement = select(tests.c.slot, tests.c.content_key).where(tests.c.run_id == number)
    return {row.slot: row.content_key for row in connection.execute(statement).all()}


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
        now = rows.closed_at(record.run) or record.run.observed_at
        try:
            with connection.begin_nested():
                put_tests(connection, number, prepare(record.results), now, namespace_bytes=namespace_bytes)
        except NamespaceFullError as error:
            new_documents[Document.PROBLEMS] = [*(new_documents.get(Document.PROBLEMS) or ()), str(error)]
    if new_documents:
        found = [{"run_id": number, **each} for each in packed(new_documents)]
        connection.execute(_put_documents(connection.dialect.name), found)
        measure(connection, number)  # they are stored in any case, and leave less room for the others


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
