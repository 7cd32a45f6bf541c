"""The priority of a job's Workload, in Kueue's order of precedence.

The order is: the label, the kind's own class, the class of the pods, the default class of the cluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fournos.kube.kinds import PRIORITY_CLASS
from fournos.kube.resource import Obj
from fournos.queueing.job import GenericJob, JobWithCustomWorkload, JobWithPriorityClass
from fournos.queueing.workload import Priority

PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"


@dataclass(frozen=True, slots=True)
class MissingClass:
    """A class that does not exist; the job waits for it."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} '{self.name}' not found; create it or submit without it"


def workload_class_of(job: GenericJob) -> str:
    """Returns the name of the WorkloadPriorityClass that the job names, "" for none."""
    if isinstance(job, JobWithCustomWorkload):
        return job.workload_priority_class()
    return str((job.obj["metadata"].get("labels") or {}).get(PRIORITY_LABEL) or "")


def priority_of(
    job: GenericJob, workload_classes: Mapping[str, Obj], pod_classes: Mapping[str, Obj]
) -> Priority | MissingClass | None:
    """Returns the priority; None if no class applies."""
    label = workload_class_of(job)
    if label:
        found = workload_classes.get(label)
        return Priority(label, int(found["value"])) if found else MissingClass("WorkloadPriorityClass", label)
    name = job.priority_class() if isinstance(job, JobWithPriorityClass) else ""
    if not name:
        named = ((pod_set.template.get("spec") or {}).get("priorityClassName") for pod_set in job.pod_sets())
        name = next(filter(None, named), "")
    if name:
        found = pod_classes.get(name)
        return _of_pods(name, found) if found else MissingClass(PRIORITY_CLASS.kind, name)
    defaults = [one for one in pod_classes.values() if one.get("globalDefault")]
    lowest = min(defaults, key=lambda one: int(one["value"]), default=None)
    return _of_pods(lowest["metadata"]["name"], lowest) if lowest else None


def _of_pods(name: str, found: Obj) -> Priority:
    return Priority(name, int(found["value"]), group=PRIORITY_CLASS.group, kind=PRIORITY_CLASS.kind)
