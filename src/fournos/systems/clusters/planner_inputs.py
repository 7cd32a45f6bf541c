"""The parts of a FournosCluster's spec and status that its quotas depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fournos.api.fournoscluster import LockState
from fournos.engine.kube.resource import Obj, is_terminating
from fournos.systems.clusters.inventory import read
from fournos.systems.clusters.names import REMOVING


@dataclass(frozen=True, slots=True)
class PlannerInput:
    """One cluster as the planner sees it."""

    name: str
    gpus: Mapping[str, int] = field(default_factory=dict)
    """Number of GPUs per short name."""
    closed: str = ""
    """The reason why the cluster takes no jobs, as one word; empty if it takes jobs."""
    for_lock: bool = False
    """True if the cluster has slots although it is closed. Only its lock can take them."""
    removing: bool = False


def planner_input(cluster: Obj) -> PlannerInput:
    """Returns the planner's input for a FournosCluster."""
    spec, status = cluster.get("spec") or {}, cluster.get("status") or {}
    return PlannerInput(
        name=cluster["metadata"]["name"],
        gpus=read(status.get("hardware") or {}).quotas,
        closed=_closed(cluster),
        for_lock=_for_lock(spec, status),
        removing=is_terminating(cluster) and status.get("decommission") == REMOVING,
    )


def _for_lock(spec: Obj, status: Obj) -> bool:
    """True from the end of the last job to the admission of the lock.

    At any other time a closed cluster has no slots. Its opening therefore always changes its quota, and a
    changed quota makes Kueue look again at pending Workloads.
    """
    held = (status.get("lock") or {}).get("state") == LockState.HELD
    return bool(spec.get("owner")) and not status.get("runningJobs") and not held


def _closed(cluster: Obj) -> str:
    """Returns why no job may start on the cluster; empty if jobs may.

    The text is one word that is valid as a taint's value.
    """
    if is_terminating(cluster):
        return "removing"
    if (cluster.get("spec") or {}).get("drain"):
        return "draining"
    kubeconfig_status = (cluster.get("status") or {}).get("kubeconfigStatus")
    if kubeconfig_status == "Valid":
        return ""
    return _UNUSABLE.get(str(kubeconfig_status), "not-ready")


_UNUSABLE = {
    "Unreachable": "unreachable",
    "Invalid": "kubeconfig-invalid",
    "Missing": "kubeconfig-missing",
}
