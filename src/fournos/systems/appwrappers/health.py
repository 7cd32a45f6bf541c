"""The health of an AppWrapper's components: by their own kinds' status, by their pods and nodes.

A running Job is not done because two of its pods have succeeded, and a Deployment is ready by its replicas.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.resource import Obj, created_at, is_terminating
from fournos.systems.appwrappers.names import COMPONENT_ANNOTATION
from fournos.systems.appwrappers.settings import Tolerance

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


# --- pods ----------------------------------------------------------------------------------------------
# Counts the pods of an AppWrapper, per component where the component is known.

_INDEX: Final = re.compile(r"[0-9]{1,4}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Count:
    """Numbers of pods by state."""

    pending: int = 0
    running: int = 0
    """Pods that are running and ready."""
    succeeded: int = 0
    failed: int = 0

    @property
    def there(self) -> int:
        return self.pending + self.running + self.succeeded

    def __str__(self) -> str:
        return f"{self.pending} pods pending; {self.running} pods running; {self.succeeded} pods succeeded"


def phase_of(pod: Obj) -> str:
    """Returns the pod's phase; Pending if its status has none yet."""
    return str((pod.get("status") or {}).get("phase") or "Pending")


def count(pods: Iterable[Obj]) -> Count:
    """Counts the pods by state. A pod that is being deleted is not counted unless it has ended."""
    counts = {"pending": 0, "running": 0, "succeeded": 0, "failed": 0}
    for pod in pods:
        phase = phase_of(pod)
        if phase in ("Succeeded", "Failed"):
            counts[phase.lower()] += 1
        elif not is_terminating(pod):
            ready = phase == "Running" and is_true(pod, "Ready")
            counts["running" if ready else "pending"] += 1
    return Count(**counts)


def alive(pods: Iterable[Obj]) -> list[Obj]:
    """Returns the pods that have not ended."""
    return [pod for pod in pods if phase_of(pod) not in ("Succeeded", "Failed")]


def component_of(pod: Obj, components: int) -> int | None:
    """Returns the index of the pod's component, which is below `components`.

    None if the annotation has no such index: another version of the operator created the pod, or the
    annotation was changed since.
    """
    text = (pod["metadata"].get("annotations") or {}).get(COMPONENT_ANNOTATION, "")
    index = int(text) if _INDEX.fullmatch(text) else components
    return index if index < components else None


def gave_up(pods: Iterable[Obj], tolerance: Tolerance) -> bool:
    """True if a failed pod's exit code rules out a retry."""
    return any(_is_terminal(pod, tolerance) for pod in pods if phase_of(pod) == "Failed")


def _is_terminal(pod: Obj, tolerance: Tolerance) -> bool:
    for container in _containers(pod):
        code = ((container.get("state") or {}).get("terminated") or {}).get("exitCode") or 0
        retryable = tolerance.retryable_codes is None or code in tolerance.retryable_codes
        if code and (code in tolerance.terminal_codes or not retryable):
            return True
    return False


def unreplaced(pods: Iterable[Obj], tolerance: Tolerance, *, whole: bool) -> list[Obj]:
    """Returns the failed pods of a component that its own controller has not replaced.

    A controller keeps failed pods for their logs, so a failed pod alone is not a failure. It counts until the
    component is `whole` again, or until a pod that was created after its end is ready or has succeeded. A pod
    whose exit code rules out a retry always counts.
    """
    all_pods = list(pods)
    well = [one for one in all_pods if phase_of(one) == "Succeeded" or is_true(one, "Ready")]
    newest = max((created_at(one) for one in well), default="")
    return [
        pod
        for pod in all_pods
        if phase_of(pod) == "Failed" and (_is_terminal(pod, tolerance) or not (whole or newest > _ended(pod)))
    ]


def _containers(pod: Obj) -> Sequence[Obj]:
    return (pod.get("status") or {}).get("containerStatuses") or ()


def _ended(pod: Obj) -> str:
    """Returns the time of the pod's end. For a pod that never ran this is its creation time."""
    times = [((one.get("state") or {}).get("terminated") or {}).get("finishedAt") for one in _containers(pod)]
    return max((str(time) for time in times if time), default=created_at(pod))


# --- nodes ---------------------------------------------------------------------------------------------
# Autopilot node health: a node's label shows the state of its devices (the AppWrapper documentation).
#
# The values are WARN (prefer other nodes), TESTING (place no new pods) and EVICT (no pod may stay).

LABEL: Final = "autopilot.ibm.com/gpuhealth"
RESOURCES: Final = frozenset({"nvidia.com/gpu"})
"""The resources whose health the label shows."""
_WARN_WEIGHT: Final = 50
"""Weight of keeping away from nodes with a warning."""
_WARN, _TESTING, _EVICT = "WARN", "TESTING", "EVICT"


def evicting(node: Obj) -> frozenset[str]:
    """Returns the resources whose users must leave this node."""
    labels = node["metadata"].get("labels") or {}
    return RESOURCES if labels.get(LABEL) == _EVICT else frozenset()


def uses(pod_spec: Obj, resources: frozenset[str], *, init: bool = False) -> bool:
    """True if a container requests or limits one of the resources with an amount other than zero."""
    sections = ("containers", "initContainers") if init else ("containers",)
    containers = [one for section in sections for one in pod_spec.get(section) or ()]
    return any(
        str(amount) != "0"
        for container in containers
        for kind in ("requests", "limits")
        for name, amount in ((container.get("resources") or {}).get(kind) or {}).items()
        if name in resources
    )


def keep_away(template: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the pod template with node affinities against unhealthy nodes.

    It is unchanged if the pod does not use a resource that Autopilot monitors.
    """
    spec = template["spec"]
    if not uses(spec, RESOURCES, init=True):
        return dict(template)
    affinity = dict(spec.get("affinity") or {})
    nodes = dict(affinity.get("nodeAffinity") or {})
    required = dict(nodes.get("requiredDuringSchedulingIgnoredDuringExecution") or {})
    bad = {"key": LABEL, "operator": "NotIn", "values": [_TESTING, _EVICT]}
    terms = required.get("nodeSelectorTerms") or [{}]
    required["nodeSelectorTerms"] = [
        {**term, "matchExpressions": [*(term.get("matchExpressions") or ()), bad]} for term in terms
    ]
    warned = {"key": LABEL, "operator": "NotIn", "values": [_WARN]}
    preferred = {
        "weight": _WARN_WEIGHT,
        "preference": {"matchExpressions": [warned]},
    }
    nodes["requiredDuringSchedulingIgnoredDuringExecution"] = required
    nodes["preferredDuringSchedulingIgnoredDuringExecution"] = [
        *(nodes.get("preferredDuringSchedulingIgnoredDuringExecution") or ()),
        preferred,
    ]
    affinity["nodeAffinity"] = nodes
    return {**template, "spec": {**spec, "affinity": affinity}}
