"""The interface of a job kind to the framework: a small mandatory protocol and optional capabilities.

An implementation wraps one observed object.  It does no I/O and keeps no state.  The optional protocols are
recognized by their methods, as in Kueue's own jobframework.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from fournos.kube.resource import Obj, Resource, uid_of
from fournos.queueing.podsets import PodSetInfo
from fournos.queueing.workload import PodSet, Priority, WorkloadRequest, generic_name
from fournos.runtime.steps import Step


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


@runtime_checkable
class JobWithStartPatch(Protocol):
    """A kind that is placed and unsuspended by one patch of the job, and suspended by another."""

    def start(self, infos: Sequence[PodSetInfo]) -> Obj:
        """Returns the merge patch that places and unsuspends the job.

        Raises PodSetInfoError if the infos do not fit the job; another try would fail again.
        """
        ...

    def stop(self, infos: Sequence[PodSetInfo] | None) -> Obj:
        """Returns the merge patch that suspends the job and removes the infos (None: Workload unknown)."""
        ...


@runtime_checkable
class JobWithCustomStart(Protocol):
    """A kind whose pods are created from objects of its own, not by a patch of the job."""

    def start_steps(self, workload: Obj) -> Sequence[Step]:
        """Returns the steps of the start.

        Empty for a kind that first records the start in its status; it does so at the verdict STARTING.
        """
        ...


@runtime_checkable
class JobWithCustomWorkload(Protocol):
    """A kind whose spec and settings decide what labels decide for others.

    These are name, queue, labels and priority class of the Workload, and when the Workload still matches.
    """

    def workload_request(self, priority: Priority | None) -> WorkloadRequest: ...

    def workload_priority_class(self) -> str:
        """ "" for none, or for a class that must not change any more."""
        ...

    def fits(self, workload: Obj) -> bool:
        """True if the Workload requests what the job needs."""
        ...


@runtime_checkable
class JobWithReclaimablePods(Protocol):
    """A kind whose pods can end before the job and then need no quota."""

    def reclaimable_pods(self) -> Mapping[str, int]:
        """Returns the number of ended pods by pod set."""
        ...


@runtime_checkable
class JobWithCustomStop(Protocol):
    """A kind that is not stopped by a single patch."""

    def stop_steps(self, infos: Sequence[PodSetInfo] | None, reason: str, message: str) -> Sequence[Step]:
        """Returns the steps that stop the job; empty once it has stopped."""
        ...


@runtime_checkable
class JobWithFinalize(Protocol):
    """A kind with objects to delete when its Workload is no longer needed."""

    def finalize_steps(self) -> Sequence[Step]: ...


@runtime_checkable
class JobWithPriorityClass(Protocol):
    """A kind with a pod priority class of its own, for jobs without the label."""

    def priority_class(self) -> str: ...


@runtime_checkable
class JobWithCustomWorkloadActivation(Protocol):
    """A kind that can take its Workload out of the queue for a time (`spec.active: false`)."""

    def held_back(self) -> bool: ...


@runtime_checkable
class JobWithManagedBy(Protocol):
    """A kind with `spec.managedBy`, the name of the controller that runs the job after its admission."""

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
class Options:
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
