"""Stores what runs measured, and reads it by run and by series."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from statistics import median
from typing import Any, Final

from sqlalchemy import Table, delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from fournos.history.compare.comparison import RowKey
from fournos.history.records import Identity
from fournos.history.regressions.series import Point, Series
from fournos.history.results.models import Kpi, ResultRecord, series_id, series_labels
from fournos.history.store.database import INSERT
from fournos.history.store.points import newest_points
from fournos.history.store.results_schema import curves, result_records, scalars, series
from fournos.history.store.schema import runs
from fournos.history.store.sizes import MEASURE
from fournos.history.store.store import Store, number_of
from fournos.history.store.text import indexed, pack, unpack

MAX_RECORDS: Final = 5_000
"""Records of one run."""
NEWEST: Final = 200
"""Points of a series that are read unless told otherwise."""
_VALUES: Final = frozenset({"value", "values"})


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of pushed records."""

    added: int = 0
    replaced: int = 0
    """Records whose test was there with other content, such as that of an earlier attempt."""
    unchanged: int = 0
    refused: int = 0
    """Records beyond MAX_RECORDS."""


class Results:
    """The results in a store.

    `namespaces` are the UIDs of the namespaces that the caller may read; None for all.
    """

    def __init__(self, store: Store, *, max_records: int = MAX_RECORDS) -> None:
        self._store = store
        self._max_records = max_records

    async def put(self, identity: Identity, records: Sequence[ResultRecord], now: datetime) -> Stored | None:
        """Stores the records of a run; None if there is no such run.

        Pushing them again changes nothing.  Of several records of one test the last one counts.
        """
        records = list({record.slot: record for record in records}.values())
        headers = await asyncio.to_thread(lambda: [_header(record) for record in records])
        async with self._store.writing() as connection:
            number = await connection.scalar(select(number_of(identity)))
            if number is None:
                return None
            fingerprint = await connection.scalar(select(runs.c.fingerprint).where(runs.c.id == number))
            known = await _slots(connection, number)
            added = refused = unchanged = 0
            rows = _Rows(str(fingerprint), now)
            for record, header in zip(records, headers, strict=True):
                if known.get(record.slot) == record.content_key:
                    unchanged += 1
                elif record.slot not in known and len(known) + added >= self._max_records:
                    refused += 1
                else:
                    added += record.slot not in known
                    rows.add(await _put_record(connection, number, record, header, now), record)
            await self._put_values(connection, rows)
            if added or rows.series:
                await connection.execute(MEASURE, {"number": number})
        replaced = len(records) - added - refused - unchanged
        return Stored(added, replaced, unchanged, refused)

    async def _put_values(self, connection: AsyncConnection, rows: _Rows) -> None:
        if rows.series:
            statement = INSERT[self._store.database.dialect](series)
            changed = {"higher_is_better": statement.excluded.higher_is_better}
            await connection.execute(
                statement.on_conflict_do_update(index_elements=["id"], set_=changed),
                list(rows.series.values()),
            )
        for table, found in rows.values.items():
            if found:
                await connection.execute(insert(table), found)

    async def of(self, identity: Identity) -> tuple[ResultRecord, ...]:
        """Returns the records of a run, in the order in which they came."""
        mine = result_records.c.run_id == number_of(identity)
        async with self._store.reading() as connection:
            headers = (
                await connection.execute(
                    select(result_records.c.id, result_records.c.header)
                    .where(mine)
                    .order_by(result_records.c.id)
                )
            ).all()
            values: dict[tuple[int, str], Any] = {}
            for table, column in ((scalars, scalars.c.value), (curves, curves.c.data)):
                statement = select(table.c.record_id, table.c.kpi_id, column)
                joined = statement.join(result_records, result_records.c.id == table.c.record_id)
                for record, kpi, value in await connection.execute(joined.where(mine)):
                    values[record, kpi] = value
        return await asyncio.to_thread(lambda: tuple(_record(row.id, row.header, values) for row in headers))

    async def names(self, found: Iterable[str]) -> dict[str, str]:
        """Returns the names of those of the runs, given as `Identity.text`, that are in the history."""
        uids = {text.rpartition("/")[2] for text in found}
        statement = select(runs.c.cluster, runs.c.namespace, runs.c.uid, runs.c.name)
        async with self._store.reading() as connection:
            rows = (await connection.execute(statement.where(runs.c.uid.in_(uids)))).all()
        return {f"{row.cluster}/{row.namespace}/{row.uid}": row.name for row in rows}

    async def series(
        self,
        fingerprint: str,
        namespaces: tuple[str, ...] | None,
        *,
        kpi_id: str = "",
        newest: int = NEWEST,
    ) -> list[Series]:
        """Returns the scalar series of a fingerprint with their newest points, the oldest point first.

        Only tests and jobs that succeeded are points.  Repeats of a test within one run are one point, their
        median.
        """
        wanted = [series.c.fingerprint == indexed(fingerprint), series.c.is_curve.is_(False)]
        wanted += [series.c.kpi_id == indexed(kpi_id)] if kpi_id else []
        statement = newest_points(scalars, scalars.c.value, wanted, namespaces, newest)
        async with self._store.reading() as connection:
            found = (await connection.execute(statement)).all()
        by_series = [list(rows)[:newest] for _, rows in groupby(found, key=lambda row: row.id)]
        return [
            Series(
                rows[0].id,
                rows[0].kpi_id,
                _points(rows),
                rows[0].unit,
                rows[0].higher_is_better,
                json.loads(rows[0].labels),
            )
            for rows in by_series
        ]

    async def earlier(
        self,
        fingerprint: str,
        namespaces: tuple[str, ...] | None,
        *,
        without: Iterable[Identity] = (),
        newest: int = NEWEST,
    ) -> dict[RowKey, list[Kpi]]:
        """Returns the KPIs of earlier comparable runs: the history that a comparison takes its noise from."""
        left_out = {one.text for one in without}
        history: dict[RowKey, list[Kpi]] = {}
        async with self._store.reading() as connection:
            for table, column in ((scalars, scalars.c.value), (curves, curves.c.data)):
                wanted = (series.c.fingerprint == indexed(fingerprint),)
                statement = newest_points(table, column, wanted, namespaces, newest)
                for row in (await connection.execute(statement)).all():
                    if f"{row.cluster}/{row.namespace}/{row.uid}" not in left_out:
                        key = RowKey(row.kpi_id, tuple(json.loads(row.labels).items()))
                        history.setdefault(key, []).append(_kpi(row, row.measured))
        return history


class _Rows:
    """The rows of the values of records, collected so that few statements write them."""

    def __init__(self, fingerprint: str, now: datetime) -> None:
        self._fingerprint = fingerprint
        self._now = now
        self.series: dict[str, dict[str, Any]] = {}
        self.values: dict[Table, list[dict[str, Any]]] = {scalars: [], curves: []}

    def add(self, key: int, record: ResultRecord) -> None:
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


async def _put_record(
    connection: AsyncConnection, number: int, record: ResultRecord, header: bytes, now: datetime
) -> int:
    """Writes a record in the place of the one of its slot, and returns its key."""
    where = (result_records.c.run_id == number, result_records.c.slot == record.slot)
    await connection.execute(delete(result_records).where(*where))
    row = {
        "run_id": number,
        "slot": record.slot,
        "content_key": record.content_key,
        "at": record.timestamp or now,
        "success": record.success,
        "size": len(header),
        "header": header,
    }
    key: int | None = await connection.scalar(
        insert(result_records).values(row).returning(result_records.c.id)
    )
    assert key is not None, "the row was inserted"
    return key


async def _slots(connection: AsyncConnection, number: int) -> dict[str, str]:
    statement = select(result_records.c.slot, result_records.c.content_key)
    found = (await connection.execute(statement.where(result_records.c.run_id == number))).all()
    return {row.slot: row.content_key for row in found}


def _points(rows: Iterable[Any]) -> tuple[Point, ...]:
    """The points of a series, the oldest first; several values of a run are one point."""
    by_run: dict[str, list[Any]] = {}
    for row in rows:
        by_run.setdefault(f"{row.cluster}/{row.namespace}/{row.uid}", []).append(row)
    points = [
        Point(
            run,
            max(row.at for row in found),
            median(row.measured for row in found),
            f"{found[0].cluster}/{found[0].namespace}/{found[0].confirms}" if found[0].confirms else "",
        )
        for run, found in by_run.items()
    ]
    return tuple(sorted(points, key=lambda point: (point.at, point.run)))


def _header(record: ResultRecord) -> bytes:
    """Everything of a record but the values of its KPIs."""
    document = record.model_dump(mode="json", exclude={"kpis"})
    document["kpis"] = [kpi.model_dump(mode="json", exclude=set(_VALUES)) for kpi in record.kpis]
    return pack(document)


def _record(number: int, header: bytes, values: Mapping[tuple[int, str], Any]) -> ResultRecord:
    document = unpack(header)
    kpis = []
    for kpi in document["kpis"]:
        value = values.get((number, kpi["kpi_id"]))
        # None: another push replaced the record after its header was read.
        if value is not None:
            kpis.append(kpi | ({"values": unpack(value)} if isinstance(value, bytes) else {"value": value}))
    return ResultRecord.model_validate(document | {"kpis": kpis})


def _kpi(row: Any, value: Any) -> Kpi:
    """A KPI of a series, as far as a comparison needs it."""
    if not row.is_curve:
        return Kpi(kpi_id=row.kpi_id, unit=row.unit, higher_is_better=row.higher_is_better, value=value)
    y_unit, _, x_unit = row.unit.rpartition(" / ")
    return Kpi(
        kpi_id=row.kpi_id,
        higher_is_better=row.higher_is_better,
        values=unpack(value),
        y_unit=y_unit or x_unit,
        x_unit=x_unit if y_unit else "",
    )
