"""A FournosCluster as the planner sees it: what its spec asks for and its status has established."""

from __future__ import annotations

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
        locked=bool(spec.get("owner")),
        removing=is_terminating(cluster) and status.get("decommission") == REMOVING,
    )


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
