"""Jobs that another cluster runs (`spec.managedBy`, Kueue's MultiKueue).

On the manager cluster such a job has its Workload and nothing else.  It is never started, stopped or counted
as active there, no objects are created for it, and MultiKueue writes its status.  On the worker the copy has
no `managedBy`, and its label kueue.x-k8s.io/prebuilt-workload-name (an annotation since Kueue 0.19) names its
Workload.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fournos.engine.queueing.job import GenericJob, JobWithManagedBy

MULTIKUEUE: Final = "kueue.x-k8s.io/multikueue"
"""Value of `spec.managedBy` for an object that runs on a worker cluster, with any adapter.  Also the
`controllerName` of the AdmissionChecks of Kueue's own adapter."""
MULTIKUEUE_ADAPTER: Final = "fournos.dev/multikueue"
"""The `controllerName` of the AdmissionChecks of our adapter."""


def managed_elsewhere(spec: Mapping[str, Any]) -> bool:
    """True if another cluster runs the object with this spec."""
    return spec.get("managedBy") == MULTIKUEUE


def runs_elsewhere(job: GenericJob) -> bool:
    """True if another cluster runs this job; False for a kind without the field."""
    return isinstance(job, JobWithManagedBy) and job.managed_by() == MULTIKUEUE
