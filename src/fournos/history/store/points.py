"""The statement of the newest points of series.  Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, FromClause, Select, Table, and_, func, literal, not_, or_, select

from fournos.history.store.schema import Time, labels, result_records, runs, series
from fournos.history.store.text import indexed
from fournos.systems.jobs.names import CONFIRMS_LABEL


def newest_points(
    table: Table,
    column: ColumnElement[Any],
    conditions: Iterable[ColumnElement[bool]],
    namespaces: tuple[str, ...] | None,
    newest: int,
    *,
    cluster: str = "",
) -> Select[Any]:
    """Selects the newest points of all wanted series at once, the newest first in each series.

    `namespaces` and `cluster`: as in `Results`.

    A point is a value of the last attempt whose test and job succeeded.  The time of the last point that
    counts is looked up for each series by the index, so that no older one is read.  Points of that very time
    may exceed `newest`.
    """
    older = table.alias()
    last = (
        _successful(select(older.c.at), older, namespaces, cluster)
        .where(older.c.series == series.c.id)
        .order_by(older.c.at.desc(), older.c.record_id.desc())
        .offset(newest - 1)
        .limit(1)
        .scalar_subquery()
    )
    # Materialized: else SQLite would look the time up again for each point.
    since = select(series, last.label("since")).where(*conditions).cte("since").prefix_with("MATERIALIZED")
    points = select(
        since,
        runs.c.cluster,
        runs.c.namespace,
        runs.c.uid,
        table.c.at,
        labels.c.value.label("confirms"),
        column.label("measured"),
    ).select_from(since.join(table, and_(table.c.series == since.c.id, table.c.at >= _or_any(since.c.since))))
    confirms = and_(labels.c.run_id == runs.c.id, labels.c.name == CONFIRMS_LABEL)
    return (
        _successful(points, table, namespaces, cluster)
        .join(labels, confirms, isouter=True)
        .order_by(since.c.id, table.c.at.desc(), table.c.record_id.desc())
    )


def _or_any(since: ColumnElement[Any]) -> ColumnElement[Any]:
    """The time, or one before all others for a series that has fewer points."""
    return func.coalesce(since, literal(datetime.min.replace(tzinfo=UTC), Time()))


def of_last_attempt() -> ColumnElement[bool]:
    """The condition that a record was not measured before the last attempt of its run began.

    An attempt that was evicted, or that failed, may have pushed a part of its results.
    """
    earlier_ones = and_(runs.c.attempts > 1, runs.c.running_at.is_not(None))
    return or_(not_(earlier_ones), result_records.c.at >= runs.c.running_at)


def _successful(
    statement: Select[Any], table: FromClause, namespaces: tuple[str, ...] | None, cluster: str
) -> Select[Any]:
    """Leaves the values of a statement whose test and job succeeded, in the job's last attempt."""
    records, jobs = result_records, runs
    statement = (
        statement.join(records, records.c.id == table.c.record_id)
        .join(jobs, jobs.c.id == records.c.run_id)
        .where(records.c.success.is_(True), jobs.c.phase == "Succeeded", of_last_attempt())
    )
    if cluster:
        statement = statement.where(jobs.c.cluster == indexed(cluster))
    return statement if namespaces is None else statement.where(jobs.c.namespace_uid.in_(namespaces))
