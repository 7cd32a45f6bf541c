"""What a job kind tells the framework: a small protocol that all kinds have, and what some add.

An object of these is made from one observed object and asked; nothing of it does I/O or remembers.  The
optional protocols are recognised by their methods, as Kueue's own job framework does it.
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
    """How a job came to its end."""

    succeeded: bool
    message: str
    reason: str = ""
    """Of the Workload's end; "": Succeeded or Failed."""


class GenericJob(Protocol):
    """What every job kind answers."""

    @property
    def resource(self) -> Resource: ...

    @property
    def obj(self) -> Obj: ...

    def pod_sets(self) -> Sequence[PodSet]:
        """What it asks quota for, without anything that an admission has put in."""
        ...

    def is_suspended(self) -> bool: ...

    def is_active(self) -> bool:
        """Whether anything of it may still use the quota that it was given."""
        ...

    def finished(self) -> Ended | None: ...

    def pods_ready(self) -> bool: ...


@runtime_checkable
class JobWithStartPatch(Protocol):
    """A kind that is placed and unsuspended by one patch of the job, and suspended by another."""

    def start(self, infos: Sequence[PodSetInfo]) -> Obj:
        """The merge patch that places and unsuspends it.

        Raises PodSetInfoError if the infos cannot be put into it; trying again would not help.
        """
        ...

    def stop(self, infos: Sequence[PodSetInfo] | None) -> Obj:
        """The merge patch that suspends it and takes the infos out; None: its Workload is not known."""
        ...


@runtime_checkable
class JobWithCustomStart(Protocol):
    """A kind whose pods are made from objects of its own, not placed by a patch of the job."""

    def start_steps(self, workload: Obj) -> Sequence[Step]:
        """The steps of the start.  Empty for a kind that records the start in its status first: it does so
        on the verdict STARTING."""
        ...


@runtime_checkable
class JobWithCustomWorkload(Protocol):
    """A kind whose spec and settings decide what labels decide for others: name, queue, labels and priority
    class of the Workload, and when it still fits."""

    def workload_request(self, priority: Priority | None) -> WorkloadRequest: ...

    def workload_priority_class(self) -> str:
        """ "" for none, or for one that is not to be changed any more."""
        ...

    def fits(self, workload: Obj) -> bool:
        """Whether the Workload asks for what the job needs."""
        ...


@runtime_checkable
class JobWithReclaimablePods(Protocol):
    """Pods that have ended and need their quota no more."""

    def reclaimable_pods(self) -> Mapping[str, int]:
        """pod set -> how many."""
        ...


@runtime_checkable
class JobWithCustomStop(Protocol):
    """A kind that one patch does not stop."""

    def stop_steps(self, infos: Sequence[PodSetInfo] | None, reason: str, message: str) -> Sequence[Step]:
        """Empty when it has stopped."""
        ...


@runtime_checkable
class JobWithFinalize(Protocol):
    """A kind with something to take down when its Workload is of no more use."""

    def finalize_steps(self) -> Sequence[Step]: ...


@runtime_checkable
class JobWithPriorityClass(Protocol):
    """A kind with a pod priority class of its own, for jobs without the label."""

    def priority_class(self) -> str: ...


@runtime_checkable
class JobWithCustomWorkloadActivation(Protocol):
    """A kind that takes its Workload out of the queue for a time (`spec.active: false`)."""

    def held_back(self) -> bool: ...


@runtime_checkable
class JobWithManagedBy(Protocol):
    """A kind with `spec.managedBy`: which controller runs it, after it was admitted."""

    def managed_by(self) -> str | None: ...


def kind_name_hash(job: GenericJob) -> str:
    return generic_name(
        kind=job.resource.kind,
        group=job.resource.group,
        name=job.obj["metadata"]["name"],
        uid=uid_of(job.obj),
    )


@dataclass(frozen=True, slots=True)
class Options:
    """How a kind's Workloads are treated."""

    without_queue_name: bool = False
    """Kueue's manageJobsWithoutQueueName: jobs without the label are queued too, under their "" queue."""
    pods_ready: bool = True
    """Report the condition PodsReady; harmless where Kueue's waitForPodsReady is off."""
    confirm_start: bool = True
    """Read an admission live before the start.  Not needed before the first start of a job whose starts are
    counted: no earlier admission can be mistaken for this one."""
    labels_to_copy: tuple[str, ...] = ()
    """Kueue's integrations.labelKeysToCopy."""
