"""Schedules: the list, and each one with its times, its jobs and what they measured."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Any, Final

from fournos.api.kinds import FOURNOS_SCHEDULE
from fournos.api.phase import Phase
from fournos.client.schedules import AsyncSchedule
from fournos.history.records import Run
from fournos.history.results.models import Kpi, RunValues, Test, is_version
from fournos.insight import schedules
from fournos.insight.errors import FournosError, NoSuchResourceError
from fournos.insight.jobs import cluster_of
from fournos.insight.schedule_manifests import moment_of
from fournos.insight.schedules import CONFIRMS_LABEL, SCHEDULE_LABEL, TIME_LABEL
from fournos.insight.values import Key, Obj, created, is_terminal, key_of, name_of, phase_of, spec_of
from fournos.web.charts import COLOURS, Plot, PlotLine, PlotRun
from fournos.web.rights import RUNS as RECORDED
from fournos.web.runs.subject import address, part
from fournos.web.site import Action, Call, Done, Page, Written

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


# --- the list -------------------------------------------------------------------------------------


async def gather(call: Call) -> Mapping[str, Any]:
    namespace = call.site.jobs_namespace or call.viewer.client.namespace
    try:
        lines = await schedules.read_lines(call.viewer.source, namespace, call.now)
    except NoSuchResourceError:
        lines = None  # an older installation
    return {"lines": lines, "namespace": namespace}


PAGE: Final = Page(
    name="schedules",
    title="Schedules",
    path="/schedules",
    gather=gather,
    watched=schedules.KINDS,
    command="fournos schedule list{jobs}",
)


# --- one schedule ---------------------------------------------------------------------------------


JOBS: Final = 20
RUNS: Final = 100
"""The newest runs whose KPIs are shown."""
_FRESH: Final = 30.0
"""Seconds for which KPIs are shown before they are read again; a job that ends has them read at once."""
_PATIENCE: Final = 1.0
"""Seconds that the page waits for the history; later KPIs are in its next rendering."""


def _key(call: Call) -> Key:
    return Key(call.site.jobs_namespace or call.viewer.client.namespace, call.path["name"])


async def gather_schedule(call: Call) -> Mapping[str, Any]:
    source, key = call.viewer.source, _key(call)
    schedule = await source.get(FOURNOS_SCHEDULE, key)
    jobs = await schedules.jobs_of(source, schedule)
    kpis = await part(_kpis(call, schedule, sum(map(is_terminal, jobs))), patience=_PATIENCE)
    words = f"-n {key.namespace} {shlex.quote(key.name)}"
    return {
        "line": schedules.line(schedule, jobs, call.now),
        "facts": schedules.facts(schedule),
        "times": _times(schedule, call),
        "jobs": [
            {
                "name": name_of(job),
                "phase": phase_of(job),
                "cluster": cluster_of(job),
                "created": created(job),
            }
            for job in jobs[:JOBS]
        ],
        "number": len(jobs),
        "kpis": kpis,
        "namespace": key.namespace,
        "suspended": schedules.is_suspended(schedule, call.now),
        "may": await call.viewer.rights.may("patch", FOURNOS_SCHEDULE, key.namespace, name=key.name),
        "commands": {verb: f"fournos schedule {verb} {words}" for verb in ("suspend", "trigger")},
        "command": f"fournos schedule get {words}",
    }


async def _kpis(call: Call, schedule: Obj, ended: int) -> ScheduleKpis:
    """Returns what its jobs measured; the values of the matrix take the right to documents."""
    key, viewer = key_of(schedule), call.viewer
    axes = tuple(spec_of(schedule).get("matrix") or {})
    may_read = await viewer.rights.may("get", RECORDED, key.namespace, subresource="documents")
    by = axes if may_read else ()

    async def read() -> ScheduleKpis:
        runs = viewer.client.history.values(
            by=by,
            limit=RUNS,
            namespace=key.namespace,
            phase=Phase.SUCCEEDED.value,
            labels={SCHEDULE_LABEL: key.name},
        )
        return schedule_kpis([run async for run in runs], by)

    return await call.site.memo.get(("schedule", viewer.name, key, by, ended), _FRESH, read)


def _times(schedule: Obj, call: Call) -> list[tuple[str, datetime]]:
    """Returns the next times with their texts; none of a schedule whose state says that it has none."""
    try:
        times = schedules.next_times(schedule, schedules.TIMES_SHOWN, call.now)
    except FournosError:
        return []
    return [(schedules.clock_text(time), time) for time in times]


SCHEDULE: Final = Page(
    name="schedule",
    title="Schedule",
    path="/schedules/{name}",
    gather=gather_schedule,
    watched=schedules.KINDS,
    in_nav=False,
    shared=False,
)


async def _handle(call: Call) -> AsyncSchedule:
    client = call.viewer.client
    return AsyncSchedule(client, await client.api.get(FOURNOS_SCHEDULE, _key(call)))


async def _suspend(call: Call, form: Mapping[str, str]) -> Done:
    schedule, until = await _handle(call), form.get("until", "").strip()
    end = moment_of(until, schedules.plan(schedule.raw).zone, call.now) if until else None
    await schedule.suspend(form.get("reason", "").strip(), until=end)
    return _done(schedule, "is suspended: it creates no jobs. What runs goes on.")


async def _resume(call: Call, _: Mapping[str, str]) -> Done:
    schedule = await _handle(call)
    await schedule.resume()
    return _done(schedule, "goes on.")


async def _trigger(call: Call, _: Mapping[str, str]) -> Done:
    schedule = await _handle(call)
    await schedule.trigger(timeout=0)
    return _done(schedule, "is asked for its jobs: they are listed here in a moment.")


def _done(schedule: AsyncSchedule, notice: str) -> Done:
    name, wrote = schedule.name, Written(FOURNOS_SCHEDULE, schedule.raw)
    return Done(f"/schedules/{name}", f"{name} {notice}", wrote)


ACTIONS: Final = (
    Action(name="suspend schedule", path="/schedules/{name}/suspend", act=_suspend),
    Action(name="resume schedule", path="/schedules/{name}/resume", act=_resume),
    Action(name="trigger schedule", path="/schedules/{name}/trigger", act=_trigger),
)
