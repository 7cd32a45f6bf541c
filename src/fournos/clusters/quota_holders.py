"""Which Workloads hold a cluster's quota (Kueue's Workload API); those of no FournosJob are foreign here.

Foreign ones are seen, named and waited for, and never touched.
"""

from __future__ import annotations

from collections.abc import Iterable

from fournos.api.conditions import is_true
from fournos.clusters import names
from fournos.kube.resource import Obj, controller_of
from fournos.queueing.kinds import FOURNOS_JOB


def is_of_job(workload: Obj) -> bool:
    """Whether a FournosJob asked for it; anybody else's is foreign here."""
    owner = controller_of(workload)
    wanted = (FOURNOS_JOB.kind, FOURNOS_JOB.api_version)
    return owner is not None and (owner["kind"], owner["apiVersion"]) == wanted


def is_lock(job: Obj, cluster: str | None) -> bool:
    """Whether a FournosJob is this cluster's lock.  A label alone hides no job that runs."""
    meta, spec = job["metadata"], job.get("spec") or {}
    return bool(
        cluster
        and spec.get("lockOnly")
        and spec.get("cluster") == cluster
        and meta["name"] == names.lock_name(cluster)
        and (meta.get("labels") or {}).get(names.LOCK_LABEL) == cluster
    )


def flavors_held(workload: Obj) -> frozenset[str]:
    """The flavors whose quota it has."""
    if not is_true(workload, "QuotaReserved") or is_true(workload, "Finished"):
        return frozenset()
    assigned = ((workload.get("status") or {}).get("admission") or {}).get("podSetAssignments") or ()
    return frozenset(str(flavor) for one in assigned for flavor in (one.get("flavors") or {}).values())


def foreign_holds(workload: Obj) -> Iterable[str]:
    return () if is_of_job(workload) else flavors_held(workload)
