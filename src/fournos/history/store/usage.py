"""Adds up the GPU-hours of a period, and how long runs took: no run is read, however many there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from statistics import median
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    CompoundSelect,
    Connection,
    Double,
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
from fournos.api.phase import RUNS
from fournos.history.estimates import MAX_RUNS, MIN_RUNS, Typical
from fournos.history.records import Ending, Run, Scope
from fournos.history.store.rows import indexed, within
from fournos.history.store.runs import HistoryStore
from fournos.history.store.schema import microseconds, runs
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
    scope: Scope,
    namespace: str = "",
    *,
    kinds: Sequence[str] = (),
) -> Usage:
    """Returns what was used from `since` to `until`; `namespace` is the name of one, "" for all."""
    if scope.namespaces == ():
        return added(())
    statement = usage_statement(since, until, scope, namespace, kinds)
    return added(Sum(*row) for row in await store.rows(statement))


def usage_statement(
    since: datetime, until: datetime, scope: Scope, namespace: str, kinds: Sequence[str]
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
    statement = statement.where(*within(scope))
    if namespace:
        statement = statement.where(runs.c.namespace == indexed(namespace))
    if kinds:
        # Nearly all runs are of one kind: the index of the period leaves fewer.
        statement = statement.where(runs.c.kind.in_([indexed(kind) for kind in kinds]))
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


_SECOND = 1_000_000
"""Microseconds."""


async def typical(store: HistoryStore, jobs: list[Run]) -> list[Typical]:
    """Returns how long runs of the kind of each job took: the closest kind of which there are enough.

    A job is compared with runs of its own namespace alone: an estimate shows nothing of others.
    """
    by_kind = {_kind(job): job for job in jobs}
    found = await store.read(
        lambda connection: {kind: _durations(connection, job) for kind, job in by_kind.items()}
    )
    return [_typical(job, found[_kind(job)]) for job in jobs]


def _typical(job: Run, seconds: tuple[float, ...]) -> Typical:
    since = job.ran_from if job.phase in RUNS else None
    who = (job.name, job.identity.namespace, job.identity.uid, since)
    return Typical(*who, median(seconds), len(seconds)) if seconds else Typical(*who)


def _kind(job: Run) -> tuple[object, ...]:
    return (
        job.namespace_uid,
        job.fingerprint,
        job.pipeline,
        job.project,
        job.gpu_type,
        job.gpu_count,
    )


def _durations(connection: Connection, job: Run) -> tuple[float, ...]:
    # Failed runs count: they occupy a cluster, too.  Clocks differ, so that a duration can be negative.
    begun = type_coerce(func.coalesce(runs.c.running_at, runs.c.started_at, runs.c.admitted_at), BigInteger)
    length = type_coerce(runs.c.ended_at, BigInteger) - begun
    for kind in _kinds(job):
        statement = select(length).where(
            *kind,
            runs.c.namespace_uid == indexed(job.namespace_uid),
            runs.c.kind == FOURNOS_JOB.kind,
            # The end of a run whose object was deleted unseen is the time of that finding.
            runs.c.ending == Ending.OBSERVED.value,
            length >= 0,
        )
        newest = statement.order_by(runs.c.submitted_at.desc(), runs.c.id.desc()).limit(MAX_RUNS)
        seconds = tuple(float(one) / _SECOND for one in connection.scalars(newest))
        if len(seconds) >= MIN_RUNS:
            return seconds
    return ()


def _kinds(job: Run) -> Iterator[tuple[ColumnElement[bool], ...]]:
    """Yields the conditions of comparable runs, the closest first.

    A waiting job has no cluster yet, and the class of the cluster is a part of the fingerprint.
    """
    if job.fingerprint:
        yield (runs.c.fingerprint == indexed(job.fingerprint),)
    of_pipeline = runs.c.pipeline == indexed(job.pipeline)
    if job.pipeline and job.project:
        yield (
            of_pipeline,
            runs.c.project == indexed(job.project),
            runs.c.gpu_type == indexed(job.gpu_type),
            runs.c.gpu_count == job.gpu_count,
        )
    if job.pipeline:
        yield (of_pipeline,)
