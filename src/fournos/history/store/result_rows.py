"""The rows of tests and of the values of their KPIs, written within one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, delete, insert, select

from fournos.history.results.models import Received, Test, series_id, series_labels
from fournos.history.store.database import INSERT
from fournos.history.store.schema import kpi_values, runs, series, tests
from fournos.history.store.sizes import measure
from fournos.history.store.text import pack

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
                "higher_is_better": kpi.higher_is_better,
                "labels": json.dumps(series_labels(test)),
            }
            at = test.timestamp or now
            value_rows.append(
                {"test_id": key, "kpi_id": kpi.kpi_id, "series": name, "at": at, "value": kpi.height}
            )
    if value_rows:
        statement = INSERT[connection.dialect.name](series)
        changed = {"higher_is_better": statement.excluded.higher_is_better}
        upsert = statement.on_conflict_do_update(index_elements=["id"], set_=changed)
        connection.execute(upsert, list(series_rows.values()))
        connection.execute(insert(kpi_values), value_rows)


def _put_test(connection: Connection, number: int, test: Test, document: bytes, now: datetime) -> int:
    """Writes a test in the place of the one of its slot, and returns its key."""
    connection.execute(delete(tests).where(tests.c.run_id == number, tests.c.slot == test.slot))
    row = {
        "run_id": number,
        "slot": test.slot,
        "content_key": test.content_key,
        "at": test.timestamp or now,
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
