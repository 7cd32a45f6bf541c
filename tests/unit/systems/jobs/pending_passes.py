"""Passes of a job in the queue, and the Workload that it gets."""

from __future__ import annotations

from typing import Any

from fournos.engine.kube.resource import Obj
from fournos.engine.runtime.decision import Create, Decision
from fournos.systems.jobs import names
from tests.unit.systems.jobs.passes import a_job, ago, decided, true

ON = (true("QuotaReserved"), true("Admitted"))


def requested(**spec: Any) -> dict[str, Any]:
    """Returns the Workload that a pending job with this spec gets, as the API server has it."""
    (step,) = decided(a_job("Pending", **spec)).steps
    assert isinstance(step, Create)
    return {**step.body, "metadata": {**step.body["metadata"], "uid": "w-job", "resourceVersion": "3"}}


def queued(
    *conditions: Any, cluster: str = "", status: Any = None, since: float = 3600, **spec: Any
) -> dict[str, Any]:
    """Returns that Workload with these conditions, admitted on the cluster if one is given."""
    assigned = {"name": names.POD_SET, "flavors": {names.SLOT_RESOURCE: cluster} if cluster else {}}
    admission = {"admission": {"clusterQueue": "cq", "podSetAssignments": [assigned]}} if conditions else {}
    workload = requested(**spec)
    workload["metadata"]["creationTimestamp"] = ago(since)
    return {**workload, "status": {"conditions": list(conditions), **admission, **(status or {})}}


def pending(*workloads: Obj, status: Any = None, meta: Any = None, **changes: Any) -> Decision:
    known = {
        "answers",
        "failure",
        "priority_value",
        "prebuilt",
        "holders",
        "exclusive_holders",
        "free_quota",
        "queued_before",
    }
    observed = {name: value for name, value in changes.items() if name in known}
    spec = {name: value for name, value in changes.items() if name not in known}
    return decided(a_job("Pending", status=status, meta=meta, **spec), workloads=workloads, **observed)
