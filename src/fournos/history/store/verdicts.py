"""What people decided on results, what the program finds in them, and the regular look at all of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from functools import partial
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select

from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.metrics import Metrics
from fournos.history.alerts.announce import Announcer
from fournos.history.metrics import SKIPPED, report_changes
from fournos.history.records import Identity, Run, Scope
from fournos.history.regressions.judge import JUDGED, judge
from fournos.history.regressions.review import (
    WATCHED,
    Acknowledgement,
    Baseline,
    SeriesReview,
    Standing,
    baseline_values,
    standing,
)
from fournos.history.regressions.series import Kind, SeriesState
from fournos.history.store.database import INSERT, StoreUnavailableError
from fournos.history.store.results import Results
from fournos.history.store.rows import columns, indexed, message, run_of, within
from fournos.history.store.runs import HistoryStore, number_of
from fournos.history.store.schema import acknowledgements, baselines, keeps, labels, runs, tests
from fournos.history.store.schema import series as series_table
from fournos.systems.jobs.names import CONFIRMS_LABEL


class Verdicts:
    """Baselines and acknowledgements in a store."""

    def __init__(self, store: HistoryStore) -> None:
        self._store = store

    async def pin(self, identity: Identity, *, by: str, reason: str, now: datetime) -> bool:
        """Makes a run the baseline of its fingerprint in its namespace, and keeps it from expiring.

        False: there is no such run, or it has no fingerprint.
        """
        statement = select(runs.c.id, runs.c.namespace_uid, runs.c.fingerprint)

        def put(connection: Connection) -> bool:
            run = connection.execute(statement.where(runs.c.id == number_of(identity))).first()
            if run is None or not run.fingerprint:
                return False
            place = {"namespace_uid": run.namespace_uid, "fingerprint": run.fingerprint}
            connection.execute(delete(baselines).where(*(baselines.c[k] == v for k, v in place.items())))
            row = {"run_id": run.id, "at": now, "by": indexed(by), "reason": message(reason)}
            connection.execute(insert(baselines).values({**place, **row}))
            # A baseline that is replaced stays kept: a person decides when it may go.  An earlier mark stays.
            mark = {**row, "reason": message(f"baseline: {reason}")}
            keep = INSERT[connection.dialect.name](keeps).values(mark)
            connection.execute(keep.on_conflict_do_nothing(index_elements=["run_id"]))
            return True

        return await self._store.write(put)

    async def unpin(self, identity: Identity) -> bool:
        """Ends that a run is the baseline; its keep mark stays.  False: it is none."""
        statement = delete(baselines).where(baselines.c.run_id == number_of(identity))
        return bool(await self._store.execute(statement))

    async def baseline(self, namespace_uid: str, fingerprint: str) -> Baseline | None:
        pinned = await self.baselines(
            baselines.c.namespace_uid == indexed(namespace_uid),
            baselines.c.fingerprint == indexed(fingerprint),
        )
        return pinned[0] if pinned else None

    async def pinned(self, scope: Scope, namespace: str = "") -> list[Baseline]:
        """Returns the baselines of a namespace, or of all that the caller may read; the newest first."""
        named = [runs.c.namespace == indexed(namespace)] if namespace else []
        return await self.baselines(*within(scope), *named)

    async def pinned_values(
        self, namespace_uid: str, fingerprint: str
    ) -> tuple[Baseline | None, dict[str, float]]:
        """Returns the baseline of a fingerprint, and its values by series, those of its last attempt."""
        pinned = await self.baseline(namespace_uid, fingerprint)
        records = await Results(self._store).of(pinned.run.identity, last_attempt=True) if pinned else ()
        return pinned, baseline_values(fingerprint, records)

    async def baselines(self, *where: ColumnElement[bool]) -> list[Baseline]:
        statement = (
            select(*columns(self._store.database.dialect), baselines.c.at, baselines.c.by, baselines.c.reason)
            .select_from(runs.join(baselines, runs.c.id == baselines.c.run_id))
            .where(*where)
            .order_by(baselines.c.at.desc(), runs.c.id.desc())
        )
        return [Baseline(run_of(row[:-3]), *row[-3:]) for row in await self._store.rows(statement)]

    async def acknowledge(self, namespace_uid: str, *made: Acknowledgement) -> None:
        """Stores acknowledgements; one of the same place in the same series is replaced."""
        table = acknowledgements
        rows: list[dict[str, Any]] = [
            {
                "namespace_uid": indexed(namespace_uid),
                "series": indexed(acknowledgement.series),
                "run": indexed(acknowledgement.run),
                "at": acknowledgement.at,
                "rises": acknowledgement.rises,
                "reason": message(acknowledgement.reason),
                "by": indexed(acknowledgement.by),
                "made_at": acknowledgement.made_at,
            }
            for acknowledgement in made
        ]
        place = ("namespace_uid", "series", "run", "rises")

        def put(connection: Connection) -> None:
            for row in rows:
                connection.execute(delete(table).where(*(table.c[name] == row[name] for name in place)))
            connection.execute(insert(table), rows)

        if rows:
            await self._store.write(put)

    async def withdraw(self, scope: Scope, namespace: str, uid: str, kpi_id: str = "") -> int:
        """Deletes the acknowledgements of changes that began with a run, and returns their number.

        The run is named by its namespace and UID, because its row may be gone.
        """
        table = acknowledgements
        where = [table.c.run.endswith(f"/{indexed(namespace)}/{indexed(uid)}", autoescape=True)]
        if kpi_id:
            ids = select(series_table.c.id).where(series_table.c.kpi_id == indexed(kpi_id))
            where.append(table.c.series.in_(ids))
        return await self._store.execute(delete(table).where(*where, *_acknowledged_within(scope)))

    async def acknowledged(self, fingerprint: str, scope: Scope) -> list[Acknowledgement]:
        """Returns the acknowledgements of all series of a fingerprint, the oldest first."""
        names = select(series_table.c.id).where(series_table.c.fingerprint == indexed(fingerprint))
        table = acknowledgements
        of_series = select(table).where(table.c.series.in_(names), *_acknowledged_within(scope))
        statement = of_series.order_by(table.c.made_at, table.c.id)
        return [
            Acknowledgement(row.series, row.run, row.at, row.rises, row.reason, row.by, row.made_at)
            for row in await self._store.rows(statement)
        ]


def _acknowledged_within(scope: Scope) -> list[ColumnElement[bool]]:
    """Returns the conditions of the acknowledgements of changes that began with a run, which may be gone."""
    conditions: list[ColumnElement[bool]] = []
    if scope.namespaces is not None:
        conditions.append(acknowledgements.c.namespace_uid.in_(scope.namespaces))
    if scope.cluster:
        of_cluster = acknowledgements.c.run.startswith(f"{indexed(scope.cluster)}/", autoescape=True)
        conditions.append(of_cluster)
    return conditions


MOST: Final = 500
"""Benchmarks of one list."""
OF_EACH: Final = 200
"""Benchmarks of each namespace that are judged, those with the newest runs."""


async def review(
    store: HistoryStore,
    run: Run,
    scope: Scope,
    *,
    kpi: str = "",
    newest: int = JUDGED,
) -> SeriesReview:
    """Judges the series of a run's fingerprint by its newest runs, and by its pinned baseline.

    `scope`: whose runs count; `kpi`: "" for all.
    """
    verdicts = Verdicts(store)
    series = await Results(store).series(run.fingerprint, scope, kpi_id=kpi, newest=newest)
    baseline, values = await verdicts.pinned_values(run.namespace_uid, run.fingerprint)
    report = await asyncio.to_thread(judge, series, values)
    acknowledgements = await verdicts.acknowledged(run.fingerprint, scope)
    return SeriesReview(run, series, report, acknowledgements, baseline, values)


async def review_in_its_namespace(store: HistoryStore, run: Run) -> SeriesReview:
    """Judges the run by all runs of its namespace; counts and announcements use this review."""
    return await review(store, run, Scope((run.namespace_uid,)))


async def newest_runs(
    store: HistoryStore,
    since: datetime,
    scope: Scope,
    namespace: str = "",
    *,
    owners: Iterable[str] = (),
    most: int | None = None,
) -> list[Run]:
    """Returns the newest run of each benchmark with results that were submitted since, the newest first.

    A benchmark is a fingerprint in a namespace; of each namespace there are OF_EACH at most.  The times are
    the API server's, so that no author crowds others out.  `namespace` is a name, "" for all; `owners` are
    those of the newest runs, none for all; `most`: None for all.
    """
    measured = select(tests.c.run_id).where(tests.c.run_id == runs.c.id).exists()
    where = [runs.c.submitted_at >= since, runs.c.fingerprint != "", measured, *within(scope)]
    where += [runs.c.namespace == indexed(namespace)] if namespace else []
    benchmark = (runs.c.namespace_uid, runs.c.fingerprint)
    newest = (
        select(runs.c.namespace_uid, func.max(runs.c.id).label("id"))
        .where(*where)
        .group_by(*benchmark)
        .subquery()
    )
    place = func.row_number().over(partition_by=newest.c.namespace_uid, order_by=newest.c.id.desc())
    placed = select(newest.c.id, place.label("place")).subquery()
    statement = (
        select(*columns(store.database.dialect))
        .select_from(runs.join(placed, placed.c.id == runs.c.id))
        .where(placed.c.place <= OF_EACH)
        .order_by(runs.c.submitted_at.desc(), runs.c.id.desc())
        .limit(most)
    )
    if wanted := list(map(indexed, owners)):
        statement = statement.where(runs.c.owner.in_(wanted))
    return [run_of(row) for row in await store.rows(statement)]


async def suspects_regression(store: HistoryStore, identity: Identity) -> bool:
    """True if the newest results of this run are worse than the noise of earlier ones.

    Reruns are made only then: not for an improvement, and not for a rerun itself.
    """
    run = await store.get(identity)
    if run is None or not _is_judged(run) or not await Results(store).of(identity):
        return False
    reviewed = await review_in_its_namespace(store, run)
    return any(
        finding.run == identity.text
        and finding.kind is Kind.REGRESSION
        and finding.state is not SeriesState.REFUTED
        for finding in reviewed.report.findings
    )


def _is_judged(run: Run) -> bool:
    return run.phase == "Succeeded" and bool(run.fingerprint) and CONFIRMS_LABEL not in run.labels


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
            skipped = partial(metrics.add, SKIPPED)
            found = await standings(store, clock.now(), announcer, cluster=own, skipped=skipped)
            report_changes(metrics, found)
            if announcer is not None:
                await announcer.announce(store, skipped)
        except StoreUnavailableError as error:
            log.warning("results are not judged now: %s", error)
        await asyncio.sleep(interval)


async def standings(
    store: HistoryStore,
    now: datetime,
    announcer: Announcer | None = None,
    *,
    cluster: str,
    skipped: Callable[[str], None] = lambda task: None,
) -> dict[str, list[Standing]]:
    """Returns what there is to tell of each fingerprint of a cluster, by the name of its namespace.

    One that cannot be judged takes no other with it: `skipped` is called.
    """
    by_namespace: dict[str, list[Standing]] = {}
    under_way = await _under_way(store)
    for run in await newest_runs(store, now - WATCHED, Scope(None, cluster)):
        try:
            reviewed = await review_in_its_namespace(store, run)
            stands = standing(reviewed, under_way, now)
            if announcer is not None:
                await announcer.look(store, reviewed)
        except StoreUnavailableError:
            raise
        except Exception:
            log.exception("the benchmark of the run %s is not judged", run.identity.text)
            skipped("judge")
            continue
        by_namespace.setdefault(run.identity.namespace, []).append(stands)
    return by_namespace


async def _under_way(store: HistoryStore) -> frozenset[str]:
    """The runs, as texts, that have reruns which have not ended."""
    statement = (
        select(runs.c.cluster, runs.c.namespace, labels.c.value)
        .join(labels, labels.c.run_id == runs.c.id)
        .where(labels.c.name == CONFIRMS_LABEL, runs.c.closed_at.is_(None))
    )
    rows = await store.rows(statement)
    return frozenset(f"{cluster}/{namespace}/{uid}" for cluster, namespace, uid in rows)
