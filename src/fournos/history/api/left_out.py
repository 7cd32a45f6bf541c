"""Reads the runs of the same spec that are not compared with a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from fournos.history.compare.differences import LeftOut, OtherRuns, left_out
from fournos.history.fingerprint import Fingerprint, fingerprint
from fournos.history.records import PAGE_MAX, Document, Query, Run

if TYPE_CHECKING:
    from fournos.history.api.service import HistoryService

MOST: Final = 10
"""Other fingerprints that are looked at, those with the newest runs first."""
FINGERPRINT: Final = "fingerprint"
"""The key of the fingerprint in the provenance."""


async def runs_left_out(
    service: HistoryService, run: Run, cluster: str, *, without: Collection[str] = ()
) -> tuple[LeftOut, ...]:
    """Returns the runs of the same spec among the newest of the same Pipeline in the namespace.

    `cluster`: as in `Query.in_cluster`; `without`: fingerprints that are shown anyway.
    """
    if not run.fingerprint:
        return ()
    store = await service.store()
    query = Query(
        (run.namespace_uid,),
        in_cluster=cluster,
        kinds=(run.kind,),
        phases=("Succeeded",),
        pipelines=(run.pipeline,),
        limit=PAGE_MAX,
    )
    by_fingerprint: dict[str, list[Run]] = {}
    for one in (await store.find(query)).runs:
        if one.fingerprint and one.fingerprint not in (run.fingerprint, *without):
            by_fingerprint.setdefault(one.fingerprint, []).append(one)
    if not by_fingerprint:
        return ()
    mine, spec = await _recorded(service, run)
    others = [
        OtherRuns(len(runs), runs[0].name, runs[0].identity.uid, *await _recorded(service, runs[0]))
        for runs in islice(by_fingerprint.values(), MOST)
    ]
    return left_out(mine, spec, others)


async def _recorded(service: HistoryService, run: Run) -> tuple[Fingerprint, Mapping[str, Any]]:
    store = await service.store()
    job = await store.document(run.identity, Document.OBJECT) or {}
    provenance = await store.document(run.identity, Document.PROVENANCE) or {}
    return recorded_fingerprint(provenance.get(FINGERPRINT), job), job.get("spec") or {}


def recorded_fingerprint(recorded: Any, job: Mapping[str, Any]) -> Fingerprint:
    """The fingerprint as it was recorded with the cluster of that time, else that of the job alone."""
    if isinstance(recorded, Mapping):
        return Fingerprint(**{**recorded, "args": tuple(recorded.get("args") or ())})
    return fingerprint(job.get("spec") or {}, (job.get("status") or {}).get("resolved"))
