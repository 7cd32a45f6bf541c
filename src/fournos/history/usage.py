"""GPU-hours of a period, by owner, cluster, project and GPU type.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, NamedTuple

from fournos.api.phase import run_times
from fournos.engine.kube.resource import Obj
from fournos.history.fingerprint import fingerprint
from fournos.history.records import api_row
from fournos.history.waited import Waited, added_waits
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
class UsagePart:
    """What was used in a part of the period."""

    since: datetime
    until: datetime
    owners: tuple[Share, ...] = ()
    clusters: tuple[Share, ...] = ()
    waits: tuple[Waited, ...] = ()
    """How long the runs that were submitted in it waited."""
    locks: tuple[Share, ...] = ()
    """What locks held, by owner."""

    def gpus(self, shares: Iterable[Share]) -> float:
        """The GPUs that these shares of the part had on average."""
        return sum(share.hours for share in shares) / ((self.until - self.since).total_seconds() / 3600)


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
    parts: tuple[UsagePart, ...] = ()
    """The same by time, the oldest first, where it was asked for."""
    waits: tuple[Waited, ...] = ()
    """How long the runs that were submitted in the period waited: for all causes together, then for each."""
    locks: tuple[Share, ...] = ()
    """The GPU-hours that locks held clusters, by owner; they are in none of the others."""


class Sum(NamedTuple):
    """A part of the sum of one share."""

    of: str
    """What is shared: owners, clusters, projects or gpu_types; LOCKS for what locks held."""
    name: str
    hours: float
    runs: int


def periods(since: datetime, until: datetime, count: int) -> list[tuple[datetime, datetime]]:
    """Divides a period into `count` equal ones, the oldest first."""
    length = (until - since) / max(1, count)
    return [(since + number * length, since + (number + 1) * length) for number in range(count)]


def part(since: datetime, until: datetime, used: Usage) -> UsagePart:
    """Returns the usage of a part of a period as such."""
    return UsagePart(since, until, used.owners, used.clusters, used.waits, used.locks)


def usage(uses: Iterable[Use], since: datetime, until: datetime, *, parts: int = 0) -> Usage:
    """Adds up what was used from `since` to `until`; a run counts with the time within."""
    uses = list(uses)
    by_time = tuple(part(begin, end, usage(uses, begin, end)) for begin, end in periods(since, until, parts))
    total = added(
        Sum(of, name, hours, 1)
        for one in uses
        if (hours := _hours(one, since, until)) is not None
        for of, name in zip(SHARED, (one.owner, one.cluster, one.project, one.gpu_type), strict=True)
    )
    return replace(total, parts=by_time)


def together(usages: Iterable[Usage]) -> Usage:
    """Adds up the usage of several namespaces in one period."""
    usages = list(usages)
    by_time = tuple(map(joined, zip(*(each.parts for each in usages), strict=True)))
    waits = added_waits(waited for each in usages for waited in each.waits)
    return replace(added(_sums(usages, (*SHARED, LOCKS))), parts=by_time, waits=waits)


def joined(parts: Sequence[UsagePart]) -> UsagePart:
    """Adds up parts of one time, or of times that follow each other."""
    waits = added_waits(waited for each in parts for waited in each.waits)
    total = replace(added(_sums(parts, ("owners", "clusters", LOCKS))), waits=waits)
    return part(parts[0].since, parts[-1].until, total)


def _sums(used: Iterable[Usage] | Iterable[UsagePart], shared: Iterable[str]) -> Iterator[Sum]:
    for each in used:
        for of in shared:
            for share in getattr(each, of):
                yield Sum(of, share.name, share.hours, share.runs)


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
