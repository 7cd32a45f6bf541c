"""One schedule: its times, its fires and its jobs; trigger, suspend and resume."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from fournos.api.kinds import FOURNOS_SCHEDULE
from fournos.api.phase import Phase
from fournos.client.schedules import AsyncSchedule
from fournos.engine.kube.resource import Key, Obj, key_of
from fournos.insight import schedules
from fournos.insight.errors import FournosError
from fournos.insight.schedule_manifests import moment_of
from fournos.insight.selection import cluster_of
from fournos.insight.values import created, is_terminal, name_of, phase_of, spec_of
from fournos.systems.schedules.names import SCHEDULE_LABEL
from fournos.web.recorded_namespaces import RUNS as RECORDED
from fournos.web.routes import Action, Call, Done, Page
from fournos.web.runs.parts import part
from fournos.web.runs.schedule_kpis import ScheduleKpis, schedule_kpis
from fournos.web.written import Written

JOBS: Final = 20
RUNS: Final = 100
"""The newest runs whose KPIs are shown."""
_FRESH: Final = 30.0
"""Seconds for which KPIs are shown before they are read again; a job that ends has them read at once."""
_PATIENCE: Final = 1.0
"""Seconds that the page waits for the history; later KPIs are in its next rendering."""


def _key(call: Call) -> Key:
    return Key(call.site.jobs_namespace or call.viewer.client.namespace, call.path["name"])


async def gather(call: Call) -> Mapping[str, Any]:
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


PAGE: Final = Page(
    name="schedule",
    title="Schedule",
    path="/schedules/{name}",
    gather=gather,
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
