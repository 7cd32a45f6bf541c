"""GPU-hours of a period, by owner, cluster, project and GPU type.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from fournos.history.fingerprint import fingerprint
from fournos.history.records import Run
from fournos.insight.values import moment, spec_of, status_of
from fournos.kube.resource import Obj


@dataclass(frozen=True, slots=True)
class Use:
    """The GPUs that one run had."""

    owner: str
    cluster: str
    project: str
    gpu_type: str
    gpus: int
    start: datetime
    end: datetime | None
    """None: it still runs."""


@dataclass(frozen=True, slots=True)
class Share:
    """A part of the usage."""

    name: str
    """"" for runs that name none."""
    hours: float
    """GPU-hours."""
    runs: int


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of a period; the largest share first."""

    hours: float
    runs: int
    owners: tuple[Share, ...]
    clusters: tuple[Share, ...]
    projects: tuple[Share, ...]
    gpu_types: tuple[Share, ...]


def usage(found: Iterable[Use], since: datetime, until: datetime) -> Usage:
    """Adds up what was used from `since` to `until`; a run counts with the time within."""
    counted = [(one, hours) for one in found if (hours := _hours(one, since, until)) is not None]
    return Usage(
        sum(hours for _, hours in counted),
        len(counted),
        _shares(counted, lambda one: one.owner),
        _shares(counted, lambda one: one.cluster),
        _shares(counted, lambda one: one.project),
        _shares(counted, lambda one: one.gpu_type),
    )


def _hours(one: Use, since: datetime, until: datetime) -> float | None:
    """The GPU-hours within the period; None if the run lies outside of it."""
    start, end = max(one.start, since), min(one.end or until, until)
    return one.gpus * (end - start).total_seconds() / 3600 if start < end else None


def _shares(counted: list[tuple[Use, float]], name: Callable[[Use], str]) -> tuple[Share, ...]:
    hours: dict[str, float] = {}
    runs: dict[str, int] = {}
    for one, spent in counted:
        hours[name(one)] = hours.get(name(one), 0.0) + spent
        runs[name(one)] = runs.get(name(one), 0) + 1
    found = [Share(key, hours[key], runs[key]) for key in hours]
    return tuple(sorted(found, key=lambda one: (-one.hours, one.name)))


def of_run(run: Run) -> Use | None:
    """The use of a stored run; None if it has not started."""
    if run.started_at is None:
        return None
    return Use(run.owner, run.target, run.project, run.gpu_type, run.gpu_count, run.started_at, run.ended_at)


def of_job(job: Obj) -> Use | None:
    """The use of a FournosJob that is not gone; None if it has not started."""
    times = status_of(job).get("phaseTimes") or {}
    start = moment(times.get("running"))
    if start is None:
        return None
    what = fingerprint(spec_of(job), status_of(job).get("resolved"))
    return Use(
        str(spec_of(job).get("owner") or ""),
        str(status_of(job).get("cluster") or ""),
        what.project,
        what.gpu_type,
        what.gpu_count,
        start,
        moment(times.get("finished")),
    )
