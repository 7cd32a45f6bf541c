"""GPU-hours of a period, by owner, cluster, project and GPU type.  Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from fournos.api.phase import run_times
from fournos.engine.kube.resource import Obj
from fournos.history.fingerprint import fingerprint
from fournos.history.records import api_row
from fournos.insight.values import moment, spec_of, status_of

SHARED: Final = ("owners", "clusters", "projects", "gpu_types")
"""What shares of the usage are by."""
LOCKS: Final = "locks"


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


@api_row
@dataclass(frozen=True, slots=True)
class Share:
    """A part of the usage."""

    name: str
    """"" for runs that name none."""
    hours: float
    """GPU-hours."""
    runs: int


@api_row
@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of a period; the largest share first."""

    hours: float
    """GPU-hours."""
    runs: int
    owners: tuple[Share, ...]
    clusters: tuple[Share, ...]
    projects: tuple[Share, ...]
    gpu_types: tuple[Share, ...]
    locks: tuple[Share, ...] = ()
    """The GPU-hours that locks held clusters, by owner; they are in none of the others."""


class Sum(NamedTuple):
    """A part of the sum of one share."""

    of: str
    """What is shared: owners, clusters, projects or gpu_types; LOCKS for what locks held."""
    name: str
    hours: float
    runs: int


def usage(uses: Iterable[Use], since: datetime, until: datetime) -> Usage:
    """Adds up what was used from `since` to `until`; a run counts with the time within."""
    return added(
        Sum(of, name, hours, 1)
        for one in uses
        if (hours := _hours(one, since, until)) is not None
        for of, name in zip(SHARED, (one.owner, one.cluster, one.project, one.gpu_type), strict=True)
    )


def together(usages: Iterable[Usage]) -> Usage:
    """Adds up the usage of several namespaces in one period."""
    return added(
        Sum(of, share.name, share.hours, share.runs)
        for each in usages
        for of in (*SHARED, LOCKS)
        for share in getattr(each, of)
    )


def as_csv(used: Usage) -> str:
    """The shares as CSV: what is shared, the name, GPU-hours, runs."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("by", "name", "gpu_hours", "runs"))
    for of in (*SHARED, LOCKS):
        for share in getattr(used, of):
            writer.writerow((of, share.name, f"{share.hours:.3f}", share.runs))
    return out.getvalue()


def added(sums: Iterable[Sum]) -> Usage:
    """Adds up parts of the shares; each run counts in one share of each kind."""
    totals: dict[str, dict[str, tuple[float, int]]] = {of: {} for of in (*SHARED, LOCKS)}
    for of, name, hours, runs in sums:
        before = totals[of].get(name, (0.0, 0))
        totals[of][name] = before[0] + hours, before[1] + runs
    shares = {
        of: tuple(
            sorted(
                (Share(name, *total) for name, total in totals[of].items()),
                key=lambda share: (-share.hours, share.name),
            )
        )
        for of in totals
    }
    owners = shares["owners"]
    hours, runs = sum(share.hours for share in owners), sum(share.runs for share in owners)
    return Usage(
        hours, runs, owners, shares["clusters"], shares["projects"], shares["gpu_types"], locks=shares[LOCKS]
    )


def _hours(use: Use, since: datetime, until: datetime) -> float | None:
    """Returns the GPU-hours within the period; None if the run lies outside of it."""
    start, end = max(use.start, since), min(use.end or until, until)
    return use.gpus * (end - start).total_seconds() / 3600 if start < end else None


def of_job(job: Obj) -> Use | None:
    """The use of a FournosJob that is not gone; None if it has not started, or only holds a cluster."""
    began, ended = run_times(job)
    start = moment(began)
    if start is None or spec_of(job).get("lockOnly"):
        return None
    what = fingerprint(spec_of(job), status_of(job).get("resolved"))
    return Use(
        str(spec_of(job).get("owner") or ""),
        str(status_of(job).get("cluster") or ""),
        what.project,
        what.gpu_type,
        what.gpu_count,
        start,
        moment(ended),
    )
