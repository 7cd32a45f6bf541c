"""The routes of usage and of estimates."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from pydantic import Field

from fournos.api.kinds import FOURNOS_JOB
from fournos.api.phase import ACTIVE
from fournos.history.api.routes import (
    Access,
    ApiCall,
    BadRequestError,
    NotFoundError,
    Route,
    everywhere_and_in_one,
)
from fournos.history.api.runs import found
from fournos.history.estimates import Typical
from fournos.history.records import PAGE_MAX, Ending, Parameters, Query, RunFilter, Texts, Time
from fournos.history.store.usage import typical, used
from fournos.history.usage import Usage

if TYPE_CHECKING:
    from fournos.history.api.service import HistoryService


PERIOD: Final = timedelta(days=7)


class Period(Parameters):
    """The period; a run counts with the time within, a running one until now."""

    since: Time | None = Field(None, description="Begin (RFC 3339); without it, seven days before the end.")
    until: Time | None = Field(None, description="End (RFC 3339), now at the latest.")
    kind: Texts = Field((FOURNOS_JOB.kind,), description="Kind of the object, such as FournosJob.")


async def get_usage(service: HistoryService, call: ApiCall) -> Usage:
    asked: Period = call.parameters
    now = service.now()
    until = min(asked.until or now, now)
    since = asked.since or until - PERIOD
    if since >= until:
        raise BadRequestError("since: must be before until, which is now at the latest")
    return await used(
        await service.store(),
        since,
        until,
        call.scope,
        call.namespace,
        kinds=asked.kind,
    )


async def list_estimates(service: HistoryService, call: ApiCall) -> list[Typical]:
    """The newest jobs of the namespace that have not ended."""
    store = await service.store()
    waiting = RunFilter(kind=(FOURNOS_JOB.kind,), phase=tuple(sorted(ACTIVE)), limit=PAGE_MAX)
    page = await store.find(Query(call.scope, call.namespace, waiting))
    return await typical(store, [run for run in page.runs if run.ending is Ending.OPEN])


async def get_estimate(service: HistoryService, call: ApiCall) -> Typical:
    run = await found(service, call)
    if run.kind != FOURNOS_JOB.kind or run.ending is not Ending.OPEN:
        raise NotFoundError(f"{run.name} is no job that waits or runs", name=run.name)
    return (await typical(await service.store(), [run]))[0]


_ALL: Final = "/namespaces/{namespace}/estimates"

ROUTES: Final = (
    *everywhere_and_in_one("/usage", "getUsage", Access("list", "usage"), get_usage, Usage, Period),
    Route("GET", _ALL, "listEstimates", Access("list", "estimates"), list_estimates, list[Typical]),
    Route("GET", _ALL + "/{run}", "getEstimate", Access("get", "estimates"), get_estimate, Typical),
)
