"""The queue as it is: what waits in which order, what runs, and how much quota there is.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fournos.history.estimates.durations import Durations
from fournos.insight.quota import Quota
from fournos.kube.resource import Key

Amounts = Mapping[str, float]
"""Resource → amount."""


@dataclass(frozen=True, slots=True)
class WaitingJob:
    """A pending object of the queue."""

    key: Key
    flavors: Mapping[str, Amounts]
    """The flavors that it may use, in the order of preference → what it asks for there.  Empty: none."""
    durations: Durations | None = None

    @classmethod
    def of(cls, key: Key, quota: Quota, durations: Durations | None) -> WaitingJob:
        flavors = {
            flavor: {line.resource: float(line.asks) for line in quota.of(flavor)}
            for flavor in quota.flavors
            if not quota.uncovered
        }
        return cls(key, flavors, durations)


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
class Queue:
    """A ClusterQueue.  Quota that can be borrowed does not count: it may be called back."""

    capacity: Mapping[str, Amounts]
    """Flavor → nominal quota."""
    waiting: tuple[WaitingJob, ...] = ()
    """In the order of admission."""
    running: tuple[RunningJob, ...] = ()
    strict: bool = False
    """True for StrictFIFO: a job that does not fit holds up all behind it."""
    closed: frozenset[str] = field(default=frozenset())
    """Flavors whose cluster takes no jobs: nothing is admitted there."""

    def free(self) -> dict[str, dict[str, float]]:
        """Flavor → quota that no running job holds."""
        left = {flavor: dict(amounts) for flavor, amounts in self.capacity.items()}
        for job in self.running:
            add(left.setdefault(job.flavor, {}), job.holds, -1)
        return left


def capacity_of(quotas: Iterable[Quota]) -> dict[str, dict[str, float]]:
    """The nominal quota by flavor, as the jobs of a queue see it."""
    found: dict[str, dict[str, float]] = {}
    for quota in quotas:
        for line in quota.lines:
            found.setdefault(line.flavor, {})[line.resource] = float(line.nominal)
    return found


def add(amounts: dict[str, float], more: Amounts, sign: int) -> None:
    for resource, amount in more.items():
        amounts[resource] = amounts.get(resource, 0.0) + sign * amount


def fitting(job: WaitingJob, free: Mapping[str, Amounts], closed: frozenset[str]) -> str | None:
    """The first flavor that has room for the job; None if there is none."""
    for flavor, asks in job.flavors.items():
        room = free.get(flavor, {})
        if flavor not in closed and all(room.get(one, 0.0) >= amount for one, amount in asks.items()):
            return flavor
    return None
