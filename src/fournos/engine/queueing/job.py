"""The interface of a job kind to the framework: a small mandatory protocol and optional capabilities.

An implementation wraps one observed object.  It does no I/O and keeps no state.  The optional capabilities
are recognized by their methods, as in Kueue's own jobframework.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Protocol

from fournos.engine.kube.resource import PRIORITY_CLASS, Key, Obj, Resource, uid_of
from fournos.engine.queueing.podsets import PodSetInfo
from fournos.engine.queueing.workload import PodSet, Priority, WorkloadRequest, generic_name
from fournos.engine.runtime.decision import EventRecord, Step


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a job."""

    succeeded: bool
    message: str
    reason: str = ""
    """Reason of the Workload's end; "" means Succeeded or Failed."""


class GenericJob(Protocol):
    """The mandatory interface of every job kind."""

    @property
    def resource(self) -> Resource: ...

    @property
    def obj(self) -> Obj: ...

    def pod_sets(self) -> Sequence[PodSet]:
        """Returns the pod sets that need quota, without anything that an admission has added."""
        ...

    def is_suspended(self) -> bool: ...

    def is_active(self) -> bool:
        """True if any part of the job may still use its quota."""
        ...

    def finished(self) -> Ended | None: ...

    def pods_ready(self) -> bool: ...


class Capability(ABC):  # noqa: B024 - its methods are those of the classes below
    """Base of the optional capabilities: a class has a capability if it has all of its methods.

    Not a runtime-checkable protocol: up to Python 3.11 each isinstance collects a protocol's members again,
    and each pass checks several capabilities.
    """

    @classmethod
    def __subclasshook__(cls, other: type) -> bool:
        return all(callable(getattr(other, name, None)) for name in cls.__abstractmethods__)


class JobWithStartPatch(Capability):
    """A kind that is placed and unsuspended by one patch of the job, and suspended by another."""

    @abstractmethod
    def start(self, infos: Sequence[PodSetInfo]) -> Obj:
        """Returns the merge patch that places and unsuspends the job.

        Raises PodSetInfoError if the infos do not fit the job; another try would fail again.
        """
        ...

    @abstractmethod
    def stop(self, infos: Sequence[PodSetInfo] | None) -> Obj:
        """Returns the merge patch that suspends the job and removes the infos (None: Workload unknown)."""
        ...


class JobWithCustomStart(Capability):
    """A kind whose pods are created from objects of its own, not by a patch of the job."""

    @abstractmethod
    def start_steps(self, workload: Obj) -> Sequence[Step]:
        """Returns the steps of the start.

        Empty for a kind that first records the start in its status; it does so at the verdict STARTING.
        """
        ...


class JobWithCustomWorkload(Capability):
    """A kind whose spec and settings decide what labels decide for others.

    These are name, queue, labels and priority class of the Workload, and when the Workload still matches.
    """

    @abstractmethod
    def workload_request(self, priority: Priority | None) -> WorkloadRequest: ...

    @abstractmethod
    def workload_priority_class(self) -> str:
        """ "" for none, or for a class that must not change any more."""
        ...

    @abstractmethod
    def fits(self, workload: Obj) -> bool:
        """True if the Workload requests what the job needs."""
        ...


class JobWithReclaimablePods(Capability):
    """A kind whose pods can end before the job and then need no quota."""

    @abstractmethod
    def reclaimable_pods(self) -> Mapping[str, int]:
        """Returns the number of ended pods by pod set."""
        ...


class JobWithCustomStop(Capability):
    """A kind that is not stopped by a single patch."""

    @abstractmethod
    def stop_steps(self, infos: Sequence[PodSetInfo] | None, reason: str, message: str) -> Sequence[Step]:
        """Returns the steps that stop the job; empty once it has stopped."""
        ...


class JobWithCustomWorkloadActivation(Capability):
    """A kind that can take its Workload out of the queue for a time (`spec.active: false`)."""

    @abstractmethod
    def held_back(self) -> bool: ...


class JobWithManagedBy(Capability):
    """A kind with `spec.managedBy`, the name of the controller that runs the job after its admission."""

    @abstractmethod
    def managed_by(self) -> str | None: ...


def kind_name_hash(job: GenericJob) -> str:
    """Returns the Workload's name in Kueue's own form: kind, name and a hash."""
    return generic_name(
        kind=job.resource.kind,
        group=job.resource.group,
        name=job.obj["metadata"]["name"],
        uid=uid_of(job.obj),
    )


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """How the Workloads of a kind are treated."""

    without_queue_name: bool = False
    """Kueue's manageJobsWithoutQueueName: jobs without the label are queued too, with the queue name ""."""
    pods_ready: bool = True
    """Report the condition PodsReady; it has no effect if Kueue's waitForPodsReady is off."""
    confirm_start: bool = True
    """Confirm an admission by a live read before the start.

    Not needed before the first start of a job that counts its starts: an earlier admission, which the cache
    could still show, does not exist.
    """


# --- jobs that another cluster runs -----------------------------------------------------------------
# Jobs that another cluster runs (`spec.managedBy`, Kueue's MultiKueue).
#
# On the manager cluster such a job has its Workload and nothing else.  It is never started, stopped or
# counted as active there, no objects are created for it, and MultiKueue writes its status.  On the worker
# the copy has no `managedBy`, and its label kueue.x-k8s.io/prebuilt-workload-name (an annotation since
# Kueue 0.19) names its Workload.

MULTIKUEUE: Final = "kueue.x-k8s.io/multikueue"
"""Value of `spec.managedBy` for an object that runs on a worker cluster, with any adapter.  Also the
`controllerName` of the AdmissionChecks of Kueue's own adapter."""
MULTIKUEUE_ADAPTER: Final = "fournos.dev/multikueue"
"""The `controllerName` of the AdmissionChecks of our adapter."""

ORIGIN_LABEL: Final = "kueue.x-k8s.io/multikueue-origin"
"""Label of all that a manager cluster has made on a worker, with any adapter."""


def made_by_manager(job: Obj) -> bool:
    """True if the job is a copy that a manager cluster has made here.

    It does not delete itself after its end: the manager would read its absence as a loss, and run it again.
    """
    return bool((job["metadata"].get("labels") or {}).get(ORIGIN_LABEL))


def managed_elsewhere(spec: Mapping[str, Any]) -> bool:
    """True if another cluster runs the object with this spec."""
    return spec.get("managedBy") == MULTIKUEUE


def runs_elsewhere(job: GenericJob) -> bool:
    """True if another cluster runs this job; False for a kind without the field."""
    return isinstance(job, JobWithManagedBy) and job.managed_by() == MULTIKUEUE


# --- priority ---------------------------------------------------------------------------------------
# The priority of a job's Workload, in Kueue's order of precedence.
#
# The order is: the label, the class of the pods, the default class of the cluster.

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
    named = ((pod_set.template.get("spec") or {}).get("priorityClassName") for pod_set in job.pod_sets())
    if name := next(filter(None, named), ""):
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


# --- inputs and outcome of a pass -------------------------------------------------------------------
# The input of the framework beside the job, and the outcome of its pass.


@dataclass(frozen=True, slots=True)
class Ancestor:
    """The top-most queued owner of a job; the job runs on its quota and gets no Workload of its own."""

    key: Key
    kind: str
    workload: Obj | None = None
    """The newest Workload of the ancestor that is not finished."""


@dataclass(frozen=True, slots=True)
class QueueInputs:
    """The Kueue objects that concern one job, from the caches."""

    workloads: tuple[Obj, ...] = ()
    """The Workloads that name the job as owner."""
    prebuilt: Obj | None = None
    """The Workload that the job's label names; any client may have created it."""
    flavors: Mapping[str, Obj] = field(default_factory=dict)
    workload_classes: Mapping[str, Obj] = field(default_factory=dict)
    pod_classes: Mapping[str, Obj] = field(default_factory=dict)
    ancestor: Ancestor | None = None


class Verdict(Enum):
    """The job's state in Kueue, once the steps of the outcome are done."""

    NOT_QUEUED = "NotQueued"
    """The job has no queue name, so Kueue does not manage it."""
    NESTED = "Nested"
    """The job runs on an ancestor's quota."""
    WAITING = "Waiting"
    STARTING = "Starting"
    ADMITTED = "Admitted"
    STOPPING = "Stopping"
    """The job has lost its quota or never had any; it keeps its Workload until all of it has stopped."""
    BLOCKED = "Blocked"
    """The job waits for an object that must exist first; the message names it."""
    ELSEWHERE = "Elsewhere"
    """Another cluster runs the job; on this cluster it has its Workload and nothing else."""
    FINISHED = "Finished"
    GONE = "Gone"


@dataclass(frozen=True, slots=True)
class QueueOutcome:
    """The result of one pass of the framework."""

    verdict: Verdict
    reason: str = ""
    message: str = ""
    steps: tuple[Step, ...] = ()
    events: tuple[EventRecord, ...] = ()
    retry: bool = False
    workload: Obj | None = None
    """For STARTING: the admitted Workload, from a live read unless `Options.confirm_start` is off."""
    ancestor: Ancestor | None = None
    """For NESTED: the ancestor."""
