"""The route of trends: the KPIs of a run over the runs that can be compared with it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from pydantic import Field

from fournos.history.api.authorization import Access
from fournos.history.api.parameters import Parameters, Text
from fournos.history.api.routes import Call, Route
from fournos.history.api.runs import found
from fournos.history.records import Run
from fournos.history.regressions.group import group, runs_in_order
from fournos.history.regressions.judge import Report, judge
from fournos.history.regressions.series import Kind, Series, State


@dataclass(frozen=True, slots=True)
class Trends:
    """The series of all KPIs of a fingerprint, and what changed in them."""

    run: Run
    series: tuple[Series, ...]
    report: Report
    summary: tuple[str, ...]
    """One line for each group of changes that began together, the newest first."""

    @property
    def regressed(self) -> bool:
        """True if the newest run of a series is suspected or confirmed to be worse."""
        newest = {one.points[-1].run for one in self.series if one.points}
        return any(
            one.kind is Kind.REGRESSION and one.state is not State.REFUTED and one.run in newest
            for one in self.report.findings
        )


class TrendFilter(Parameters):
    """Which series are shown."""

    kind: Text = Field("", description="Kind, where runs of several kinds have this name.")
    kpi: Text = Field("", description="Only this KPI.")
    runs: int = Field(100, ge=1, le=1000, description="The newest runs of each series.")


async def get_trends(service: Any, call: Call) -> Trends:
    asked: TrendFilter = call.parameters
    run = await found(service, call)
    series = await service.store.series(
        run.fingerprint, call.scope.namespaces, kpi_id=asked.kpi, newest=asked.runs
    )
    report = await asyncio.to_thread(judge, series)
    groups = group(report.findings, runs_in_order(series))
    return Trends(run, tuple(series), report, tuple(map(str, groups)))


ROUTES: Final = (
    Route("GET", "/namespaces/{namespace}/runs/{run}/results/trends", "getTrends",
          "The KPIs of a run over the runs that can be compared with it, and what changed in them",
          Access("get", "runs/results"), get_trends, Trends, TrendFilter, tag="results"),
)  # fmt: skip
