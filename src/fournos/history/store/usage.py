"""Adds up the GPU-hours of a period in the database: no run is read, however many there are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    CompoundSelect,
    Double,
    Select,
    and_,
    case,
    cast,
    func,
    literal,
    or_,
    select,
    type_coerce,
    union_all,
)

from fournos.api.kinds import FOURNOS_JOB
from fournos.history.store.schema import microseconds, runs
from fournos.history.store.store import HistoryStore
from fournos.history.store.text import indexed
from fournos.history.usage import LOCKS, SHARED, Sum, Usage, added

_HOUR: Final = 3_600_000_000.0
"""Microseconds."""


_SHARED: Final = dict(
    zip(SHARED, (runs.c.owner, runs.c.target, runs.c.project, runs.c.gpu_type), strict=True)
)


async def used(
    store: HistoryStore,
    since: datetime,
    until: datetime,
    *,
    namespaces: tuple[str, ...] | None,
    cluster: str = "",
    namespace: str = "",
    kinds: Sequence[str] = (),
) -> Usage:
    """Returns what was used from `since` to `until`.

    `namespaces` are the UIDs of those that may be read, None for all; `cluster` is the one whose runs count,
    "" for all; `namespace` is the name of one.
    """
    if namespaces == ():
        return added(())
    async with store.reading() as connection:
        statement = usage_statement(
            store.database.dialect, since, until, namespaces, namespace, kinds, cluster=cluster
        )
        rows = (await connection.execute(statement)).all()
    return added(Sum(*row) for row in rows)


def usage_statement(
    dialect: str,
    since: datetime,
    until: datetime,
    namespaces: tuple[str, ...] | None,
    namespace: str,
    kinds: Sequence[str],
    *,
    cluster: str = "",
) -> CompoundSelect[Any]:
    begin, end = (literal(microseconds(one), BigInteger) for one in (since, until))
    began = func.coalesce(runs.c.running_at, runs.c.started_at)  # as Run.ran_from
    started, ended = (type_coerce(one, BigInteger) for one in (began, runs.c.ended_at))
    first = case((started < begin, begin), else_=started)
    last = case((or_(ended.is_(None), ended > end), end), else_=ended)
    # As a floating point number: a sum of microseconds over many GPUs is beyond 64 bits.
    hours = runs.c.gpu_count * cast(last - first, Double) / _HOUR
    is_lock = case((and_(runs.c.kind == FOURNOS_JOB.kind, runs.c.pipeline == ""), 1), else_=0)
    statement = select(*_SHARED.values(), hours.label("hours"), is_lock.label("is_lock")).where(
        started < end, or_(ended.is_(None), ended > begin), first < last
    )
    statement = in_scope(statement, dialect, namespaces, namespace, kinds, cluster)
    period = statement.cte("period").prefix_with("MATERIALIZED")  # read once for all sums
    sums = [(of, column, 0) for of, column in _SHARED.items()]
    return union_all(
        *(
            select(literal(of), period.c[column.name], func.sum(period.c.hours), func.count())
            .where(period.c.is_lock == is_lock)
            .group_by(period.c[column.name])
            for of, column, is_lock in (*sums, (LOCKS, runs.c.owner, 1))
        )
    )


def in_scope(
    statement: Select[Any],
    dialect: str,
    namespaces: tuple[str, ...] | None,
    namespace: str,
    kinds: Sequence[str],
    cluster: str,
) -> Select[Any]:
    """Limits a statement to the runs that may be read and are asked for."""
    if namespaces is not None:
        statement = statement.where(runs.c.namespace_uid.in_([indexed(uid) for uid in namespaces]))
    if cluster:
        # Nearly all runs are of one cluster, as of one kind.
        statement = statement.where(runs.c.cluster == indexed(cluster))
    if namespace:
        statement = statement.where(runs.c.namespace == indexed(namespace))
    if kinds:
        # Nearly all runs are of one kind: the index of the period leaves fewer.
        statement = statement.where(runs.c.kind.in_([indexed(kind) for kind in kinds]))
    return statement
