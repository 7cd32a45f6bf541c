"""The KPIs of a run over the runs that can be compared with it: change points, baseline, acknowledgements."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fournos.history.api.comparisons import Trends
from fournos.history.records import uid_in
from fournos.history.regressions.change_points import band
from fournos.history.regressions.review import Acknowledgement, is_open
from fournos.history.regressions.series import Finding, Kind, Point, Series, labels_text, size
from fournos.insight.values import count, number
from fournos.web.charts import Plot, PlotBand, PlotLine, PlotMark, PlotRun
from fournos.web.errors import PageError
from fournos.web.rights import RUNS as RECORDED
from fournos.web.runs.subject import address
from fournos.web.site import Action, Call, Done, Page

MOST: Final = 40
"""Series that are shown; further ones are counted."""


@dataclass(frozen=True, slots=True)
class TrendChange:
    """A change of a KPI, with what is known about it."""

    finding: Finding
    name: str
    """The run with which it began; "" if it is no longer known."""
    uid: str
    text: str
    acknowledged: Acknowledgement | None
    recovered: str
    """The run with which it ended; "" while it has not."""

    @property
    def kind(self) -> str:
        return self.finding.kind.value

    @property
    def is_open(self) -> bool:
        """True for a regression that asks for somebody."""
        return self.finding.kind is Kind.REGRESSION and is_open(self.finding, self.acknowledged)


@dataclass(frozen=True, slots=True)
class Trend:
    """One series."""

    kpi: str
    labels: str
    newest: Point
    unit: str
    higher_is_better: bool | None
    state: str
    """Steady, or its open change; and why its newest run has no verdict."""
    plot: Plot
    changes: Sequence[TrendChange]


def trend_rows(trends: Trends) -> tuple[list[Trend], int]:
    """The series, those with changes first, and how many more there are."""
    changes = [_change(finding, trends) for finding in trends.report.findings]
    rows = [
        _trend(series, [change for change in changes if change.finding.series == series.id], trends)
        for series in trends.series
        if series.points
    ]
    rows.sort(key=lambda row: (_weight(row.changes), row.kpi, row.labels))
    return rows[:MOST], max(0, len(rows) - MOST)


def _weight(changes: Sequence[TrendChange]) -> int:
    """Returns the key to sort by: open regressions first, then other changes."""
    if any(one.is_open for one in changes):
        return 0
    return 1 if changes else 2


def _change(finding: Finding, trends: Trends) -> TrendChange:
    text = f"{number(finding.before)} → {number(finding.after)} {finding.unit}".strip()
    return TrendChange(
        finding,
        trends.names.get(finding.run, ""),
        uid_in(finding.run),
        f"{finding.kind} {finding.state.lower()} ({finding.basis}): {size(finding)}, {text}",
        trends.acknowledged.get(finding.id),
        trends.names.get(finding.recovered, "a later run") if finding.recovered else "",
    )


def _run(point: Point, trends: Trends) -> PlotRun:
    _, namespace, uid = point.run.split("/", 2)
    name, version = trends.names.get(point.run, uid), trends.versions.get(point.run, "")
    title = f"{name} ({version})" if version else name
    return PlotRun(title, address(namespace, name, uid=uid))


def _trend(series: Series, changes: Sequence[TrendChange], trends: Trends) -> Trend:
    points = series.points
    places = {point.run: place for place, point in enumerate(points)}
    placed = [change for change in changes if change.finding.run in places]
    since = max((places[change.finding.run] for change in placed), default=0)
    level = [point.value for point in points[since:]]
    noise = band(level)
    labels = labels_text(series.labels)
    plot = Plot(
        f"{series.kpi_id} of {count(len(points), 'run')}, times in UTC",
        [PlotLine(series.kpi_id, [(float(place), point.value) for place, point in enumerate(points)])],
        y_title=series.unit,
        band=PlotBand(noise.low, noise.high) if noise else None,
        marks=[PlotMark(float(places[change.finding.run]), change.kind, change.text) for change in placed],
        labels=[f"{point.at:%Y-%m-%d %H:%M}" for point in points],
        runs=[_run(point, trends) for point in points],
        baseline=trends.baseline_values.get(series.id),
    )
    better, state = series.higher_is_better, trends.state_of(series)
    return Trend(series.kpi_id, labels, points[-1], series.unit, better, state, plot, changes)


# --- the page -------------------------------------------------------------------------------------


async def gather(call: Call) -> Mapping[str, Any]:
    namespace, name = call.path["namespace"], call.path["name"]
    kpi, may = call.query.get("kpi", "").strip()[:200], call.viewer.rights.may
    history = call.viewer.client.history
    trends, pins, unpins, acknowledges, withdraws = await asyncio.gather(
        history.trends(name, kpi=kpi, namespace=namespace),
        may("update", RECORDED, namespace, subresource="baseline"),
        may("delete", RECORDED, namespace, subresource="baseline"),
        may("create", RECORDED, namespace, subresource="acknowledgements"),
        may("delete", RECORDED, namespace, subresource="acknowledgements"),
    )
    rows, more = trend_rows(trends)
    run = trends.run
    return {
        "found": trends,
        "run": run,
        "namespace": namespace,
        "link": address(namespace, run.name, uid=run.identity.uid),
        "here": f"/trends/{namespace}/{run.identity.uid}",
        "kpi": kpi,
        "rows": rows,
        "more": more,
        "pinned": trends.baseline is not None and trends.baseline.run.identity == run.identity,
        "pins": pins,
        "unpins": unpins,
        "acknowledges": acknowledges,
        "withdraws": withdraws,
    }


def _here(call: Call) -> str:
    return f"/trends/{call.path['namespace']}/{call.path['name']}"


async def pin(call: Call, form: Mapping[str, str]) -> Done:
    history, namespace = call.viewer.client.history, call.path["namespace"]
    run = (await history.run(call.path["name"], namespace=namespace)).run
    await history.pin(run, reason=form.get("reason", "").strip()[:1024])
    return Done(_here(call), f"{run.name} is the baseline: fournos baseline pin -n {namespace} {run.name}")


async def unpin(call: Call, form: Mapping[str, str]) -> Done:
    history = call.viewer.client.history
    run = (await history.run(call.path["name"], namespace=call.path["namespace"])).run
    await history.unpin(run)
    return Done(_here(call), f"{run.name} is no longer the baseline.")


async def acknowledge(call: Call, form: Mapping[str, str]) -> Done:
    reason, run = form.get("reason", "").strip(), form.get("run", "")
    if not reason:
        raise PageError(422, "A reason is needed", "It is shown with the change.", "Go back and write one.")
    acknowledged = await call.viewer.client.history.acknowledge(
        run, reason[:1024], kpi=form.get("kpi", ""), namespace=call.path["namespace"]
    )
    return Done(_here(call), f"Acknowledged: {len(acknowledged)} changed KPIs.")


async def withdraw(call: Call, form: Mapping[str, str]) -> Done:
    await call.viewer.client.history.withdraw(
        form.get("run", ""), kpi=form.get("kpi", ""), namespace=call.path["namespace"]
    )
    return Done(_here(call), "The acknowledgement is withdrawn.")


PAGE: Final = Page(
    name="trends",
    title="Trends",
    path="/trends/{namespace}/{name}",
    gather=gather,
    in_nav=False,
    under="/benchmarks",
    shared=False,
    command="fournos trend -n {namespace} {name}",
)
ACTIONS: Final = tuple(
    Action(name=f"{act.__name__} trend", path=f"/trends/{{namespace}}/{{name}}/{act.__name__}", act=act)
    for act in (pin, unpin, acknowledge, withdraw)
)
