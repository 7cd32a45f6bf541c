"""A ClusterQueue at a glance: its quota by flavor and resource, what is short, and who waits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Final

from fournos.engine.api.values import parse_quantity
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.resource import Key, Obj, key_of
from fournos.engine.queueing.kinds import LOCAL_QUEUE
from fournos.engine.queueing.observe import quotas_of, reserved
from fournos.insight import quota
from fournos.insight.errors import MissingError
from fournos.insight.facts import everywhere
from fournos.insight.overview import KINDS as KINDS
from fournos.insight.queue_reasons import queue_problem
from fournos.insight.queues import QueueEntry, QueueFacts, entries, gather_queue
from fournos.insight.quota import ZERO
from fournos.insight.source import Source
from fournos.insight.values import name_of, spec_of

COMPARED: Final = 100
"""The first entries of the queue whose requests are compared with the quota."""


@dataclass(frozen=True, slots=True)
class QuotaBar:
    """The quota of one resource in one flavor."""

    flavor: str
    resource: str
    used: Decimal
    nominal: Decimal
    short: int
    """The waiting Workloads that could use it and find too little of it free."""
    closed: str
    """Why the cluster of the flavor takes no jobs; "" if it does."""

    @property
    def free(self) -> Decimal:
        return max(Decimal(0), self.nominal - self.used)


@dataclass(frozen=True, slots=True)
class Board:
    """A ClusterQueue with those of its entries that are shown."""

    name: str
    queues: tuple[Key, ...]
    """The LocalQueues that lead to it."""
    problem: str
    """Why it admits nothing; "" if it works."""
    bars: tuple[QuotaBar, ...]
    """In the order of the ClusterQueue; resources without quota and use are left out."""
    entries: tuple[QueueEntry, ...]
    pending: int
    """The number of all entries."""

    @property
    def short(self) -> tuple[QuotaBar, ...]:
        """The bars that something waits for, the most wanted first."""
        return tuple(sorted((one for one in self.bars if one.short), key=lambda one: -one.short))


async def ways(source: Source, namespace: str) -> dict[str, tuple[Key, ...]]:
    """Returns ClusterQueue → the readable LocalQueues that lead to it, by name.  Raises KubeError."""
    local_queues: dict[str, list[Key]] = {}
    for one in await everywhere(source, LOCAL_QUEUE, namespace):
        local_queues.setdefault(str(spec_of(one).get("clusterQueue") or ""), []).append(key_of(one))
    return {name: tuple(sorted(local_queues[name])) for name in sorted(local_queues)}


async def read(
    source: Source, queues: tuple[Key, ...], now: datetime, *, first: int = 1, most: int = 100
) -> Board | None:
    """Reads the ClusterQueue that these LocalQueues lead to; None if it is not there or not readable."""
    try:
        found = await gather_queue(source, *queues[0])
        return board(found, queues, entries(found, now, first=first, most=most))
    except (MissingError, KubeError):
        return None


def board(facts: QueueFacts, queues: tuple[Key, ...], shown: Iterable[QueueEntry]) -> Board:
    problem, above = queue_problem(facts.base), facts.base.cluster_queue
    assert isinstance(above, Mapping), "a queue with entries has a ClusterQueue"
    return Board(
        name=name_of(above),
        queues=queues,
        problem=problem.verdict if problem else "",
        bars=bars(above, facts.base.flavors, _waiting(facts), facts.base.cohort),
        entries=tuple(shown),
        pending=len(facts.base.line),
    )


def _waiting(found: QueueFacts) -> list[Obj]:
    line = found.base.line[:COMPARED]
    workloads = found.queued.workloads
    return [workloads[one.key] for one in line if one.key in workloads]


def bars(
    cluster_queue: Obj, flavors: tuple[Obj, ...], waiting: Iterable[Obj], cohort: tuple[Obj, ...] = ()
) -> tuple[QuotaBar, ...]:
    """The quota of a ClusterQueue, and how many of the waiting Workloads find too little of each."""
    short: dict[tuple[str, str], int] = {}
    quotas = quota.Quotas(cluster_queue, flavors, cohort)
    for workload in waiting:
        for line in quotas.of(workload).lines:
            if not line.fits:
                short[line.flavor, line.resource] = short.get((line.flavor, line.resource), 0) + 1
    used, closed = reserved(cluster_queue), quota.closed_flavors(flavors)
    result = []
    for at, written in quotas_of(cluster_queue):
        nominal, taken = parse_quantity(written.get("nominalQuota") or 0), used.get(at, ZERO)
        if nominal or taken:
            result.append(QuotaBar(*at, taken, nominal, short.get(at, 0), closed.get(at[0], "")))
    return tuple(result)
