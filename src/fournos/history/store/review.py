"""Judges the results of stored runs: those of a fingerprint, and those of a run that has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from sqlalchemy import func, select

from fournos.history.records import Identity, Run
from fournos.history.regressions.judge import JUDGED, judge
from fournos.history.regressions.review import SeriesReview
from fournos.history.regressions.series import Kind, SeriesState
from fournos.history.store.results import Results
from fournos.history.store.rows import columns, run_of
from fournos.history.store.schema import runs, tests
from fournos.history.store.store import HistoryStore
from fournos.history.store.text import indexed
from fournos.history.store.verdicts import Verdicts
from fournos.systems.jobs.names import CONFIRMS_LABEL

MOST: Final = 500
"""Benchmarks that are judged, those with the newest results."""


async def review(
    store: HistoryStore,
    run: Run,
    namespaces: tuple[str, ...] | None,
    *,
    cluster: str = "",
    kpi: str = "",
    newest: int = JUDGED,
) -> SeriesReview:
    """Judges the series of a run's fingerprint by its newest runs, and by its pinned baseline.

    `namespaces` and `cluster`: as in `Results`; `kpi`: "" for all.
    """
    verdicts = Verdicts(store)
    series = await Results(store).series(
        run.fingerprint, namespaces, cluster=cluster, kpi_id=kpi, newest=newest
    )
    baseline, values = await verdicts.pinned_values(run.namespace_uid, run.fingerprint)
    report = await asyncio.to_thread(judge, series, values)
    acknowledgements = await verdicts.acknowledged([each.id for each in series], namespaces, cluster=cluster)
    return SeriesReview(run, series, report, acknowledgements, baseline, values)


async def review_in_its_namespace(store: HistoryStore, run: Run) -> SeriesReview:
    """Judges the run by all runs of its namespace; counts and announcements use this review."""
    return await review(store, run, (run.namespace_uid,))


async def newest_runs(
    store: HistoryStore,
    since: datetime,
    namespaces: tuple[str, ...] | None = None,
    namespace: str = "",
    *,
    cluster: str = "",
    owners: Iterable[str] = (),
    most: int = MOST,
) -> list[Run]:
    """Returns the newest run of each benchmark that has results since then, the newest results first.

    A benchmark is a fingerprint in a namespace.  `namespaces` and `cluster`: as in `Results`; `namespace` is
    a name.  `owners` are those of the newest runs, none for all.
    """
    where = [tests.c.at >= since, runs.c.fingerprint != ""]
    where += [] if namespaces is None else [runs.c.namespace_uid.in_(namespaces)]
    where += [runs.c.namespace == indexed(namespace)] if namespace else []
    where += [runs.c.cluster == indexed(cluster)] if cluster else []
    newest = (
        select(func.max(runs.c.id).label("id"), func.max(tests.c.at).label("at"))
        .join(tests, tests.c.run_id == runs.c.id)
        .where(*where)
        .group_by(runs.c.namespace_uid, runs.c.fingerprint)
        .subquery()
    )
    statement = (
        select(*columns(store.database.dialect))
        .select_from(runs.join(newest, newest.c.id == runs.c.id))
        .order_by(newest.c.at.desc(), runs.c.id.desc())
        .limit(most)
    )
    if wanted := list(map(indexed, owners)):
        statement = statement.where(runs.c.owner.in_(wanted))
    async with store.reading() as connection:
        return [run_of(row) for row in (await connection.execute(statement)).all()]


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
