"""The routes of usage: GPU-hours of a period, added up over the runs that the caller may read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, Protocol

from pydantic import Field

from fournos.api.kinds import FOURNOS_JOB
from fournos.history.api.authorization import Access, Scope
from fournos.history.api.errors import BadRequestError
from fournos.history.api.parameters import Scoped, Texts, Time
from fournos.history.api.routes import Call, Route
from fournos.history.usage import Usage

PERIOD: Final = timedelta(days=7)


class Store(Protocol):
    """What of the store is needed here."""

    async def used(
        self,
        since: datetime,
        until: datetime,
        scope: Scope,
        *,
        namespace: str,
        kinds: Sequence[str],
    ) -> Usage: ...


class Service(Protocol):
    """What the handlers of this module use."""

    @property
    def store(self) -> Store: ...

    def now(self) -> datetime: ...


class Period(Scoped):
    """The period; a run counts with the time within, a running one until now."""

    since: Time | None = Field(None, description="Begin (RFC 3339); without it, seven days before the end.")
    until: Time | None = Field(None, description="End (RFC 3339), now at the latest.")
    kind: Texts = Field((FOURNOS_JOB.kind,), description="Kind of the object, such as FournosJob.")


async def get_usage(service: Service, call: Call) -> Usage:
    asked: Period = call.parameters
    now = service.now()
    until = min(asked.until or now, now)
    since = asked.since or until - PERIOD
    if since >= until:
        raise BadRequestError("since: must be before until, which is now at the latest")
    return await service.store.used(since, until, call.scope, namespace=call.namespace, kinds=asked.kind)


ROUTES: Final = (
    Route("GET", "/usage", "getUsage",
          "GPU-hours by owner, cluster, project and GPU type, in all namespaces that the caller may read",
          Access("list", "usage"), get_usage, Usage, Period, tag="usage"),
    Route("GET", "/namespaces/{namespace}/usage", "getNamespacedUsage",
          "GPU-hours of a namespace by owner, cluster, project and GPU type",
          Access("list", "usage"), get_usage, Usage, Period, tag="usage"),
)  # fmt: skip
