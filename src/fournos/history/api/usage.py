"""The routes of usage: GPU-hours of a period, added up over the runs that the caller may read."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from pydantic import Field

from fournos.api.kinds import FOURNOS_JOB
from fournos.history.api.routes import Access, ApiCall, BadRequestError, Route, Scoped, Texts, Time
from fournos.history.store.usage import used
from fournos.history.usage import Usage

if TYPE_CHECKING:
    from fournos.history.api.service import HistoryService

PERIOD: Final = timedelta(days=7)


class Period(Scoped):
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
        namespaces=call.scope.namespaces,
        cluster=call.scope.cluster,
        namespace=call.namespace,
        kinds=asked.kind,
    )


ROUTES: Final = (
    Route("GET", "/usage", "getUsage", Access("list", "usage"), get_usage, Usage, Period),
    Route(
        "GET",
        "/namespaces/{namespace}/usage",
        "getNamespacedUsage",
        Access("list", "usage"),
        get_usage,
        Usage,
        Period,
    ),
)
