"""The priority of a job's Workload, in Kueue's order of precedence.

The order is: the label, the kind's own class, the class of the pods, the default class of the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from fournos.engine.kube.resource import PRIORITY_CLASS, Obj
from fournos.engine.queueing.job import GenericJob, JobWithCustomWorkload, JobWithPriorityClass
from fournos.engine.queueing.workload import Priority

PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
PRIORITY_BOOST = "kueue.x-k8s.io/priority-boost"
"""The annotation of a Workload that Kueue adds to its priority (gate PriorityBoost, 0.17)."""
LOCK_HELD_CLASS: Final = "fournos-lock-held"
"""The WorkloadPriorityClass of a held lock. Hearth writes it into an admitted Workload; no job names it."""
LOCK_HELD: Final = 1_000_000_000
"""Its value. A PriorityClass of pods may be as high or higher: Kubernetes' own system-cluster-critical is."""
NOT_FOUND: Final = "PriorityClassNotFound"
RESERVED: Final = "PriorityReserved"


@dataclass(frozen=True, slots=True)
class UnusableClass:
    """A class that gives no priority; the job waits until it exists, or until the job names another."""

    kind: str
    name: str
    reason: str = NOT_FOUND

    def __str__(self) -> str:
        if self.reason == RESERVED:
            high = f"{self.kind} '{self.name}' has the priority of a held lock ({LOCK_HELD}) or more"
            return f"{high}, which is for locks of clusters only; name another class"
        return f"{self.kind} '{self.name}' not found; create it or submit without it"


def workload_class_of(job: GenericJob) -> str:
    """Returns the name of the WorkloadPriorityClass that the job names, "" for none."""
    if isinstance(job, JobWithCustomWorkload):
        return job.workload_priority_class()
    return str((job.obj["metadata"].get("labels") or {}).get(PRIORITY_LABEL) or "")


def priority_of(
    job: GenericJob, workload_classes: Mapping[str, Obj], pod_classes: Mapping[str, Obj]
) -> Priority | UnusableClass | None:
    """Returns the priority; None if no class applies."""
    label = workload_class_of(job)
    if label:
        priority_class = workload_classes.get(label)
        if priority_class is None:
            return UnusableClass("WorkloadPriorityClass", label)
        return _allowed(Priority(label, int(priority_class["value"])))
    name = job.priority_class() if isinstance(job, JobWithPriorityClass) else ""
    if not name:
        named = ((pod_set.template.get("spec") or {}).get("priorityClassName") for pod_set in job.pod_sets())
        name = next(filter(None, named), "")
    if name:
        priority_class = pod_classes.get(name)
        return _of_pods(name, priority_class) if priority_class else UnusableClass(PRIORITY_CLASS.kind, name)
    defaults = [one for one in pod_classes.values() if one.get("globalDefault")]
    lowest = min(defaults, key=lambda one: int(one["value"]), default=None)
    return _of_pods(lowest["metadata"]["name"], lowest) if lowest else None


def _of_pods(name: str, found: Obj) -> Priority | UnusableClass:
    return _allowed(Priority(name, int(found["value"]), group=PRIORITY_CLASS.group, kind=PRIORITY_CLASS.kind))


def _allowed(priority: Priority) -> Priority | UnusableClass:
    """Refuses what would push out a held lock, also where no admission policy does."""
    reserved = priority.value >= LOCK_HELD
    return UnusableClass(priority.kind, priority.class_name, RESERVED) if reserved else priority
