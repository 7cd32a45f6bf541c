"""What the jobs of a schedule measured, a plot for each KPI with a line for each series.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from fournos.history.records import Run
from fournos.history.results.models import Kpi, RunValues, Test, is_version
from fournos.systems.schedules.names import CONFIRMS_LABEL, TIME_LABEL
from fournos.web.charts.plot import COLOURS, Plot, PlotLine, PlotRun
from fournos.web.runs.subject import address

MOST: Final = 12
"""KPIs that are shown; further ones are counted."""


@dataclass(frozen=True, slots=True)
class ScheduleKpis:
    """The plots of a schedule, by the names of their KPIs."""

    plots: tuple[Plot, ...] = ()
    more: int = 0
    """KPIs that are not shown."""


def schedule_kpis(runs: Iterable[RunValues], axes: Sequence[str]) -> ScheduleKpis:
    """Returns the KPIs of the runs by fire.  `axes`: the paths of the matrix, whose values name the lines.

    Reruns that confirm a result are left out: they belong to the fire whose result they repeat.
    """
    counted = [run for run in runs if TIME_LABEL in run.run.labels and CONFIRMS_LABEL not in run.run.labels]
    fires = sorted({_fire(run) for run in counted if any(test.success for test in run.tests)})
    kpis: dict[str, list[tuple[RunValues, Test, Kpi]]] = {}
    for run in counted:
        for test, kpi in run.values:
            if test.success:
                kpis.setdefault(kpi.kpi_id, []).append((run, test, kpi))
    names = sorted(kpis)
    links = _links(counted, fires)
    plots = tuple(_plot(name, kpis[name], fires, axes, links) for name in names[:MOST])
    return ScheduleKpis(plots, max(0, len(names) - MOST))


def _plot(
    name: str,
    measured: Sequence[tuple[RunValues, Test, Kpi]],
    fires: Sequence[str],
    axes: Sequence[str],
    links: Sequence[PlotRun],
) -> Plot:
    places = {fire: float(place) for place, fire in enumerate(fires)}
    lines: dict[str, dict[float, list[float]]] = {}
    for run, test, kpi in measured:
        line = lines.setdefault(_line(run, test, axes) or name, {})
        line.setdefault(places[_fire(run)], []).append(kpi.height)
    shown = sorted(lines)[:COLOURS]
    part = f", {COLOURS} of {len(lines)} series" if len(lines) > COLOURS else ""
    return Plot(
        f"{name}{part}, times in UTC",
        [
            PlotLine(line, [(place, median(values)) for place, values in sorted(lines[line].items())])
            for line in shown
        ],
        y_title=measured[0][2].unit,
        labels=[_clock(fire) for fire in fires],
        runs=links,
    )


def _line(run: RunValues, test: Test, axes: Sequence[str]) -> str:
    """Returns what the series is in the matrix and in its test; "" if there is one series alone."""
    fields = {path.removeprefix("params."): run.fields.get(path) for path in axes}
    labels = {name: text for name, text in test.all_labels.items() if not is_version(name)}
    parts = {name: text for name, text in {**fields, **labels}.items() if text is not None}
    return ", ".join(f"{name}={text}" for name, text in parts.items())


def _links(runs: Sequence[RunValues], fires: Sequence[str]) -> Sequence[PlotRun]:
    """Returns the run of each fire; none where a fire has several."""
    by_fire = {_fire(run): run.run for run in runs}
    if len(by_fire) != len(runs):
        return ()
    return [_link(by_fire[fire]) for fire in fires]


def _link(run: Run) -> PlotRun:
    return PlotRun(run.name, address(run.identity.namespace, run.name, uid=run.identity.uid))


def _fire(run: RunValues) -> str:
    return run.run.labels[TIME_LABEL]


def _clock(fire: str) -> str:
    """Returns the time that a label has, such as 202611280200, for people."""
    return f"{fire[:4]}-{fire[4:6]}-{fire[6:8]} {fire[8:10]}:{fire[10:12]}"
