"""GPU-hours of a period, by owner, cluster, project and GPU type.  Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

from fournos.history.records import api_row

SHARED: Final = ("owners", "clusters", "projects", "gpu_types")
"""What shares of the usage are by."""
LOCKS: Final = "locks"


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
