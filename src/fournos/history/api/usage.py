"""The routes of usage: GPU-hours of a period, added up over the runs that the caller may read."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from pydantic import Field

from fournos.api.kinds import FOURNOS_JOB
from fournos.history.api.errors import BadRequestError
from fournos.history.api.identity import Access
from fournos.history.api.parameters import Scoped, Texts, Time
from fournos.history.api.routes import ApiCall, Route
from fournos.history.store.usage import used
from fournos.history.store.waited import waited
from fournos.history.usage import Usage, part, periods
from fournos.history.waited import added_waits

if TYPE_CHECKING:
    from fournos.history.api.service import HistoryService

PERIOD: Final = timedelta(days=7)


class Period(Scoped):
    """The period; a run counts with the time within, a running one until now."""

    since: Time | None = Field(None, description="Begin (RFC 3339); without it, seven days before the end.")
    until: Time | None = Field(None, description="End (RFC 3339), now at the latest.")
    parts: int = Field(0, ge=0, le=100, description="Also the usage of so many equal parts of the period.")
    kind: Texts = Field((FOURNOS_JOB.kind,), description="Kind of the object, such as FournosJob.")


async def get_usage(service: HistoryService, call: ApiCall) -> Usage:
    asked: Period = call.parameters
    now = service.now()
    until = min(asked.until or now, now)
    since = asked.since or until - PERIOD
    if since >= until:
        raise BadRequestError("since: must be before until, which is now at the latest")
    store, scope = await service.store(), call.scope

    which: Final[Any] = {
        "namespaces": scope.namespaces,
        "cluster": scope.cluster,
        "namespace": call.namespace,
        "kinds": asked.kind,
    }
    waits = await waited(store, since, until, parts=max(1, asked.parts), **which)
    parts = [
        part(*period, replace(await used(store, *period, **which), waits=waits_of_part))
        for period, waits_of_part in zip(periods(since, until, asked.parts), waits, strict=False)
    ]
    total = await used(store, since, until, **which)
    return replace(total, parts=tuple(parts), waits=added_waits(chain.from_iterable(waits)))


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
