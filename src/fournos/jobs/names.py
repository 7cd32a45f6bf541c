"""Names, labels and fixed words of the job system (the Fournos README and its published manifests)."""

from __future__ import annotations

from hashlib import sha256

from fournos.api.phase import Phase
from fournos.kube.resource import Obj
from fournos.queueing.slots import CLUSTER_NODE_LABEL as CLUSTER_NODE_LABEL
from fournos.queueing.slots import SLOT_RESOURCE as SLOT_RESOURCE
from fournos.queueing.slots import SLOTS_PER_CLUSTER as SLOTS_PER_CLUSTER

MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGED_BY = "fournos"
JOB_NAME_LABEL = "fournos.dev/job-name"
ATTEMPT_LABEL = "fournos.dev/attempt"
EXCLUSIVE_CLUSTER_LABEL = "fournos.dev/exclusive-cluster"
VAULT_ENTRY_LABEL = "fournos.dev/vault-entry"
CLUSTER_ANNOTATION = "fournos.dev/cluster"
RESOLVE_IMAGE_ANNOTATION = "fournos.dev/resolve-image"
FINALIZER = "fournos.dev/run"
"""Stands on a FournosJob only while a run of it is live."""

LABEL_MAX = 63
"""Names of runs become label values."""

POD_SET = "launcher"

CLUSTERLESS = "[clusterless]"
CLUSTERLESS_KUBECONFIG = "fournos-clusterless-placeholder"

TERMINAL = frozenset(phase.value for phase in Phase if phase.terminal)
HOLDING = frozenset({"Admitted", "Running", "Stopping"})
"""Phases in which a job occupies its cluster."""


def display_name(job: Obj) -> str:
    """What people call the job: its own name where it has no other."""
    return str((job.get("spec") or {}).get("displayName") or job["metadata"]["name"])


_MAX_SECRET_NAME = 253
_DIGEST = 16
"""Hexadecimal digits."""


def labels(job_name: str) -> dict[str, str]:
    return {MANAGED_BY_LABEL: MANAGED_BY, JOB_NAME_LABEL: job_name}


def attempt_name(job_name: str, attempt: int, uid: str = "") -> str:
    """The name of an attempt's Workload or PipelineRun: the job's for the first, then with a suffix.

    With the job's UID: the name of a later attempt where a job of the usual one is there.
    """
    if attempt <= 1:
        return job_name
    digest = sha256(uid.encode()).hexdigest()[:8] if uid else ""
    suffix = f"-r{attempt}" + (f"-{digest}" if digest else "")
    return job_name[: LABEL_MAX - len(suffix)].rstrip("-.") + suffix


def attempt_names(job_name: str, attempt: int, uid: str) -> tuple[str, str]:
    """Both that it may have."""
    return attempt_name(job_name, attempt), attempt_name(job_name, attempt, uid)


def resolve_job_name(job_name: str) -> str:
    return f"{job_name}-resolve"


def old_resolve_job_name(job_name: str) -> str:
    """What early versions called it; such a Job is adopted."""
    return f"resolve-{job_name}"


def copy_name(job_name: str, secret_name: str) -> str:
    """A name that would be too long for a Secret ends with a digest of the whole one instead."""
    name = f"{job_name}-{secret_name}"
    if len(name) <= _MAX_SECRET_NAME:
        return name
    digest = sha256(name.encode()).hexdigest()[:_DIGEST]
    return f"{name[: _MAX_SECRET_NAME - _DIGEST - 1].rstrip('-.')}-{digest}"


def kubeconfig_copy_name(job_name: str) -> str:
    return f"{job_name}-kubeconfig"
