"""Stores what runs measured, and reads it by run and by series."""

from __future__ import annotations

import asyncio
import json
import logging
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from statistics import median
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, FromClause, Select, and_, func, literal, not_, or_, select

from fournos.history.records import Document, Identity, Scope, uid_in
from fournos.history.regressions.judge import JUDGED, other_images
from fournos.history.regressions.series import Point, Series
from fournos.history.results.models import Received, Test
from fournos.history.store.rows import identity_of, indexed, unpack, within
from fournos.history.store.runs import HistoryStore, find_number, number_of
from fournos.history.store.schema import Time, kpi_values, labels, runs, series, tests
from fournos.history.store.writes import MAX_TESTS, prepare, put_tests
from fournos.systems.jobs.names import CONFIRMS_LABEL

log = logging.getLogger(__name__)

MAX_SERIES: Final = 2_000
"""Series of a benchmark that are judged, the first by their names."""


class Results:
    """The results in a store."""

    def __init__(self, store: HistoryStore, *, max_tests: int = MAX_TESTS) -> None:
        self._store = store
        self._max_tests = max_tests

    async def put(self, identity: Identity, pushed: Sequence[Test], now: datetime) -> Received | None:
        """Stores the tests of a run; None if there is no such run.

        Pushing them again changes nothing.  Of several with the same identity the last one counts.  Raises
        NamespaceFullError.
        """
        prepared = await asyncio.to_thread(prepare, pushed)

        def put(connection: Connection) -> Received | None:
            number = find_number(connection, identity)
            if number is None:
                return None
            most, namespace_bytes = self._max_tests, self._store.namespace_bytes
            return put_tests(connection, number, prepared, now, most=most, namespace_bytes=namespace_bytes)

        return await self._store.write(put)

    async def of(self, identity: Identity, *, last_attempt: bool = False) -> tuple[Test, ...]:
        """Returns the tests of a run, in the order in which they came.

        `last_attempt`: without what earlier attempts measured, as in series.
        """
        statement = select(tests.c.document).where(tests.c.run_id == number_of(identity)).order_by(tests.c.id)
        if last_attempt:
            of_run = select(runs.c.id).where(runs.c.id == tests.c.run_id, _of_last_attempt())
            statement = statement.where(of_run.exists())
        documents = await self._store.read(lambda connection: connection.scalars(statement).all())
        return await asyncio.to_thread(lambda: tuple(_readable(documents)))

    async def values_of(
        self, identities: Iterable[Identity], kpis: Sequence[str] = (), *, most: int
    ) -> dict[Identity, tuple[Test, ...]] | None:
        """Returns what the last attempts measured, without curves; None if that is more than `most` values.

        `kpis`: only these, all without any.
        """
        conditions = [
            runs.c.uid.in_({indexed(identity.uid) for identity in identities}),
            _of_last_attempt(),
            series.c.is_curve.is_(False),
        ]
        conditions += [kpi_values.c.kpi_id.in_(list(map(indexed, kpis)))] if kpis else []
        measured = (
            select(runs.c.cluster, runs.c.namespace, runs.c.uid, tests.c.id, func.count().label("values"))
            .join(tests, tests.c.run_id == runs.c.id)
            .join(kpi_values, kpi_values.c.test_id == tests.c.id)
            .join(series, series.c.id == kpi_values.c.series)
            .where(*conditions)
            .group_by(runs.c.cluster, runs.c.namespace, runs.c.uid, tests.c.id)
            .order_by(tests.c.id)
        )
        rows = await self._store.rows(measured)
        if sum(row.values for row in rows) > most:
            return None
        documents = select(tests.c.id, tests.c.document)
        packed = await self._store.rows_of(documents, tests.c.id, {row.id for row in rows})
        return await asyncio.to_thread(
            _tests_by_run, rows, {row.id: row.document for row in packed}, frozenset(kpis)
        )

    async def labels_of(self, identities: Iterable[Identity]) -> dict[Identity, dict[str, str]]:
        """Returns the labels of the first test of each run, those that name a version included."""
        uids = {indexed(identity.uid) for identity in identities}
        other = tests.alias()
        first = select(func.min(other.c.id)).where(other.c.run_id == runs.c.id).scalar_subquery()
        of_run = runs.join(tests, tests.c.id == first)
        statement = select(runs.c.cluster, runs.c.namespace, runs.c.uid, tests.c.document).select_from(of_run)
        rows = await self._store.rows_of(statement, runs.c.uid, uids)
        return await asyncio.to_thread(
            lambda: {identity_of(row): _labels(unpack(row.document)) for row in rows}
        )

    async def names(self, found: Iterable[str]) -> dict[str, str]:
        """Returns the names of those of the runs, given as `Identity.text`, that are in the history."""
        uids = {uid_in(text) for text in found}
        statement = select(runs.c.cluster, runs.c.namespace, runs.c.uid, runs.c.name)
        rows = await self._store.rows_of(statement, runs.c.uid, uids)
        return {identity_of(row).text: row.name for row in rows}

    async def series(
        self,
        fingerprint: str,
        scope: Scope,
        *,
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
        statement = _newest_points(conditions, scope, newest)
        found = await self._store.rows(statement)
        by_series = [list(rows)[:newest] for _, rows in groupby(found, key=lambda row: row.id)]
        points = [_points(rows) for rows in by_series]
        reruns = {point.run: point.confirms for each in points for point in each if point.confirms}
        others = await self._changed_images(reruns)
        return [
            Series(
                rows[0].id,
                rows[0].kpi_id,
                tuple(replace(point, other_images=others.get(point.run, ())) for point in each),
                rows[0].unit,
                rows[0].higher_is_better,  # of the newest one
                json.loads(rows[0].labels),
            )
            for rows, each in zip(by_series, points, strict=True)
        ]

    async def earlier(
        self, fingerprint: str, scope: Scope, *, without: Iterable[Identity] = ()
    ) -> dict[str, list[float]]:
        """Returns the values of earlier comparable runs by series: a comparison takes its noise from them."""
        left_out = {identity.text for identity in without}
        conditions = [series.c.fingerprint == indexed(fingerprint)]
        statement = _newest_points(conditions, scope, JUDGED)
        values: dict[str, list[float]] = {}
        for row in await self._store.rows(statement):
            if identity_of(row).text not in left_out:
                values.setdefault(row.id, []).append(row.measured)
        return values

    async def _changed_images(self, reruns: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
        """Returns the images of each rerun that differ from those of its run.

        `reruns` maps reruns to the runs that they repeat, all as `Identity.text`.
        """
        if not reruns:
            return {}
        identities = filter(None, map(Identity.of, {*reruns, *reruns.values()}))
        documents = await self._store.documents(identities, Document.PROVENANCE)
        found = {identity.text: provenance for identity, provenance in documents.items()}
        return {
            rerun: other_images(found.get(run) or {}, found.get(rerun) or {}) for rerun, run in reruns.items()
        }


def _points(rows: Iterable[Any]) -> tuple[Point, ...]:
    """Returns the points of a series, the oldest first; several values of a run are one point."""
    by_run: dict[str, list[Any]] = {}
    for row in rows:
        by_run.setdefault(identity_of(row).text, []).append(row)
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


def _tests_by_run(
    rows: Iterable[Any], documents: Mapping[int, bytes], kpis: frozenset[str]
) -> dict[Identity, tuple[Test, ...]]:
    """Returns the tests of each run with their single values; `kpis`: only these, all without any."""
    by_run: dict[Identity, tuple[Test, ...]] = {}
    for row in rows:
        if row.id not in documents:
            continue  # another push has replaced it meanwhile
        whole = next(_readable([documents[row.id]]), None)
        if whole is None:
            continue
        shown = [kpi for kpi in whole.kpis if not kpi.is_curve and (not kpis or kpi.kpi_id in kpis)]
        test = whole.model_copy(update={"kpis": tuple(shown)})
        by_run[identity_of(row)] = (*by_run.get(identity_of(row), ()), test)
    return by_run


def _labels(document: Mapping[str, Any]) -> dict[str, str]:
    return {**(document.get("kpi_labels") or {}), **(document.get("labels") or {})}


def _readable(documents: Iterable[bytes]) -> Iterator[Test]:
    """Yields the tests; one that cannot be read takes no other with it."""
    for document in documents:
        try:
            yield Test.model_validate(unpack(document))
        except (ValueError, zlib.error) as error:
            log.warning("a stored test cannot be read: %s", type(error).__name__)


def _newest_points(conditions: Iterable[ColumnElement[bool]], scope: Scope, newest: int) -> Select[Any]:
    """Selects the newest points of all wanted series at once, the newest first in each series.

    A point is a value of the last attempt whose test and job succeeded.  The time of the last point that
    counts is looked up for each series by the index, so that no older one is read.  Points of that very time
    may exceed `newest`.
    """
    own = kpi_values.alias()
    # A series is of a fingerprint, of whatever namespace: those of others take no place.
    has_points = _successful(select(own.c.test_id), own, scope).where(own.c.series == series.c.id).exists()
    by_name = select(series).where(*conditions, has_points).order_by(series.c.kpi_id, series.c.id)
    wanted = by_name.limit(MAX_SERIES).subquery()
    older = kpi_values.alias()
    last = (
        _successful(select(older.c.at), older, scope)
        .where(older.c.series == wanted.c.id)
        .order_by(older.c.at.desc(), older.c.test_id.desc())
        .offset(newest - 1)
        .limit(1)
        .scalar_subquery()
    )
    # Materialized: else SQLite would look the time up again for each point.
    since = select(wanted, last.label("since")).cte("since").prefix_with("MATERIALIZED")
    newer = and_(kpi_values.c.series == since.c.id, kpi_values.c.at >= _or_any(since.c.since))
    points = select(
        since,
        runs.c.cluster,
        runs.c.namespace,
        runs.c.uid,
        kpi_values.c.at,
        labels.c.value.label("confirms"),
        kpi_values.c.value.label("measured"),
        kpi_values.c.higher_is_better,
    ).select_from(since.join(kpi_values, newer))
    confirms = and_(labels.c.run_id == runs.c.id, labels.c.name == CONFIRMS_LABEL)
    return (
        _successful(points, kpi_values, scope)
        .join(labels, confirms, isouter=True)
        .order_by(since.c.id, kpi_values.c.at.desc(), kpi_values.c.test_id.desc())
    )


def _or_any(since: ColumnElement[Any]) -> ColumnElement[Any]:
    """The time, or one before all others for a series that has fewer points."""
    return func.coalesce(since, literal(datetime.min.replace(tzinfo=UTC), Time()))


def _of_last_attempt() -> ColumnElement[bool]:
    """The condition that a test was not measured before the last attempt of its run began.

    An attempt that was evicted, or that failed, may have pushed a part of its results.
    """
    earlier_ones = and_(runs.c.attempts > 1, runs.c.running_at.is_not(None))
    return or_(not_(earlier_ones), tests.c.at >= runs.c.running_at)


def _successful(statement: Select[Any], table: FromClause, scope: Scope) -> Select[Any]:
    """Leaves the values of a statement whose test and job succeeded, in the job's last attempt."""
    return (
        statement.join(tests, tests.c.id == table.c.test_id)
        .join(runs, runs.c.id == tests.c.run_id)
        .where(tests.c.success.is_(True), runs.c.phase == "Succeeded", _of_last_attempt(), *within(scope))
    )
