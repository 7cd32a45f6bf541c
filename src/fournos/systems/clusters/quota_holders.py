"""Finds the Workloads that hold a cluster's quota (Kueue's Workload API).

A Workload that belongs to no FournosJob is called foreign. Foreign Workloads are counted, named in the status
and waited for. They are never changed.
"""

from __future__ import annotations

from collections.abc import Iterable

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.api.conditions import is_true
from fournos.engine.kube.resource import Obj, controller_of
from fournos.systems.clusters import names


def is_of_job(workload: Obj) -> bool:
    """True if the Workload's controller is a FournosJob. Any other Workload is foreign."""
    owner = controller_of(workload)
    wanted = (FOURNOS_JOB.kind, FOURNOS_JOB.api_version)
    return owner is not None and (owner["kind"], owner["apiVersion"]) == wanted


def is_lock(job: Obj, cluster: str | None) -> bool:
    """True if the FournosJob is the lock of this cluster.

    Name, label and spec must all match, so that a label alone cannot hide a running job.
    """
    meta, spec = job["metadata"], job.get("spec") or {}
    return bool(
        cluster
        and spec.get("lockOnly")
        and spec.get("cluster") == cluster
        and meta["name"] == names.lock_name(cluster)
        and (meta.get("labels") or {}).get(names.LOCK_LABEL) == cluster
    )


def flavors_held(workload: Obj) -> frozenset[str]:
    """Returns the names of the flavors whose quota the Workload holds: reserved and not finished."""
    if not is_true(workload, "QuotaReserved") or is_true(workload, "Finished"):
        return frozenset()
    assigned = ((workload.get("status") or {}).get("admission") or {}).get("podSetAssignments") or ()
    return frozenset(str(flavor) for one in assigned for flavor in (one.get("flavors") or {}).values())


def foreign_holds(workload: Obj) -> Iterable[str]:
    """Returns the flavors that a foreign Workload holds; empty for a FournosJob's Workload."""
    return () if is_of_job(workload) else flavors_held(workload)
