"""The routes of what people decide on results: baselines, and acknowledgements of changes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import Field

from fournos.history.api.comparisons import Trends, trends_of
from fournos.history.api.routes import (
    Access,
    ApiCall,
    InvalidError,
    NoParameters,
    NotFoundError,
    Route,
    everywhere_and_in_one,
)
from fournos.history.api.runs import UID, Keep, Which, found
from fournos.history.records import Parameters, Scope, Text, api_row, uid_in
from fournos.history.regressions.review import Acknowledgement, Baseline, near
from fournos.history.regressions.series import SeriesState

if TYPE_CHECKING:
    from fournos.history.api.service import HistoryService


@api_row
@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Why a change of KPIs is as it should be."""

    reason: Annotated[str, Field(max_length=1024)]


@api_row
@dataclass(frozen=True, slots=True)
class Acknowledged:
    """An acknowledgement with the names of what it is about."""

    kpi_id: str
    labels: dict[str, str]
    run: str
    """The name of the run with which the change began; its UID when the run is no longer known."""
    rises: bool
    """True for a change to higher values."""
    at: datetime
    """The time of that run."""
    reason: str
    by: str
    made_at: datetime


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """What a withdrawal took away."""

    number: int
    """Acknowledgements."""


class KpiFilter(Parameters):
    """Which KPIs are meant."""

    kpi: Text = Field("", description="Only this KPI.")


class RunKpi(Which, KpiFilter):
    """Which run and which of its KPIs are meant."""


async def pin(service: HistoryService, call: ApiCall) -> Baseline:
    run, mark = await found(service, call), call.body
    verdicts = await service.verdicts()
    now = service.now()
    if not await verdicts.pin(run.identity, by=call.user.name, reason=mark.reason, now=now):
        raise InvalidError(f"{run.name} has no fingerprint, so no run can be compared with it")
    return Baseline(run, now, call.user.name, mark.reason)


async def unpin(service: HistoryService, call: ApiCall) -> None:
    run = await found(service, call)
    if not await (await service.verdicts()).unpin(run.identity):
        raise NotFoundError(f"{run.name} is not a baseline", name=run.name)


async def list_baselines(service: HistoryService, call: ApiCall) -> list[Baseline]:
    verdicts = await service.verdicts()
    return await verdicts.pinned(call.scope, call.namespace)


async def acknowledge(service: HistoryService, call: ApiCall) -> tuple[Acknowledged, ...]:
    """Acknowledges all changes that began with the run, or a run or two from it."""
    given: Acknowledge = call.body
    run = await found(service, call)
    trends = await trends_of(service, run, kpi=call.parameters.kpi)
    changes = [finding for finding in trends.report.findings if finding.state is not SeriesState.REFUTED]
    meant = near(changes, trends.series, run.identity.text)
    if not meant:
        others = sorted({trends.names.get(finding.run, finding.run) for finding in changes})
        which = f"; changes began with {', '.join(others)}" if others else ""
        raise InvalidError(f"no change of a KPI began with {run.name}{which}")
    try:
        made = [Acknowledgement.of(finding, given.reason, call.user.name, service.now()) for finding in meant]
    except ValueError as error:
        raise InvalidError(f"reason: {error}") from None
    await (await service.verdicts()).acknowledge(run.namespace_uid, *made)
    return _shown(trends, made)


async def list_acknowledgements(service: HistoryService, call: ApiCall) -> tuple[Acknowledged, ...]:
    run = await found(service, call)
    trends = await trends_of(service, run, kpi=call.parameters.kpi)
    verdicts = await service.verdicts()
    shown = {series.id for series in trends.series}
    every = await verdicts.acknowledged(run.fingerprint, Scope((run.namespace_uid,)))
    acknowledgements = [one for one in every if one.series in shown]
    names = await (await service.results()).names({one.run for one in acknowledgements})
    return _shown(trends, acknowledgements, names)


async def withdraw(service: HistoryService, call: ApiCall) -> Withdrawn:
    """Withdraws what was acknowledged of a run; by its UID also when its row is gone."""
    asked = call.path["run"]
    uid = asked if UID.fullmatch(asked) else (await found(service, call)).identity.uid
    verdicts = await service.verdicts()
    number = await verdicts.withdraw(call.scope, call.namespace, uid, call.parameters.kpi)
    if not number:
        raise NotFoundError(f"no change is acknowledged of {asked}", name=asked)
    return Withdrawn(number)


def _shown(
    trends: Trends, acknowledgements: list[Acknowledgement], names: dict[str, str] | None = None
) -> tuple[Acknowledged, ...]:
    by_id, run_names = {series.id: series for series in trends.series}, trends.names | (names or {})
    return tuple(
        Acknowledged(
            by_id[acknowledgement.series].kpi_id,
            dict(by_id[acknowledgement.series].labels),
            run_names.get(acknowledgement.run) or uid_in(acknowledgement.run),
            acknowledgement.rises,
            acknowledgement.at,
            acknowledgement.reason,
            acknowledgement.by,
            acknowledgement.made_at,
        )
        for acknowledgement in acknowledgements
    )


_BASELINE: Final = "/namespaces/{namespace}/runs/{run}/baseline"
_RUN: Final = "/namespaces/{namespace}/runs/{run}/acknowledgements"

ROUTES: Final = (
    *everywhere_and_in_one(
        "/baselines",
        "listBaselines",
        Access("list", "baselines"),
        list_baselines,
        list[Baseline],
        NoParameters,
    ),
    Route("PUT", _BASELINE, "pinBaseline", Access("update", "runs/baseline"), pin, Baseline, Which, Keep),
    Route("DELETE", _BASELINE, "unpinBaseline", Access("delete", "runs/baseline"), unpin, None, Which),
    Route(
        "GET",
        _RUN,
        "listAcknowledgements",
        Access("get", "runs/acknowledgements"),
        list_acknowledgements,
        tuple[Acknowledged, ...],
        RunKpi,
    ),
    Route(
        "POST",
        _RUN,
        "acknowledge",
        Access("create", "runs/acknowledgements"),
        acknowledge,
        tuple[Acknowledged, ...],
        RunKpi,
        Acknowledge,
    ),
    Route(
        "DELETE",
        _RUN,
        "withdrawAcknowledgements",
        Access("delete", "runs/acknowledgements"),
        withdraw,
        Withdrawn,
        RunKpi,
    ),
)
