"""What the quotas of a FournosCluster depend on: parts of its spec, and what its status has established."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fournos.api.fournoscluster import LockState
from fournos.clusters.inventory import read
from fournos.clusters.names import REMOVING
from fournos.kube.resource import Obj, is_terminating


@dataclass(frozen=True, slots=True)
class PlannerInput:
    """One cluster as the planner sees it."""

    name: str
    gpus: Mapping[str, int] = field(default_factory=dict)
    """By short name."""
    closed: str = ""
    """Why it takes no jobs, as a word; "" when it does."""
    for_lock: bool = False
    """Though closed it has slots, which only the lock can take."""
    removing: bool = False


def planner_input(cluster: Obj) -> PlannerInput:
    spec, status = cluster.get("spec") or {}, cluster.get("status") or {}
    return PlannerInput(
        name=cluster["metadata"]["name"],
        gpus=read(status.get("hardware") or {}).quotas,
        closed=_closed(cluster),
        for_lock=_for_lock(spec, status),
        removing=is_terminating(cluster) and status.get("decommission") == REMOVING,
    )


def _for_lock(spec: Obj, status: Obj) -> bool:
    """Only between the end of the last job and the lock's admission: at any other time a closed cluster has
    no slots, so that its opening always changes its quota."""
    held = (status.get("lock") or {}).get("state") == LockState.HELD
    return bool(spec.get("owner")) and not status.get("runningJobs") and not held


def _closed(cluster: Obj) -> str:
    """Why no job may be started there, as a word that fits into a taint; "" when jobs may."""
    if is_terminating(cluster):
        return "removing"
    if (cluster.get("spec") or {}).get("drain"):
        return "draining"
    known = (cluster.get("status") or {}).get("kubeconfigStatus")
    if known == "Valid":
        return ""
    return _UNUSABLE.get(str(known), "not-ready")


_UNUSABLE = {
    "Unreachable": "unreachable",
    "Invalid": "kubeconfig-invalid",
    "Missing": "kubeconfig-missing",
}
