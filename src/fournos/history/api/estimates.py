"""The routes of estimates: how long jobs have run, and how long runs of their kind take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from fournos.api.kinds import FOURNOS_JOB
from fournos.api.phase import ACTIVE
from fournos.history.api.routes import Access, ApiCall, NotFoundError, Route
from fournos.history.api.runs import found
from fournos.history.estimates import Typical
from fournos.history.records import PAGE_MAX, Ending, Query
from fournos.history.store.durations import typical

if TYPE_CHECKING:
    from fournos.history.api.service import HistoryService


async def list_estimates(service: HistoryService, call: ApiCall) -> list[Typical]:
    """The newest jobs of the namespace that have not ended."""
    store = await service.store()
    query = Query(
        namespaces=call.scope.namespaces,
        in_cluster=call.scope.cluster,
        namespace=call.namespace,
        kinds=(FOURNOS_JOB.kind,),
        phases=tuple(sorted(ACTIVE)),
        limit=PAGE_MAX,
    )
    page = await store.find(query)
    return await typical(store, [run for run in page.runs if run.ending is Ending.OPEN])


async def get_estimate(service: HistoryService, call: ApiCall) -> Typical:
    run = await found(service, call)
    if run.kind != FOURNOS_JOB.kind or run.ending is not Ending.OPEN:
        raise NotFoundError(f"{run.name} is no job that waits or runs", name=run.name)
    return (await typical(await service.store(), [run]))[0]


_ALL: Final = "/namespaces/{namespace}/estimates"

ROUTES: Final = (
    Route("GET", _ALL, "listEstimates", Access("list", "estimates"), list_estimates, list[Typical]),
    Route("GET", _ALL + "/{run}", "getEstimate", Access("get", "estimates"), get_estimate, Typical),
)
