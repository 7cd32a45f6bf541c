"""Adds up the GPU-hours of a period in the database: no run is read, however many there are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import BigInteger, Double, Select, case, cast, func, literal, or_, select, type_coerce

from fournos.history.store.schema import microseconds, runs
from fournos.history.store.store import Store
from fournos.history.store.text import indexed
from fournos.history.usage import Part

_HOUR: Final = 3_600_000_000.0
"""Microseconds."""


async def used(
    store: Store,
    since: datetime,
    until: datetime,
    *,
    namespaces: tuple[str, ...] | None,
    namespace: str = "",
    kinds: Sequence[str] = (),
) -> list[Part]:
    """Returns what was used from `since` to `until`, one part for each owner, cluster, project and GPU type.

    `namespaces` are the UIDs of those that may be read, None for all; `namespace` is the name of one.
    """
    if namespaces == ():
        return []
    async with store.reading() as connection:
        rows = (await connection.execute(_statement(since, until, namespaces, namespace, kinds))).all()
    return [Part(row.owner, row.target, row.project, row.gpu_type, row.hours, row.runs) for row in rows]


def _statement(
    since: datetime,
    until: datetime,
    namespaces: tuple[str, ...] | None,
    namespace: str,
    kinds: Sequence[str],
) -> Select[Any]:
    begin, end = (literal(microseconds(one), BigInteger) for one in (since, until))
    started, ended = (type_coerce(one, BigInteger) for one in (runs.c.started_at, runs.c.ended_at))
    first = case((started < begin, begin), else_=started)
    last = case((or_(ended.is_(None), ended > end), end), else_=ended)
    # As a floating point number: a sum of microseconds over many GPUs is beyond 64 bits.
    hours = func.sum(runs.c.gpu_count * cast(last - first, Double) / _HOUR)
    parts = (runs.c.owner, runs.c.target, runs.c.project, runs.c.gpu_type)
    statement = (
        select(*parts, hours.label("hours"), func.count().label("runs"))
        .where(started < end, or_(ended.is_(None), ended > begin), first < last)
        .group_by(*parts)
    )
    if namespaces is not None:
        statement = statement.where(runs.c.namespace_uid.in_([indexed(one) for one in namespaces]))
    if namespace:
        statement = statement.where(runs.c.namespace == indexed(namespace))
    return statement.where(runs.c.kind.in_([indexed(one) for one in kinds])) if kinds else statement
