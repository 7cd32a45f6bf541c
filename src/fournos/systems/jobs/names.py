"""Names, labels and constants of FournosJobs (the Fournos README and its published manifests)."""

from __future__ import annotations

from hashlib import sha256

from fournos.api.kinds import RESOLVE_IMAGE_ANNOTATION as RESOLVE_IMAGE_ANNOTATION
from fournos.api.slots import CLUSTER_NODE_LABEL as CLUSTER_NODE_LABEL
from fournos.api.slots import SLOT_RESOURCE as SLOT_RESOURCE
from fournos.api.slots import SLOTS_PER_CLUSTER as SLOTS_PER_CLUSTER
from fournos.engine.kube.resource import Obj

LEASE = "fournos"
"""The Lease of the operator; it lies in the namespace of the jobs."""
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
MANAGED_BY = "fournos"
JOB_NAME_LABEL = "fournos.dev/job-name"
ATTEMPT_LABEL = "fournos.dev/attempt"
EXCLUSIVE_CLUSTER_LABEL = "fournos.dev/exclusive-cluster"
VAULT_ENTRY_LABEL = "fournos.dev/vault-entry"
CLUSTER_ANNOTATION = "fournos.dev/cluster"
ENV_ANNOTATION = "fournos.dev/env"
"""Annotation of a Pipeline: with the value `steps`, all steps have the variables of `spec.env`."""
FINGERPRINT_ANNOTATION = "fournos.dev/fingerprint"
"""Annotation of a Pipeline: what makes runs different, such as `params.model, env.BATCH`."""
OWN_PARAMS = (
    "fjob-name",
    "fournos-namespace",
    "fournos-workload-namespace",
    "kubeconfig-secret",
    "validation-image",
)
"""Parameters that the operator passes to each run, so that a job cannot set them."""
FINALIZER = "fournos.dev/run"
"""The finalizer of a FournosJob, present only while a run of it is live."""
RUN_FINALIZER = "fournos.dev/result"
"""The finalizer of a PipelineRun, until its end is in the status of its job: pruners delete a run at once."""
RERUNS_CREATED = "RerunsCreated"
"""The condition of a job whose suspected regression is worth reruns."""
RESULT_NAME = "fournos-results"
"""The Tekton result of a Pipeline or a task that holds what a run measured."""
CONFIRMS_LABEL = "fournos.dev/confirms"
"""Label of a rerun that confirms a suspected regression: the UID of the job, of its namespace.  Only the
operator may set it (the policy fournos-job-confirms)."""
RERUN_OF_ANNOTATION = "fournos.dev/rerun-of"
"""The name of that job, for people."""

MAX_NAME = 55
"""The maximum length of a job's name.

The longest derived name is `<job>-resolve`, which becomes a label of the resolve Job's pod (at most 63).
"""
LABEL_MAX = 63
"""The maximum length of a run's name: names of runs become label values."""

LOCK_PRIORITY = 200
"""The least priority of the Workload of a lock that is held: that of the highest class that is shipped
(config/kueue-config.yaml), because Kueue pushes out only what is lower."""

POD_SET = "launcher"

CLUSTERLESS = "[clusterless]"
CLUSTERLESS_KUBECONFIG = "fournos-clusterless-placeholder"


def display_name(job: Obj) -> str:
    """Returns `spec.displayName`, or the object's name if it is empty."""
    return str((job.get("spec") or {}).get("displayName") or job["metadata"]["name"])


_MAX_SECRET_NAME = 253
_DIGEST = 16
"""The number of hexadecimal digits of a digest in a name."""


def labels(job_name: str) -> dict[str, str]:
    """Returns the labels of every object that a job owns."""
    return {MANAGED_BY_LABEL: MANAGED_BY, JOB_NAME_LABEL: job_name}


def attempt_name(job_name: str, attempt: int, uid: str = "") -> str:
    """Returns the name of an attempt's Workload or PipelineRun.

    It is the job's name, from attempt 2 on with a suffix.

    With a UID, the name of a later attempt also contains a digest of the UID.  It is used if an object of
    another owner has the usual name.
    """
    if attempt <= 1:
        return job_name
    digest = sha256(uid.encode()).hexdigest()[:8] if uid else ""
    suffix = f"-r{attempt}" + (f"-{digest}" if digest else "")
    return job_name[: LABEL_MAX - len(suffix)].rstrip("-.") + suffix


def attempt_names(job_name: str, attempt: int, uid: str) -> tuple[str, str]:
    """Returns both possible names of an attempt: the usual one, and the one with a digest of the UID."""
    return attempt_name(job_name, attempt), attempt_name(job_name, attempt, uid)


def rerun_name(job_name: str, uid: str, number: int) -> str:
    """Returns the name of a job's rerun, the same whenever it is asked for; at most MAX_NAME characters."""
    suffix = f"-confirm{number}-{sha256(uid.encode()).hexdigest()[:8]}"
    return job_name[: MAX_NAME - len(suffix)].rstrip("-.") + suffix


def resolve_job_name(job_name: str) -> str:
    return f"{job_name}-resolve"


def copy_name(job_name: str, secret_name: str) -> str:
    """Returns the name of a Secret's copy; one that is too long ends with a digest of the whole name."""
    name = f"{job_name}-{secret_name}"
    if len(name) <= _MAX_SECRET_NAME:
        return name
    digest = sha256(name.encode()).hexdigest()[:_DIGEST]
    return f"{name[: _MAX_SECRET_NAME - _DIGEST - 1].rstrip('-.')}-{digest}"


def kubeconfig_copy_name(job_name: str) -> str:
    return f"{job_name}-kubeconfig"
