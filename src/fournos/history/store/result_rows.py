"""The rows of records of results, written within one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Table, delete, insert, select

from fournos.history.results.models import Test, series_id, series_labels
from fournos.history.store.database import INSERT
from fournos.history.store.schema import curves, result_records, runs, scalars, series
from fournos.history.store.sizes import MEASURE
from fournos.history.store.text import pack

MAX_RECORDS: Final = 5_000
"""Records of one run."""
_VALUES: Final = frozenset({"value", "values"})


@dataclass(frozen=True, slots=True)
class PushResult:
    """What became of pushed records."""

    added: int = 0
    replaced: int = 0
    """Records whose test was there with other content, such as that of an earlier attempt."""
    unchanged: int = 0
    refused: int = 0
    """Records beyond MAX_RECORDS."""


Prepared = tuple[Test, bytes]
"""A record, and everything of it but the values of its KPIs."""


def prepare(records: Iterable[Test]) -> list[Prepared]:
    """Packs records for the store.  Of several records of one test the last one counts."""
    return [(one, _header(one)) for one in {record.slot: record for record in records}.values()]


def put_records(
    connection: Connection,
    number: int,
    prepared: Sequence[Prepared],
    now: datetime,
    *,
    most: int = MAX_RECORDS,
) -> PushResult:
    """Stores the records of the run `number`; those that are there with the same content stay as they are."""
    fingerprint = connection.scalar(select(runs.c.fingerprint).where(runs.c.id == number))
    content_keys = _slots(connection, number)
    added = refused = unchanged = 0
    rows = _Rows(str(fingerprint), now)
    for record, header in prepared:
        if content_keys.get(record.slot) == record.content_key:
            unchanged += 1
        elif record.slot not in content_keys and len(content_keys) + added >= most:
            refused += 1
        else:
            added += record.slot not in content_keys
            rows.add(_put_record(connection, number, record, header, now), record)
    _put_values(connection, rows)
    replaced = len(prepared) - added - refused - unchanged
    if added or replaced:
        connection.execute(MEASURE, {"number": number})
    return PushResult(added, replaced, unchanged, refused)


def _put_values(connection: Connection, rows: _Rows) -> None:
    if rows.series:
        statement = INSERT[connection.dialect.name](series)
        changed = {"higher_is_better": statement.excluded.higher_is_better}
        connection.execute(
            statement.on_conflict_do_update(index_elements=["id"], set_=changed), list(rows.series.values())
        )
    for table, found in rows.values.items():
        if found:
            connection.execute(insert(table), found)


class _Rows:
    """The rows of the values of records, collected so that few statements write them."""

    def __init__(self, fingerprint: str, now: datetime) -> None:
        self._fingerprint = fingerprint
        self._now = now
        self.series: dict[str, dict[str, Any]] = {}
        self.values: dict[Table, list[dict[str, Any]]] = {scalars: [], curves: []}

    def add(self, key: int, record: Test) -> None:
        for kpi in record.kpis:
            name = series_id(self._fingerprint, record, kpi)
            self.series[name] = {
                "id": name,
                "fingerprint": self._fingerprint,
                "kpi_id": kpi.kpi_id,
                "is_curve": kpi.is_curve,
                "unit": kpi.measured_in,
                "higher_is_better": kpi.higher_is_better,
                "labels": json.dumps(series_labels(record)),
            }
            at = record.timestamp or self._now
            common = {"record_id": key, "kpi_id": kpi.kpi_id, "series": name, "at": at}
            if kpi.is_curve:
                data = pack([list(point) for point in kpi.values])
                self.values[curves].append({**common, "size": len(data), "data": data})
            else:
                self.values[scalars].append({**common, "value": kpi.value})


def _put_record(connection: Connection, number: int, record: Test, header: bytes, now: datetime) -> int:
    """Writes a record in the place of the one of its slot, and returns its key."""
    where = (result_records.c.run_id == number, result_records.c.slot == record.slot)
    connection.execute(delete(result_records).where(*where))
    row = {
        "run_id": number,
        "slot": record.slot,
        "content_key": record.content_key,
        "at": record.timestamp or now,
        "success": record.success,
        "size": len(header),
        "header": header,
    }
    key: int | None = connection.scalar(insert(result_records).values(row).returning(result_records.c.id))
    assert key is not None, "the row was inserted"
    return key


def _slots(connection: Connection, number: int) -> dict[str, str]:
    statement = select(result_records.c.slot, result_records.c.content_key)
    found = (connection.execute(statement.where(result_records.c.run_id == number))).all()
    return {row.slot: row.content_key for row in found}


def _header(record: Test) -> bytes:
    """Everything of a record but the values of its KPIs."""
    document = record.model_dump(mode="json", exclude={"kpis"})
    document["kpis"] = [kpi.model_dump(mode="json", exclude=set(_VALUES)) for kpi in record.kpis]
    return pack(document)
