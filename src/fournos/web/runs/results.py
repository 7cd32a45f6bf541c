"""What a run measured: each KPI with its course over comparable runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from fournos.history.api.comparisons import Trends
from fournos.history.records import uid_in
from fournos.history.regressions.change_points import relative
from fournos.history.regressions.series import Point, Series
from fournos.history.results.models import Kpi, Test, series_id
from fournos.insight.values import number
from fournos.web.charts import Plot, PlotLine, sparkline
from fournos.web.runs.subject import compare_address, trends_address

SHOWN: Final = 40
"""Runs up to this one that are drawn."""


@dataclass(frozen=True, slots=True)
class KpiCourse:
    """How a KPI of a run came about."""

    before: str
    """The change from the comparable run before it, and that run's value; "" for the first one."""
    baseline: str
    """The change from the baseline; "" without one, and for the baseline itself."""
    state: str
    """How the series stands, or what began with this run; "" for an earlier run of a steady series."""
    line: Markup
    trend: str
    """The address of its trend."""


@dataclass(frozen=True, slots=True)
class Courses:
    """How the KPIs of a run came about."""

    by_series: Mapping[str, KpiCourse]
    fingerprint: str
    compare_before: str = ""
    """The address of the comparison with the run before; "" for the first one."""
    compare_baseline: str = ""

    def of(self, record: Test, kpi: Kpi) -> KpiCourse | None:
        return self.by_series.get(series_id(self.fingerprint, record, kpi))


NOTHING: Final = Courses({}, "")


def courses(trends: Trends | None, run: str, namespace: str) -> Courses:
    """Returns the courses of a run, by its identity as text; nothing without trends."""
    if trends is None:
        return NOTHING
    pinned = trends.baseline.run.identity.text if trends.baseline else ""
    placed = [
        (series, place)
        for series in trends.series
        for place, point in enumerate(series.points)
        if point.run == run
    ]
    before = next((series.points[place - 1].run for series, place in placed if place), "")
    return Courses(
        {series.id: _course(trends, series, place, pinned, namespace) for series, place in placed},
        trends.run.fingerprint,
        _comparison(namespace, before, run),
        _comparison(namespace, pinned if pinned != run else "", run),
    )


def _course(trends: Trends, series: Series, place: int, pinned: str, namespace: str) -> KpiCourse:
    here = series.points[place]
    shown = series.points[max(0, place + 1 - SHOWN) : place + 1]
    begun = ", ".join(
        f"{finding.kind} {finding.state.lower()}"
        for finding in trends.report.findings
        if (finding.series, finding.run) == (series.id, here.run)
    )
    is_newest = place == len(series.points) - 1
    return KpiCourse(
        _change(series.points[place - 1].value if place else None, here, series.unit),
        _change(trends.baseline_values.get(series.id) if pinned != here.run else None, here, series.unit),
        trends.state_of(series) if is_newest else begun,
        sparkline(series.kpi_id, [point.value for point in shown], series.unit),
        trends_address(namespace, uid_in(here.run), series.kpi_id),
    )


def _change(before: float | None, here: Point, unit: str) -> str:
    if before is None:
        return ""
    change = relative(before, here.value)
    return "from 0" if change is None else f"{change:+.1%} from {number(before)} {unit}".rstrip()


def _comparison(namespace: str, reference: str, run: str) -> str:
    return compare_address(*(f"{namespace}/{uid_in(each)}" for each in (reference, run))) if reference else ""


# --- curves ---------------------------------------------------------------------------------------


MOST: Final = 50
"""Tests that are shown; further ones are counted."""


def curve(kpi: Kpi) -> Plot:
    title = kpi.name or kpi.kpi_id
    return Plot(title, [PlotLine(title, kpi.values)], x_title=kpi.x_unit or kpi.x_help, y_title=kpi.y_unit)
