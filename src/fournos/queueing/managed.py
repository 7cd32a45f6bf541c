"""Jobs that another cluster runs (`spec.managedBy`, Kueue's MultiKueue).

On the manager such a job has its Workload and nothing else: it is never started, stopped or called active
here, nothing is made for it, and its status is MultiKueue's to write.  On the worker the copy has no
`managedBy`, and the label kueue.x-k8s.io/prebuilt-workload-name says which Workload is its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fournos.queueing.job import GenericJob, JobWithManagedBy

MULTIKUEUE: Final = "kueue.x-k8s.io/multikueue"
"""In `spec.managedBy`: the object runs on a worker cluster, whichever adapter takes it there; also the
`controllerName` of the AdmissionChecks of Kueue's own adapter."""
MULTIKUEUE_ADAPTER: Final = "fournos.dev/multikueue"
"""The `controllerName` of the AdmissionChecks of our adapter."""


def managed_elsewhere(spec: Mapping[str, Any]) -> bool:
    """Whether another cluster runs what this spec asks for."""
    return spec.get("managedBy") == MULTIKUEUE


def runs_elsewhere(job: GenericJob) -> bool:
    """The same of a job kind that has the field."""
    return isinstance(job, JobWithManagedBy) and job.managed_by() == MULTIKUEUE
