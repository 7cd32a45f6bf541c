"""What leaves the history: by age, by number in each namespace, or because a person deletes it.

Deleting a run's row leaves its blobs without an owner in the table `blobs`; they are deleted after that, and
found again if the process ends in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from sqlalchemy import ColumnElement, Connection, and_, delete, func, insert, select, text

from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.metrics import Metrics
from fournos.history.blobs import Blobs, BlobsUnavailableError
from fournos.history.metrics import report as set_metrics
from fournos.history.records import PAGE_MAX, Ending, Identity, Query, Run
from fournos.history.settings import StoreSettings
from fournos.history.store.database import StoreUnavailableError
from fournos.history.store.rows import indexed
from fournos.history.store.runs import HistoryStore, find_number
from fournos.history.store.schema import (
    acknowledgements,
    baselines,
    keeps,
    kpi_values,
    runs,
    series,
    tombstones,
)
from fournos.history.store.schema import blobs as blob_table
from fournos.history.store.verdicts import UNKNOWN
from fournos.history.store.writes import total

log = logging.getLogger(__name__)

INTERVAL: Final = 3600.0
"""Seconds between two passes of the retention."""
_BATCH: Final = 200
"""Runs that one transaction deletes, so that a recorder waits for no long one."""
_FORGOTTEN: Final = timedelta(days=365)
"""An expired run whose object still exists after this time may be recorded again; it expires at once."""
_NAMESPACES: Final = 10
_TRIES: Final = 2
"""Blobs that cannot be deleted before the store of blobs counts as down."""


class TombstoneCause(StrEnum):
    """Why a run is in `tombstones`."""

    EXPIRED = "Expired"
    DELETED = "Deleted"


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """How much stays; None: no limit."""

    age: timedelta | None = None
    runs: int | None = None
    """Ended runs of each namespace."""

    @classmethod
    def of(cls, settings: StoreSettings) -> RetentionLimits:
        return cls(
            timedelta(days=settings.retention_days) if settings.retention_days else None,
            settings.retention_runs or None,
        )


async def keep_within(
    store: HistoryStore,
    files: Blobs,
    limits: RetentionLimits,
    metrics: Metrics,
    clock: Clock,
    *,
    cluster: Callable[[], str],
    interval: float = INTERVAL,
) -> None:
    """Deletes what is beyond the limits, and sets the metrics, again and again until it is cancelled.

    `cluster()` returns the UID of the cluster whose runs expire, "" while it is not known.  Those of other
    clusters in the database have limits of their own.
    """
    while True:
        if not (own := cluster()):
            await asyncio.sleep(min(interval, UNKNOWN))
            continue
        try:
            number = await expire(store, files, limits, clock.now(), cluster=own)
            if number:
                log.info("%d runs of the history have expired", number)
            await store.database.tidy()
            await report(store, metrics, own, number)
        except (StoreUnavailableError, OSError) as error:
            log.warning("The history's retention is tried again in %.0f s: %s", interval, error)
        await asyncio.sleep(interval)


async def expire(
    store: HistoryStore, files: Blobs, limits: RetentionLimits, now: datetime, *, cluster: str = ""
) -> int:
    """Deletes what is beyond the limits with its blobs, and returns the number of runs.

    Of all clusters without `cluster`.  A run that is open or marked stays, whatever its age.
    """
    number = 0
    while batch := await _beyond(store, limits, now, cluster):
        number += await _remove(store, batch, TombstoneCause.EXPIRED, now, _may_expire())
    old = [tombstones.c.cause == TombstoneCause.EXPIRED.value, tombstones.c.at < now - _FORGOTTEN]
    old += [tombstones.c.cluster == indexed(cluster)] if cluster else []
    await store.execute(delete(tombstones).where(*old))
    await sweep_series(store)
    await sweep_blobs(store, files)
    return number


async def erase(store: HistoryStore, files: Blobs, identities: Iterable[Identity], now: datetime) -> int:
    """Deletes these runs with their blobs, whatever their state, and returns their number."""
    found = await store.read(lambda connection: [find_number(connection, each) for each in identities])
    numbers = [each for each in found if each is not None]
    number = 0
    for start in range(0, len(numbers), _BATCH):
        number += await _remove(store, numbers[start : start + _BATCH], TombstoneCause.DELETED, now)
    await sweep_series(store)
    await sweep_blobs(store, files)
    await store.database.tidy()
    return number


async def erasable(store: HistoryStore, query: Query, *, with_marked: bool) -> list[Run]:
    """Returns the ended runs that match; those with a keep mark only with `with_marked`."""
    erasable_runs: list[Run] = []
    query = _page(query, limit=PAGE_MAX)
    while True:
        page = await store.find(query)
        closed = [run for run in page.runs if run.ending is not Ending.OPEN]
        marked = set() if with_marked else await store.kept(run.identity for run in closed)
        erasable_runs += [run for run in closed if run.identity not in marked]
        if not page.cursor:
            return erasable_runs
        query = _page(query, cursor=page.cursor)


def _page(query: Query, **changes: object) -> Query:
    return replace(query, filters=query.filters.model_copy(update=changes))


async def sweep_blobs(store: HistoryStore, files: Blobs) -> None:
    """Deletes the blobs whose run is deleted.

    One that cannot be deleted is left to the next pass, and takes no other with it.  Raises
    BlobsUnavailableError while the store of blobs does not answer.
    """
    last = ""
    while True:
        ownerless = select(blob_table.c.key).where(blob_table.c.run_id.is_(None), blob_table.c.key > last)
        keys = [row.key for row in await store.rows(ownerless.order_by(blob_table.c.key).limit(_BATCH))]
        if not keys:
            return
        deleted = await _deleted(files, keys)
        gone = delete(blob_table).where(blob_table.c.run_id.is_(None), blob_table.c.key.in_(deleted))
        await store.execute(gone)
        last = keys[-1]


async def _deleted(files: Blobs, keys: Sequence[str]) -> list[str]:
    """Deletes the blobs, and returns the keys of those that are gone."""
    try:
        await files.delete(keys)
        return list(keys)
    except BlobsUnavailableError as error:
        failure = error
    deleted: list[str] = []
    for place, key in enumerate(keys):
        try:
            await files.delete([key])
        except BlobsUnavailableError as error:
            log.warning("the blob %r is not deleted: %s", key, error)
            if not deleted and place >= _TRIES:
                raise failure from error
            continue
        deleted.append(key)
    return deleted


async def sweep_series(store: HistoryStore) -> None:
    """Deletes the series without values, as their runs are deleted, and what was acknowledged of them."""
    unused = ~select(kpi_values.c.series).where(kpi_values.c.series == series.c.id).exists()

    def sweep(connection: Connection) -> None:
        if connection.dialect.name == "postgresql":
            # A push that is under way has its series and not yet its values; DELETE would not see them.
            connection.execute(text("LOCK TABLE series IN SHARE ROW EXCLUSIVE MODE"))
        connection.execute(delete(series).where(unused))
        known = select(series.c.id).where(series.c.id == acknowledgements.c.series).exists()
        connection.execute(delete(acknowledgements).where(~known))

    if await store.rows(select(series.c.id).where(unused).limit(1)):
        await store.write(sweep)


async def report(store: HistoryStore, metrics: Metrics, cluster: str, expired: int) -> None:
    """Sets the metrics of the store, after a pass of the retention."""
    number = await store.read(lambda connection: connection.scalar(select(func.count()).select_from(runs)))
    set_metrics(
        metrics,
        database=await store.database.size(),
        runs=number or 0,
        expired=expired,
        namespaces=await largest(store, cluster),
        most=store.namespace_bytes,
    )


async def largest(store: HistoryStore, cluster: str) -> dict[str, int]:
    """Returns the bytes of results, logs and artifacts of the cluster's namespaces with the most of them."""
    size = total(runs.c.bytes)
    statement = (
        select(runs.c.namespace, size)
        .where(runs.c.cluster == indexed(cluster))
        .group_by(runs.c.namespace)
        .order_by(size.desc())
        .limit(_NAMESPACES)
    )
    return {namespace: int(used) for namespace, used in await store.rows(statement)}


def _may_expire() -> ColumnElement[bool]:
    """The condition of runs that have ended, have no keep mark and are no baseline."""
    marks = [
        select(table.c.run_id).where(table.c.run_id == runs.c.id).exists() for table in (keeps, baselines)
    ]
    return and_(runs.c.closed_at.is_not(None), *(~mark for mark in marks))


async def _beyond(store: HistoryStore, limits: RetentionLimits, now: datetime, cluster: str) -> Sequence[int]:
    """Returns the keys of some runs that are beyond a limit, the oldest end first."""
    mine = [runs.c.cluster == indexed(cluster)] if cluster else []
    oldest = select(runs.c.id).where(_may_expire()).order_by(runs.c.closed_at, runs.c.id).limit(_BATCH)
    if limits.age is not None:
        aged = oldest.where(runs.c.closed_at < now - limits.age, *mine)
        if found := await store.rows(aged):
            return [row.id for row in found]
    if limits.runs is None:
        return []
    # Each ended run's place in its namespace, the newest end first.
    place = func.row_number().over(
        partition_by=(runs.c.cluster, runs.c.namespace_uid),
        order_by=(runs.c.closed_at.desc(), runs.c.id.desc()),
    )
    ended = select(runs.c.id, place.label("place")).where(runs.c.closed_at.is_not(None), *mine).subquery()
    beyond = oldest.join(ended, ended.c.id == runs.c.id).where(ended.c.place > limits.runs)
    return [row.id for row in await store.rows(beyond)]


async def _remove(
    store: HistoryStore,
    numbers: Sequence[int],
    cause: TombstoneCause,
    now: datetime,
    *conditions: ColumnElement[bool],
) -> int:
    """Deletes the runs that still meet the conditions; a tombstone keeps each from being recorded again."""
    statement = delete(runs).where(runs.c.id.in_(numbers), *conditions)
    identity = (runs.c.cluster, runs.c.namespace, runs.c.uid)

    def remove(connection: Connection) -> int:
        deleted = connection.execute(statement.returning(*identity))
        gone = [{**row._mapping, "at": now, "cause": cause.value} for row in deleted]
        if gone:
            connection.execute(insert(tombstones), gone)
        return len(gone)

    return await store.write(remove)
