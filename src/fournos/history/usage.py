"""GPU-hours of a period, by owner, cluster, project and GPU type.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from pydantic import ConfigDict

from fournos.history.fingerprint import fingerprint
from fournos.history.records import WIRE
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
class Part:
    """What runs of one owner, cluster, project and GPU type used."""

    owner: str
    cluster: str
    project: str
    gpu_type: str
    hours: float
    runs: int = 1


@dataclass(frozen=True, slots=True)
class Share:
    """A part of the usage."""

    __pydantic_config__: ClassVar[ConfigDict] = WIRE

    name: str
    """"" for runs that name none."""
    hours: float
    """GPU-hours."""
    runs: int


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of a period; the largest share first."""

    __pydantic_config__: ClassVar[ConfigDict] = WIRE

    hours: float
    """GPU-hours."""
    runs: int
    owners: tuple[Share, ...]
    clusters: tuple[Share, ...]
    projects: tuple[Share, ...]
    gpu_types: tuple[Share, ...]


def usage(found: Iterable[Use], since: datetime, until: datetime) -> Usage:
    """Adds up what was used from `since` to `until`; a run counts with the time within."""
    counted = ((one, _hours(one, since, until)) for one in found)
    return added(
        Part(one.owner, one.cluster, one.project, one.gpu_type, hours)
        for one, hours in counted
        if hours is not None
    )


def added(parts: Iterable[Part]) -> Usage:
    """Adds up parts, by each of their names."""
    found = list(parts)
    return Usage(
        sum(one.hours for one in found),
        sum(one.runs for one in found),
        _shares((one.owner, one.hours, one.runs) for one in found),
        _shares((one.cluster, one.hours, one.runs) for one in found),
        _shares((one.project, one.hours, one.runs) for one in found),
        _shares((one.gpu_type, one.hours, one.runs) for one in found),
    )


def together(found: Sequence[Usage]) -> Usage:
    """Adds up the usage of several namespaces."""

    def all_(shares: Callable[[Usage], tuple[Share, ...]]) -> tuple[Share, ...]:
        return _shares((one.name, one.hours, one.runs) for each in found for one in shares(each))

    return Usage(
        sum(one.hours for one in found),
        sum(one.runs for one in found),
        all_(lambda one: one.owners),
        all_(lambda one: one.clusters),
        all_(lambda one: one.projects),
        all_(lambda one: one.gpu_types),
    )


def _hours(one: Use, since: datetime, until: datetime) -> float | None:
    """The GPU-hours within the period; None if the run lies outside of it."""
    start, end = max(one.start, since), min(one.end or until, until)
    return one.gpus * (end - start).total_seconds() / 3600 if start < end else None


def _shares(parts: Iterable[tuple[str, float, int]]) -> tuple[Share, ...]:
    hours: dict[str, float] = {}
    runs: dict[str, int] = {}
    for name, spent, number in parts:
        hours[name] = hours.get(name, 0.0) + spent
        runs[name] = runs.get(name, 0) + number
    found = [Share(name, hours[name], runs[name]) for name in hours]
    return tuple(sorted(found, key=lambda one: (-one.hours, one.name)))


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
