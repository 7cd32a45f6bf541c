"""Judges the results of stored runs: those of a fingerprint, and those of a run that has ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import func, select

from fournos.history.records import Identity, Run
from fournos.history.regressions.acknowledge import Acknowledgement, covered
from fournos.history.regressions.baseline import Baseline
from fournos.history.regressions.judge import Report, judge
from fournos.history.regressions.series import Kind, Series, State
from fournos.history.store.results import Results
from fournos.history.store.results_schema import result_records
from fournos.history.store.rows import columns, run_of
from fournos.history.store.schema import runs
from fournos.history.store.store import HistoryStore
from fournos.history.store.text import indexed
from fournos.history.store.verdicts import Verdicts
from fournos.systems.jobs.names import CONFIRMS_LABEL

MOST: Final = 500
"""Benchmarks that are judged, those with the newest results."""


@dataclass(frozen=True, slots=True)
class SeriesReview:
    """The series of one fingerprint in one namespace, what was found in them, and what people decided."""

    series: list[Series]
    report: Report
    known: list[Acknowledgement]
    baseline: Baseline | None
    pinned: dict[str, float]
    """The values of the baseline by series."""

    @property
    def pinned_at(self) -> datetime | None:
        """When its baseline was pinned; None if there is none."""
        return self.baseline.at if self.baseline else None

    @property
    def covered(self) -> dict[str, Acknowledgement]:
        """Id of a finding → the acknowledgement that covers it."""
        return covered(self.report.findings, self.series, self.known, self.pinned_at)


async def review(store: HistoryStore, namespace_uid: str, fingerprint: str) -> SeriesReview:
    """Judges the series of a fingerprint by the runs of one namespace, and by its pinned baseline."""
    verdicts = Verdicts(store)
    series = await Results(store).series(fingerprint, (namespace_uid,))
    baseline, values = await verdicts.pinned_values(namespace_uid, fingerprint)
    report = await asyncio.to_thread(judge, series, values)
    known = await verdicts.acknowledged([each.id for each in series], (namespace_uid,))
    return SeriesReview(series, report, known, baseline, values)


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
    where = [result_records.c.at >= since, runs.c.fingerprint != ""]
    where += [] if namespaces is None else [runs.c.namespace_uid.in_(namespaces)]
    where += [runs.c.namespace == indexed(namespace)] if namespace else []
    where += [runs.c.cluster == indexed(cluster)] if cluster else []
    newest = (
        select(func.max(runs.c.id).label("id"), func.max(result_records.c.at).label("at"))
        .join(result_records, result_records.c.run_id == runs.c.id)
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

    Only then reruns are worth their time: not for an improvement, nor for a rerun itself.
    """
    run = await store.get(identity)
    if run is None or not _is_judged(run) or not await Results(store).of(identity):
        return False
    reviewed = await review(store, run.namespace_uid, run.fingerprint)
    return any(
        finding.run == identity.text
        and finding.kind is Kind.REGRESSION
        and finding.state is not State.REFUTED
        for finding in reviewed.report.findings
    )


def _is_judged(run: Run) -> bool:
    return run.phase == "Succeeded" and bool(run.fingerprint) and CONFIRMS_LABEL not in run.labels
