"""Stores what runs measured, and reads it by run and by series."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from statistics import median
from typing import Any

from sqlalchemy import Connection, and_, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from fournos.history.compare.comparison import RowKey
from fournos.history.records import Document, Identity, uid_in
from fournos.history.regressions.judge import JUDGED, other_images
from fournos.history.regressions.series import Point, Series
from fournos.history.results.models import Kpi, Test
from fournos.history.store import reads
from fournos.history.store.points import newest_points, of_last_attempt
from fournos.history.store.result_rows import MAX_RECORDS, PushResult, prepare, put_records
from fournos.history.store.rows import identity_of, identity_text
from fournos.history.store.schema import curves, result_records, runs, scalars, series
from fournos.history.store.store import HistoryStore, number_of
from fournos.history.store.text import indexed, unpack


class Results:
    """The results in a store.

    `namespaces` are the UIDs of the namespaces that the caller may read, None for all; `cluster` is the one
    whose runs count, "" for all.
    """

    def __init__(self, store: HistoryStore, *, max_records: int = MAX_RECORDS) -> None:
        self._store = store
        self._max_records = max_records

    async def put(self, identity: Identity, records: Sequence[Test], now: datetime) -> PushResult | None:
        """Stores the records of a run; None if there is no such run.

        Pushing them again changes nothing.  Of several records of one test the last one counts.
        """
        prepared = await asyncio.to_thread(prepare, records)

        def put(connection: Connection) -> PushResult | None:
            number = reads.number_of(connection, identity)
            if number is None:
                return None
            return put_records(connection, number, prepared, now, most=self._max_records)

        return await self._store.database.write(put)

    async def of(self, identity: Identity, *, last_attempt: bool = False) -> tuple[Test, ...]:
        """Returns the records of a run, in the order in which they came.

        `last_attempt`: without what earlier attempts measured, as in series.
        """
        mine = result_records.c.run_id == number_of(identity)
        if last_attempt:
            of_run = select(runs.c.id).where(runs.c.id == result_records.c.run_id, of_last_attempt())
            mine = and_(mine, of_run.exists())
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

    async def values_of(
        self, identities: Iterable[Identity], kpis: Sequence[str] = (), *, most: int
    ) -> dict[Identity, tuple[Test, ...]] | None:
        """Returns what the last attempts measured, without curves; None if that is more than `most` values.

        `kpis`: only these, all without any.
        """
        conditions = [runs.c.uid.in_({indexed(identity.uid) for identity in identities}), of_last_attempt()]
        conditions += [scalars.c.kpi_id.in_(list(map(indexed, kpis)))] if kpis else []
        statement = (
            select(
                runs.c.cluster,
                runs.c.namespace,
                runs.c.uid,
                result_records.c.id,
                scalars.c.kpi_id,
                scalars.c.value,
            )
            .join(result_records, result_records.c.run_id == runs.c.id)
            .join(scalars, scalars.c.record_id == result_records.c.id)
            .where(*conditions)
            .order_by(result_records.c.id)
            .limit(most + 1)
        )
        async with self._store.reading() as connection:
            rows = (await connection.execute(statement)).all()
            if len(rows) > most:
                return None
            numbers = {row.id for row in rows}
            headers = select(result_records.c.id, result_records.c.header)
            headers = headers.where(result_records.c.id.in_(numbers))
            packed = {row.id: row.header for row in await connection.execute(headers)}
        # A row whose header is not there was replaced by another push meanwhile.
        rows = [row for row in rows if row.id in packed]
        return await asyncio.to_thread(_values, rows, packed)

    async def labels_of(self, identities: Iterable[Identity]) -> dict[Identity, dict[str, str]]:
        """Returns the labels of the first test of each run, those that name a version included."""
        uids = {indexed(identity.uid) for identity in identities}
        first = (
            select(func.min(result_records.c.id))
            .join(runs, runs.c.id == result_records.c.run_id)
            .where(runs.c.uid.in_(uids))
            .group_by(result_records.c.run_id)
        )
        statement = (
            select(runs.c.cluster, runs.c.namespace, runs.c.uid, result_records.c.header)
            .join(result_records, result_records.c.run_id == runs.c.id)
            .where(result_records.c.id.in_(first))
        )
        async with self._store.reading() as connection:
            rows = (await connection.execute(statement)).all()
        return await asyncio.to_thread(
            lambda: {identity_of(row): _labels(unpack(row.header)) for row in rows}
        )

    async def names(self, found: Iterable[str]) -> dict[str, str]:
        """Returns the names of those of the runs, given as `Identity.text`, that are in the history."""
        uids = {uid_in(text) for text in found}
        statement = select(runs.c.cluster, runs.c.namespace, runs.c.uid, runs.c.name)
        async with self._store.reading() as connection:
            rows = (await connection.execute(statement.where(runs.c.uid.in_(uids)))).all()
        return {identity_text(row): row.name for row in rows}

    async def series(
        self,
        fingerprint: str,
        namespaces: tuple[str, ...] | None,
        *,
        cluster: str = "",
        kpi_id: str = "",
        newest: int = JUDGED,
    ) -> list[Series]:
        """Returns the scalar series of a fingerprint with their newest points, the oldest point first.

        Only tests and jobs that succeeded are points, with what the last attempt measured; of reruns the
        images are compared with those of the run that they should repeat.  Repeats of a test within one run
        are one point, their median.
        """
        conditions = [series.c.fingerprint == indexed(fingerprint), series.c.is_curve.is_(False)]
        conditions += [series.c.kpi_id == indexed(kpi_id)] if kpi_id else []
        statement = newest_points(scalars, scalars.c.value, conditions, namespaces, newest, cluster=cluster)
        async with self._store.reading() as connection:
            found = (await connection.execute(statement)).all()
            by_series = [list(rows)[:newest] for _, rows in groupby(found, key=lambda row: row.id)]
            points = [_points(rows) for rows in by_series]
            reruns = {point.run: point.confirms for each in points for point in each if point.confirms}
            others = await _changed_images(connection, reruns)
        return [
            Series(
                rows[0].id,
                rows[0].kpi_id,
                tuple(replace(point, other_images=others.get(point.run, ())) for point in each),
                rows[0].unit,
                rows[0].higher_is_better,
                json.loads(rows[0].labels),
            )
            for rows, each in zip(by_series, points, strict=True)
        ]

    async def earlier(
        self,
        fingerprint: str,
        namespaces: tuple[str, ...] | None,
        *,
        cluster: str = "",
        without: Iterable[Identity] = (),
    ) -> dict[RowKey, list[Kpi]]:
        """Returns the KPIs of earlier comparable runs: the history that a comparison takes its noise from."""
        left_out = {one.text for one in without}
        history: dict[RowKey, list[Kpi]] = {}
        async with self._store.reading() as connection:
            for table, column in ((scalars, scalars.c.value), (curves, curves.c.data)):
                wanted = (series.c.fingerprint == indexed(fingerprint),)
                statement = newest_points(table, column, wanted, namespaces, JUDGED, cluster=cluster)
                for row in (await connection.execute(statement)).all():
                    if identity_text(row) not in left_out:
                        key = RowKey(row.kpi_id, tuple(json.loads(row.labels).items()))
                        history.setdefault(key, []).append(_kpi(row, row.measured))
        return history


async def _changed_images(
    connection: AsyncConnection, reruns: Mapping[str, str]
) -> dict[str, tuple[str, ...]]:
    """Returns the images of each rerun that differ from those of its run.

    `reruns` maps reruns to the runs that they repeat, all as `Identity.text`.
    """
    if not reruns:
        return {}
    identities = {*reruns, *reruns.values()}
    statement = reads.documents_statement(map(uid_in, identities), Document.PROVENANCE)
    stored = {identity_text(row): row.data for row in (await connection.execute(statement)).all()}
    return await asyncio.to_thread(_compare_images, reruns, stored)


def _compare_images(reruns: Mapping[str, str], stored: Mapping[str, bytes]) -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, Any]] = {text: unpack(data) for text, data in stored.items()}
    return {
        rerun: other_images(found.get(run) or {}, found.get(rerun) or {}) for rerun, run in reruns.items()
    }


def _points(rows: Iterable[Any]) -> tuple[Point, ...]:
    """Returns the points of a series, the oldest first; several values of a run are one point."""
    by_run: dict[str, list[Any]] = {}
    for row in rows:
        by_run.setdefault(identity_text(row), []).append(row)
    points = [
        Point(
            run,
            max(row.at for row in repeats),
            median(row.measured for row in repeats),
            f"{repeats[0].cluster}/{repeats[0].namespace}/{repeats[0].confirms}"
            if repeats[0].confirms
            else "",
        )
        for run, repeats in by_run.items()
    ]
    return tuple(sorted(points, key=lambda point: (point.at, point.run)))


def _values(rows: Sequence[Any], headers: Mapping[int, bytes]) -> dict[Identity, tuple[Test, ...]]:
    """Returns the tests of each run, with the values of these rows."""
    identities = {row.id: identity_of(row) for row in rows}
    values = {(row.id, row.kpi_id): row.value for row in rows}
    by_run: dict[Identity, tuple[Test, ...]] = {}
    for number, identity in identities.items():
        test = _record(number, headers[number], values)
        by_run[identity] = (*by_run.get(identity, ()), test)
    return by_run


def _labels(header: Mapping[str, Any]) -> dict[str, str]:
    return {**(header.get("kpi_labels") or {}), **(header.get("labels") or {})}


def _record(number: int, header: bytes, values: Mapping[tuple[int, str], Any]) -> Test:
    document = unpack(header)
    kpis = []
    for kpi in document["kpis"]:
        value = values.get((number, kpi["kpi_id"]))
        # None: another push replaced the record after its header was read.
        if value is not None:
            kpis.append(kpi | ({"values": unpack(value)} if isinstance(value, bytes) else {"value": value}))
    return Test.model_validate(document | {"kpis": kpis})


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
