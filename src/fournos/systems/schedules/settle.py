"""Ends the fires whose jobs have ended, and counts their outcomes.  Pure."""

from __future__ import annotations

from collections.abc import Iterable

from fournos.api.fournosschedule import ActiveFire, FireOutcome
from fournos.api.phase import Phase
from fournos.engine.kube.resource import Obj, uid_of
from fournos.systems.schedules import names
from fournos.systems.schedules.context import Context, phase, running, time_of

_NAMED = 3
"""The most jobs that a message names."""


def settle(ctx: Context) -> None:
    """Takes the ended fires from `status.active`."""
    for fire in ctx.draft.active:
        if fire.created:
            _settle(ctx, fire)


def _settle(ctx: Context, fire: ActiveFire) -> None:
    job_names = expected(ctx, fire)
    jobs = _of_fire(ctx.jobs, fire)
    if not job_names <= jobs.keys():
        # A job that the cache does not have may only be late in it; a deleted one is not made again.
        live = ctx.live_jobs()
        if live is None:
            return
        jobs = _of_fire(live, fire)
    if running(jobs.values()):
        return
    outcome, message = _outcome(fire, {name: phase(jobs[name]) if name in jobs else "" for name in job_names})
    ctx.draft.ended(fire, outcome, message)
    if outcome is FireOutcome.FAILED:
        ctx.draft.event("FireFailed", f"Of {names.stamp(fire.time)}: {message}", warning=True)


def expected(ctx: Context, fire: ActiveFire) -> set[str]:
    """Returns the names of the jobs that were created for a fire."""
    all_names = names.job_names(ctx.name, uid_of(ctx.obj), fire.time, fire.jobs)
    return {name for number, name in enumerate(all_names) if number not in fire.refused}


def _of_fire(jobs: Iterable[Obj], fire: ActiveFire) -> dict[str, Obj]:
    """Returns the jobs of a fire by name, with the reruns that confirm their results."""
    stamp = names.stamp(fire.time)
    return {job["metadata"]["name"]: job for job in jobs if time_of(job) == stamp}


def _outcome(fire: ActiveFire, phases: dict[str, str]) -> tuple[FireOutcome, str]:
    failed = sorted(name for name, found in phases.items() if found == Phase.FAILED)
    stopped = sorted(name for name, found in phases.items() if found == Phase.STOPPED)
    deleted = sorted(name for name, found in phases.items() if not found)
    parts = [
        f"{len(fire.refused)} of {fire.jobs} jobs could not be created" if fire.refused else "",
        _listed("failed", failed),
        _listed("stopped", stopped),
        _listed("deleted before it was seen to end", deleted),
    ]
    message = "; ".join(filter(None, parts))
    if failed or fire.refused:
        return FireOutcome.FAILED, message
    return (FireOutcome.STOPPED if stopped or deleted else FireOutcome.SUCCEEDED), message


def _listed(what: str, jobs: list[str]) -> str:
    if not jobs:
        return ""
    more = f" and {len(jobs) - _NAMED} more" if len(jobs) > _NAMED else ""
    return f"{what}: {', '.join(jobs[:_NAMED])}{more}"
