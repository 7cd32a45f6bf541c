"""Looks regularly for what changed in the results of all fingerprints, and reports it as metrics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Final

from sqlalchemy import select

from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.metrics import Metrics
from fournos.history.alerts.announce import Announcer
from fournos.history.metrics import report_changes
from fournos.history.regressions.review import WATCHED, Standing, standing
from fournos.history.store.errors import StoreUnavailableError
from fournos.history.store.review import newest_runs, review_in_its_namespace
from fournos.history.store.schema import labels, runs
from fournos.history.store.store import HistoryStore
from fournos.systems.jobs.names import CONFIRMS_LABEL

log = logging.getLogger(__name__)

INTERVAL: Final = 300.0
"""Seconds between two looks."""
UNKNOWN: Final = 1.0
"""Seconds between two looks for the UID of the cluster."""


async def watch_results(
    opened: Callable[[], Awaitable[HistoryStore]],
    metrics: Metrics,
    clock: Clock,
    announcer: Announcer | None = None,
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
            report_changes(metrics, await standings(store, clock.now(), announcer, cluster=own))
            if announcer is not None:
                await announcer.announce(store)
        except StoreUnavailableError as error:
            log.warning("results are not judged now: %s", error)
        await asyncio.sleep(interval)


async def standings(
    store: HistoryStore, now: datetime, announcer: Announcer | None = None, *, cluster: str
) -> dict[str, list[Standing]]:
    """Returns what there is to tell of each fingerprint of a cluster, by the name of its namespace."""
    by_namespace: dict[str, list[Standing]] = {}
    under_way = await _under_way(store)
    for run in await newest_runs(store, now - WATCHED, cluster=cluster):
        reviewed = await review_in_its_namespace(store, run)
        by_namespace.setdefault(run.identity.namespace, []).append(standing(reviewed, under_way, now))
        if announcer is not None:
            await announcer.look(store, reviewed)
    return by_namespace


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
