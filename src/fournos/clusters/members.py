"""A FournosCluster as the planner sees it: what its spec asks for and its status has established."""

from __future__ import annotations

from fournos.api.fournoscluster import LockState
from fournos.clusters.decommission import REMOVING
from fournos.clusters.inventory import read
from fournos.clusters.planner import Member
from fournos.kube.resource import Obj, is_terminating


def member_of(cluster: Obj) -> Member:
    spec, status = cluster.get("spec") or {}, cluster.get("status") or {}
    return Member(
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
