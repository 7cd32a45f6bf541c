"""Determines the health of a component from the status of its own kind.

For example, a running Job is not done because two of its pods have succeeded, and a Deployment is ready by
its replicas.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.resource import Obj

_RANGE: Final = re.compile(r"\b([0-9]{1,9})(?:-([0-9]{1,9}))?\b", re.ASCII)


class ComponentState(Enum):
    """The states of a component."""

    PENDING = "pending"
    READY = "ready"
    SUCCEEDED = "succeeded"
    FAILING = "failing"
    """The component reports a failure that its controller may still repair."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ComponentHealth:
    """The state of a component, with a message about its failure."""

    state: ComponentState
    message: str = ""
    whole: bool = False
    """True if, by the kind's own count, no pod is missing now: failed pods have been replaced."""


_PENDING = ComponentHealth(ComponentState.PENDING)
_READY = ComponentHealth(ComponentState.READY)
_WHOLE = ComponentHealth(ComponentState.READY, whole=True)
_SUCCEEDED = ComponentHealth(ComponentState.SUCCEEDED)


def _failed(obj: Obj, type_: str) -> ComponentHealth:
    found = condition(obj, type_) or {}
    text = ": ".join(filter(None, (found.get("reason"), found.get("message"))))
    return ComponentHealth(ComponentState.FAILED, text)


def _status(obj: Obj) -> dict[str, Any]:
    return dict(obj.get("status") or {})


def _seen(obj: Obj) -> bool:
    """True if the status describes the current spec."""
    generation = obj["metadata"].get("generation")
    return generation is None or int(_status(obj).get("observedGeneration") or 0) >= int(generation)


def job(obj: Obj) -> ComponentHealth:
    """A Job is ready when enough pods are ready or have ended."""
    if is_true(obj, "Failed"):
        return _failed(obj, "Failed")
    if is_true(obj, "Complete"):
        return _SUCCEEDED
    spec, status = obj.get("spec") or {}, _status(obj)
    parallelism = int(spec.get("parallelism", 1))
    completions = int(spec.get("completions") or parallelism)
    ready, succeeded = int(status.get("ready") or 0), int(status.get("succeeded") or 0)
    # An index that failed permanently (backoffLimitPerIndex) gets no new pod; the Job goes on without it.
    ended = succeeded + _indexes(str(status.get("failedIndexes") or ""))
    state = ComponentState.READY if ready + ended >= min(parallelism, completions) else ComponentState.PENDING
    return ComponentHealth(state, whole=ready >= min(parallelism, completions - ended))


def _indexes(text: str) -> int:
    """Returns the number of indexes in a Job's list, such as 1,3-5."""
    return sum(int(last or first) - int(first) + 1 for first, last in _RANGE.findall(text))


def deployment(obj: Obj) -> ComponentHealth:
    """A Deployment is ready when enough replicas of its current spec are available."""
    wanted, status = int((obj.get("spec") or {}).get("replicas", 1)), _status(obj)
    ready = _seen(obj) and int(status.get("availableReplicas") or 0) >= wanted
    return _WHOLE if ready else _PENDING


def stateful_set(obj: Obj) -> ComponentHealth:
    """A StatefulSet is ready when enough replicas of its current spec are ready."""
    wanted, status = int((obj.get("spec") or {}).get("replicas", 1)), _status(obj)
    return _WHOLE if _seen(obj) and int(status.get("readyReplicas") or 0) >= wanted else _PENDING


def job_set(obj: Obj) -> ComponentHealth:
    """A JobSet is ready when enough Jobs of each replicated job are ready or have succeeded."""
    if is_true(obj, "Failed"):
        return _failed(obj, "Failed")
    if is_true(obj, "Completed"):
        return _SUCCEEDED
    replicas = {
        job["name"]: int(job.get("replicas", 1))
        for job in (obj.get("spec") or {}).get("replicatedJobs") or ()
    }
    there = {
        job["name"]: int(job.get("ready") or 0) + int(job.get("succeeded") or 0)
        for job in _status(obj).get("replicatedJobsStatus") or ()
    }
    return _WHOLE if all(there.get(name, 0) >= count for name, count in replicas.items()) else _PENDING


def kubeflow(obj: Obj) -> ComponentHealth:
    """PyTorchJob and MPIJob have the same conditions."""
    if is_true(obj, "Failed"):
        return _failed(obj, "Failed")
    if is_true(obj, "Succeeded"):
        return _SUCCEEDED
    return _READY if is_true(obj, "Running") else _PENDING


def ray_cluster(obj: Obj) -> ComponentHealth:
    """A RayCluster is ready when it is provisioned. A failure counts as FAILING."""
    status = _status(obj)
    if status.get("state") == "failed":
        return ComponentHealth(ComponentState.FAILING, str(status.get("reason") or "the RayCluster failed"))
    ready = status.get("state") == "ready" or is_true(obj, "RayClusterProvisioned")
    return _READY if ready else _PENDING


def ray_job(obj: Obj) -> ComponentHealth:
    """A RayJob is ready while its deployment status is Running. A failure counts as FAILING."""
    status = _status(obj)
    if status.get("jobStatus") == "SUCCEEDED" and status.get("jobDeploymentStatus") == "Complete":
        return _SUCCEEDED
    if status.get("jobStatus") in ("FAILED", "STOPPED") or status.get("jobDeploymentStatus") == "Failed":
        return ComponentHealth(
            ComponentState.FAILING, str(status.get("message") or status.get("reason") or "the RayJob failed")
        )
    return _READY if status.get("jobDeploymentStatus") == "Running" else _PENDING


def leader_worker_set(obj: Obj) -> ComponentHealth:
    """A LeaderWorkerSet is ready when its condition Available is true."""
    return _WHOLE if is_true(obj, "Available") else _PENDING


def pipeline_run(obj: Obj) -> ComponentHealth:
    """A PipelineRun is ready while the reason of its condition is Running."""
    succeeded = condition(obj, "Succeeded") or {}
    if succeeded.get("status") == "True":
        return _SUCCEEDED
    # Tekton sets False before all running tasks have been stopped, so completionTime must be set too.
    if succeeded.get("status") == "False" and _status(obj).get("completionTime"):
        return _failed(obj, "Succeeded")
    return _READY if succeeded.get("reason") == "Running" else _PENDING


_DONE = ("Complete", "Completed", "Succeeded")
"""The conditions of Jobs, JobSets and Kubeflow's jobs. Most kinds that run to completion use one of them."""
END_CONDITIONS = frozenset({"Failed", *_DONE})


def other(obj: Obj) -> ComponentHealth | None:
    """Returns the health of an unknown kind from the conditions that most kinds have; None without them.

    The caller counts success only if no pod of the component is left, because other kinds set `Completed`
    after a rollout.
    """
    ended = {"metadata": obj["metadata"], "status": {"conditions": end_conditions(obj)}}
    if is_true(ended, "Failed"):
        return _failed(ended, "Failed")
    return _SUCCEEDED if any(is_true(ended, type_) for type_ in _DONE) else None


def end_conditions(obj: Obj) -> list[Mapping[str, Any]]:
    """Returns the conditions in `END_CONDITIONS` of an object of any shape."""
    status = obj.get("status")
    found = status.get("conditions") if isinstance(status, Mapping) else None
    listed = found if isinstance(found, list) else []
    return [one for one in listed if isinstance(one, Mapping) and one.get("type") in END_CONDITIONS]
