"""The input of the framework beside the job, and the outcome of its pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from fournos.engine.kube.resource import Key, Obj
from fournos.engine.runtime.decision import EventRecord, Step


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
