"""The queue as it is: what waits in which order, what runs, and how much quota there is.  Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from fournos.engine.api.values import parse_quantity
from fournos.engine.kube.resource import Key, Obj
from fournos.engine.queueing.quotas import quotas_of
from fournos.history.estimates.durations import Durations
from fournos.insight.quota import Quota

Amounts = Mapping[str, float]
"""Resource → amount."""


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A pending object of the queue."""

    key: Key
    flavors: Mapping[str, Amounts]
    """The flavors that it may use, in the order of preference → what it asks for there.  Empty: none."""
    durations: Durations | None = None
    closed: bool = False
    """True if the clusters of all flavors that it could use take no jobs."""

    @classmethod
    def of(cls, key: Key, quota: Quota, durations: Durations | None) -> WaitingJob:
        flavors = {
            flavor: {line.resource: float(line.asks) for line in quota.of(flavor)}
            for flavor in quota.flavors
            if not quota.uncovered
        }
        return cls(key, flavors, durations, closed=not flavors and bool(quota.closed))


@dataclass(frozen=True, slots=True)
class RunningJob:
    """An object that holds quota."""

    key: Key
    flavor: str
    holds: Amounts
    elapsed: float
    """Seconds since it was admitted."""
    durations: Durations | None = None


@dataclass(frozen=True, slots=True)
class QueueModel:
    """A ClusterQueue.  Quota that can be borrowed does not count: it may be called back."""

    capacity: Mapping[str, Amounts]
    """Flavor → nominal quota."""
    waiting: tuple[WaitingJob, ...] = ()
    """In the order of admission."""
    running: tuple[RunningJob, ...] = ()
    strict: bool = False
    """True for StrictFIFO: a job that does not fit holds up all behind it."""
    stopped: bool = False
    """True if nothing is admitted until a person changes that."""

    def first(self, positions: int) -> QueueModel:
        """The queue with only its first waiting jobs."""
        return replace(self, waiting=self.waiting[:positions])

    def free(self) -> dict[str, dict[str, float]]:
        """Flavor → quota that no running job holds."""
        left = {flavor: dict(amounts) for flavor, amounts in self.capacity.items()}
        for job in self.running:
            add(left.setdefault(job.flavor, {}), job.holds, -1)
        return left


def capacity_of(cluster_queue: Obj) -> dict[str, dict[str, float]]:
    """The nominal quota of a ClusterQueue: flavor → resource → amount."""
    capacity: dict[str, dict[str, float]] = {}
    for (flavor, resource), quota in quotas_of(cluster_queue):
        nominal = parse_quantity(quota.get("nominalQuota") or 0)
        capacity.setdefault(flavor, {})[resource] = float(nominal)
    return capacity


def add(amounts: dict[str, float], more: Amounts, sign: int) -> None:
    for resource, amount in more.items():
        amounts[resource] = amounts.get(resource, 0.0) + sign * amount


def fitting(job: WaitingJob, free: Mapping[str, Amounts]) -> str | None:
    """The first flavor that has room for the job; None if there is none."""
    for flavor, asks in job.flavors.items():
        room = free.get(flavor, {})
        if all(room.get(one, 0.0) >= amount for one, amount in asks.items()):
            return flavor
    return None
