"""The route that compares runs."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pydantic import Field

from fournos.history.api.authorization import Access
from fournos.history.api.left_out import FINGERPRINT, recorded_fingerprint, runs_left_out
from fournos.history.api.parameters import Scoped, Text, Texts
from fournos.history.api.routes import ApiCall, Route
from fournos.history.api.runs import named
from fournos.history.compare.comparison import Comparison, compare
from fournos.history.compare.differences import ComparedRun, origin_of
from fournos.history.records import Document, Run

if TYPE_CHECKING:
    from fournos.history.api.service import HistoryService

MOST: Final = 20
"""Runs of one comparison."""


class With(Scoped):
    """The runs to which one is compared."""

    kind: Text = Field("", description="Kind, where runs of several kinds have these names.")
    with_: Texts = Field((), alias="with", max_length=MOST - 1, description="Name or UID of another run.")
    across: bool = Field(False, description="Judge also runs of different fingerprints.")


async def compare_runs(service: HistoryService, call: ApiCall) -> Comparison:
    """Compares the run of the path, which is the reference, with the others, all of one namespace.

    What differs in their specs and provenance is content of their documents, and takes the right to these.
    """
    asked: With = call.parameters
    runs = [await named(service, call, name) for name in (call.path["run"], *asked.with_)]
    subjects = [await _subject(service, run) for run in runs]
    earlier = await (await service.results()).earlier(
        runs[0].fingerprint,
        call.scope.namespaces,
        cluster=call.scope.cluster,
        without=[run.identity for run in runs],
    )
    comparison = await asyncio.to_thread(compare, subjects, earlier, across=asked.across)
    without = [run.fingerprint for run in runs]
    others = await runs_left_out(service, runs[0], call.scope.cluster, without=without)
    comparison = replace(comparison, left_out=others)
    return comparison if all(map(call.details.includes, runs)) else comparison.without_documents()


async def _subject(service: HistoryService, run: Run) -> ComparedRun:
    store = await service.store()
    job = await store.document(run.identity, Document.OBJECT) or {}
    provenance = dict(await store.document(run.identity, Document.PROVENANCE) or {})
    recorded = provenance.pop(FINGERPRINT, None)
    return ComparedRun(
        name=run.name,
        fingerprint=recorded_fingerprint(recorded, job),
        records=await (await service.results()).of(run.identity, last_attempt=True),
        spec=job.get("spec") or {},
        provenance=provenance,
        hardware={"cluster": run.target} if run.target else {},
        schedule=origin_of(job),
    )


ROUTES: Final = (
    Route(
        "GET",
        "/namespaces/{namespace}/runs/{run}/results/comparison",
        "compareRuns",
        Access("get", "runs/results"),
        compare_runs,
        Comparison,
        With,
        details=Access("get", "runs/documents"),
    ),
)
