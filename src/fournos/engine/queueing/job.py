"""The interface of a job kind to the framework: a small mandatory protocol and optional capabilities.

An implementation wraps one observed object.  It does no I/O and keeps no state.  The optional capabilities
are recognized by their methods, as in Kueue's own jobframework.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from fournos.engine.kube.resource import Obj, Resource, uid_of
from fournos.engine.queueing.podsets import PodSetInfo
from fournos.engine.queueing.workload import PodSet, Priority, WorkloadRequest, generic_name
from fournos.engine.runtime.decision import Step


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


class JobWithFinalize(Capability):
    """A kind with objects to delete when its Workload is no longer needed."""

    @abstractmethod
    def finalize_steps(self) -> Sequence[Step]: ...


class JobWithPriorityClass(Capability):
    """A kind with a pod priority class of its own, for jobs without the label."""

    @abstractmethod
    def priority_class(self) -> str: ...


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
    labels_to_copy: tuple[str, ...] = ()
    """Kueue's integrations.labelKeysToCopy."""
