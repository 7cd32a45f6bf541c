"""Judges the results of stored runs when a run has ended."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime

from fournos.history.records import Identity, Run
from fournos.history.regressions.judge import Report, judge
from fournos.history.regressions.series import Kind, Series, State
from fournos.history.store.results import Results
from fournos.history.store.store import HistoryStore
from fournos.history.store.verdicts import Verdicts
from fournos.systems.jobs.names import CONFIRMS_LABEL

REVIEWED = 200
"""The newest runs of each series that are judged."""


@dataclass(frozen=True, slots=True)
class SeriesReview:
    """The series of one fingerprint in one namespace, and what was found in them."""

    series: list[Series]
    report: Report
    pinned_at: datetime | None
    """When its baseline was pinned; None if there is none."""


async def review(store: HistoryStore, namespace_uid: str, fingerprint: str) -> SeriesReview:
    """Judges the series of a fingerprint by the runs of one namespace, and by its pinned baseline."""
    series = await Results(store).series(fingerprint, (namespace_uid,), newest=REVIEWED)
    pinned, values = await Verdicts(store).pinned_values(namespace_uid, fingerprint)
    report = await asyncio.to_thread(judge, series, values)
    return SeriesReview(series, report, pinned.at if pinned else None)


async def suspects_regression(store: HistoryStore, identity: Identity) -> bool:
    """True if the newest results of this run are worse than the noise of earlier ones.

    Only then reruns are worth their time: not for an improvement, nor for a rerun itself.
    """
    run = await store.get(identity)
    if run is None or not _is_judged(run) or not await Results(store).of(identity):
        return False
    reviewed = await review(store, run.namespace_uid, run.fingerprint)
    return any(
        one.run == identity.text and one.kind is Kind.REGRESSION and one.state is not State.REFUTED
        for one in reviewed.report.findings
    )


def _is_judged(run: Run) -> bool:
    return run.phase == "Succeeded" and bool(run.fingerprint) and CONFIRMS_LABEL not in run.labels
