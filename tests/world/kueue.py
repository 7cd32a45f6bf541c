"""Kueue, played on the in-memory API server: one move a round, none when there is nothing to do.

Enough for kinds whose pods run in the cluster; tests of the jobs and of the clusters have one that counts
the slots of clusters.  The real one is used in tests/integration and tests/e2e.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fournos.engine.api.conditions import Condition, condition, is_true
from fournos.engine.kube.resource import Obj, is_terminating
from fournos.engine.queueing.kinds import WORKLOAD
from tests.world.server import Server
from tests.world.status import set_conditions

ADMITTED = (
    Condition("QuotaReserved", "True", "QuotaReserved", "Quota reserved"),
    Condition("Admitted", "True", "Admitted", "The workload is admitted"),
    Condition("Evicted", "False", "QuotaReserved", "Previously evicted"),
)
"""What Kueue says of a Workload as it admits it."""


@dataclass
class Kueue:
    """Admits one Workload a round while slots last; evicts once on demand; frees finished ones."""

    slots: int = 2
    evict: dict[str, str] = field(default_factory=dict)
    """Owner's name -> reason: evicted once, while it is ready."""
    when_ready: bool = True
    """False: as soon as it is admitted."""

    def __call__(self, server: Server) -> None:
        workloads = server.list(WORKLOAD)
        for workload in workloads:
            owner = owner_name(workload)
            going = is_true(workload, "Admitted") and not is_true(workload, "Finished")
            if owner in self.evict and going and (is_true(workload, "PodsReady") or not self.when_ready):
                evicted = Condition("Evicted", "True", self.evict.pop(owner), "to make room")
                set_conditions(server, WORKLOAD, workload, evicted)
                return
        used = sum(is_true(one, "QuotaReserved") and not is_true(one, "Finished") for one in workloads)
        for workload in workloads:
            if used < self.slots and _waits(workload):
                _admit(server, workload)
                return


def owner_name(workload: Obj) -> str:
    return str((workload["metadata"].get("ownerReferences") or [{"name": ""}])[0]["name"])


def holding(server: Server, owner: str) -> list[Obj]:
    """Workloads of the object with this name that hold quota."""
    return [
        one
        for one in server.list(WORKLOAD)
        if owner_name(one) == owner and is_true(one, "QuotaReserved") and not is_true(one, "Finished")
    ]


def one_workload_each(server: Server) -> None:
    """An invariant: no object has two Workloads that stay."""
    owners = [
        one["metadata"]["ownerReferences"][0]["uid"]
        for one in server.list(WORKLOAD)
        if one["metadata"].get("ownerReferences") and not is_terminating(one)
    ]
    assert len(owners) == len(set(owners))


def _waits(workload: Obj) -> bool:
    if is_true(workload, "Finished") or is_true(workload, "QuotaReserved") or is_terminating(workload):
        return False
    requeued = (condition(workload, "Requeued") or {}).get("status") == "True"
    return workload["spec"].get("active") is not False and (requeued or not is_true(workload, "Evicted"))


def _admit(server: Server, workload: Obj) -> None:
    assignments = [
        {"name": one["name"], "count": one["count"], "flavors": {"cpu": "default"}}
        for one in workload["spec"]["podSets"]
    ]
    set_conditions(
        server,
        WORKLOAD,
        workload,
        *ADMITTED,
        admission={"clusterQueue": "cq", "podSetAssignments": assignments},
        reclaimablePods=None,
    )
