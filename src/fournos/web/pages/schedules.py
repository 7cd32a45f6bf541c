"""Schedules: the list, and each one with its times and its jobs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from fournos.api.kinds import FOURNOS_SCHEDULE
from fournos.client.schedules import AsyncSchedule
from fournos.insight import schedules
from fournos.insight.errors import FournosError, NoSuchResourceError
from fournos.insight.jobs import cluster_of
from fournos.insight.schedule_manifests import moment_of
from fournos.insight.values import Key, Obj, created, name_of, phase_of
from fournos.web.site import Action, Call, Done, Page, Written

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


def _key(call: Call) -> Key:
    return Key(call.site.jobs_namespace or call.viewer.client.namespace, call.path["name"])


async def gather_schedule(call: Call) -> Mapping[str, Any]:
    source, key = call.viewer.source, _key(call)
    schedule = await source.get(FOURNOS_SCHEDULE, key)
    jobs = await schedules.jobs_of(source, schedule)
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
        "namespace": key.namespace,
        "suspended": schedules.is_suspended(schedule, call.now),
        "may": await call.viewer.rights.may("patch", FOURNOS_SCHEDULE, key.namespace, name=key.name),
        "commands": {verb: f"fournos schedule {verb} {words}" for verb in ("suspend", "trigger")},
        "command": f"fournos schedule get {words}",
    }


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
