"""Looks regularly for what changed in the results of all fingerprints, and reports it as metrics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Final

from sqlalchemy import func, select

from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.metrics import Metrics
from fournos.history.alerts.announce import Announcer
from fournos.history.alerts.due import Judged
from fournos.history.metrics import report_changes
from fournos.history.regressions.standing import RECENT, Standing, standing
from fournos.history.store.errors import StoreUnavailableError
from fournos.history.store.results_schema import result_records
from fournos.history.store.review import review
from fournos.history.store.schema import labels, runs
from fournos.history.store.store import HistoryStore
from fournos.history.store.text import indexed
from fournos.history.store.verdicts import Verdicts
from fournos.systems.jobs.names import CONFIRMS_LABEL

log = logging.getLogger(__name__)

INTERVAL: Final = 300.0
"""Seconds between two looks."""
UNKNOWN: Final = 1.0
"""Seconds between two looks for the UID of the cluster."""
WATCHED: Final = 6 * RECENT
"""Fingerprints without results for this time are not judged: they are not run any more."""
MOST: Final = 500
"""Fingerprints that are judged, those with the newest results."""


async def watch_results(
    opened: Callable[[], Awaitable[HistoryStore]],
    metrics: Metrics,
    clock: Clock,
    announcers: Sequence[Announcer] = (),
    *,
    cluster: Callable[[], str],
    interval: float = INTERVAL,
) -> None:
    """Sets the metrics of changes, and announces them, until cancelled.

    `opened()` returns the store of the leader: a standby announces nothing.  `cluster()` returns the UID of
    the own cluster, "" while it is not known.  A database may have the runs of several clusters: the recorder
    of each judges its own.
    """
    store = await opened()
    while True:
        if not (own := cluster()):
            await asyncio.sleep(min(interval, UNKNOWN))
            continue
        try:
            report_changes(metrics, await standings(store, clock.now(), announcers, cluster=own))
            for announcer in announcers:
                await announcer.announce(store)
        except StoreUnavailableError as error:
            log.warning("results are not judged now: %s", error)
        await asyncio.sleep(interval)


async def standings(
    store: HistoryStore, now: datetime, announcers: Sequence[Announcer] = (), *, cluster: str
) -> dict[str, list[Standing]]:
    """Returns what there is to tell of each fingerprint of a cluster, by the name of its namespace."""
    by_namespace: dict[str, list[Standing]] = {}
    under_way = await _under_way(store)
    for namespace, uid, fingerprint in await _fingerprints(store, cluster, now - WATCHED):
        judged = await _judged(store, namespace, uid, fingerprint)
        by_namespace.setdefault(namespace, []).append(
            standing(judged.series, judged.report, judged.known, under_way, now, pinned_at=judged.pinned_at)
        )
        for announcer in announcers:
            await announcer.look(store, judged)
    return by_namespace


async def _judged(store: HistoryStore, namespace: str, namespace_uid: str, fingerprint: str) -> Judged:
    reviewed = await review(store, namespace_uid, fingerprint)
    names = [one.id for one in reviewed.series]
    known = await Verdicts(store).acknowledged(names, (namespace_uid,))
    return Judged(
        namespace, namespace_uid, fingerprint, reviewed.series, reviewed.report, known, reviewed.pinned_at
    )


async def _fingerprints(store: HistoryStore, cluster: str, since: datetime) -> list[tuple[str, str, str]]:
    """Namespace, its UID and fingerprint of the cluster's series with results since then."""
    newest = func.max(result_records.c.at)
    where = (runs.c.namespace, runs.c.namespace_uid, runs.c.fingerprint)
    statement = (
        select(*where)
        .join(result_records, result_records.c.run_id == runs.c.id)
        .where(runs.c.cluster == indexed(cluster), result_records.c.at >= since, runs.c.fingerprint != "")
        .group_by(*where)
        .order_by(newest.desc(), *where)
        .limit(MOST)
    )
    async with store.reading() as connection:
        return [(row[0], row[1], row[2]) for row in (await connection.execute(statement)).all()]


async def _under_way(store: HistoryStore) -> frozenset[str]:
    """The runs, as texts, that have reruns which have not ended."""
    statement = (
        select(runs.c.cluster, runs.c.namespace, labels.c.value)
        .join(labels, labels.c.run_id == runs.c.id)
        .where(labels.c.name == CONFIRMS_LABEL, runs.c.closed_at.is_(None))
    )
    async with store.reading() as connection:
        rows = (await connection.execute(statement)).all()
    return frozenset(f"{cluster}/{namespace}/{uid}" for cluster, namespace, uid in rows)
