"""Reads how long runs like a job took."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from sqlalchemy import BigInteger, ColumnElement, func, select, type_coerce
from sqlalchemy.ext.asyncio import AsyncConnection

from fournos.api.kinds import FOURNOS_JOB
from fournos.api.phase import RUNS
from fournos.history.estimates import MAX_RUNS, MIN_RUNS, Typical
from fournos.history.records import Ending, Run
from fournos.history.store.schema import runs
from fournos.history.store.store import HistoryStore
from fournos.history.store.text import indexed

_SECOND = 1_000_000
"""Microseconds."""


async def typical(store: HistoryStore, jobs: list[Run]) -> list[Typical]:
    """Returns how long runs of the kind of each job took: the closest kind of which there are enough.

    A job is compared with runs of its own namespace alone: an estimate shows nothing of others.
    """
    found: dict[tuple[object, ...], tuple[float, ...]] = {}
    async with store.reading() as connection:
        for job in jobs:
            if (key := _kind(job)) not in found:
                found[key] = await _durations(connection, job)
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


async def _durations(connection: AsyncConnection, job: Run) -> tuple[float, ...]:
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
        seconds = tuple(float(one) / _SECOND for one in await connection.scalars(newest))
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
