"""The table of the phases of a FournosJob, and those of other kinds; imported without the models.

A status may hold a phase that is not in the table, written by a newer operator: it is none of the sets below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Self


class Cause(StrEnum):
    """The class of what a job waits for: of an explanation, of a run of the history, and in metrics."""

    OPERATOR = "Operator"
    """No operator has written a status yet."""
    RESOLVER = "Resolver"
    SUSPENDED = "Suspended"
    RETRY = "Retry"
    """The backoff before the next attempt."""
    QUEUE_STOPPED = "QueueStopped"
    """The LocalQueue or the ClusterQueue is missing, stopped or inactive."""
    LOCK = "Lock"
    """The cluster is locked, or drained."""
    QUOTA = "Quota"
    PRIORITY = "Priority"
    """Quota is free, but other Workloads come first."""
    ADMISSION_CHECK = "AdmissionCheck"
    DISPATCH = "Dispatch"
    """The run is being created, on this cluster or on a worker."""
    IMAGE_PULL = "ImagePull"
    SCHEDULING = "Scheduling"
    """The pods of the run wait for a node."""
    STARTING = "Starting"
    """Pods are bound to nodes; no container of the run has started yet."""
    UNKNOWN = "Unknown"
    """The reason may not be read."""


CAUSE_OF_REASON: Final[Mapping[str, Cause]] = {
    "TopologyPlacementFailed": Cause.SCHEDULING,
    "PendingDelayedTopologyRequests": Cause.SCHEDULING,
    "AdmissionGated": Cause.ADMISSION_CHECK,
    "WaitingForPreemptedWorkloads": Cause.QUOTA,
    "WaitingForPodsReady": Cause.PRIORITY,
    "Misconfigured": Cause.QUEUE_STOPPED,
    "Suspended": Cause.QUEUE_STOPPED,
}
"""Kueue's reasons for not admitting a Workload, but for those that name its quota."""


@dataclass(frozen=True, slots=True)
class Traits:
    """What all readers have to know of a phase."""

    time: str
    """The field of `status.phaseTimes` that is set when a job enters it."""
    style: str
    """How terminals show it: a style of rich."""
    terminal: bool = False
    holds: bool = False
    """True if a job occupies its cluster in it."""
    runs: bool = False
    """True if a job has its PipelineRun in it, and has not ended."""
    queued: bool = True
    """False if it comes before the queue."""
    cause: str = ""
    """What a job waits for in it; "" if it does not wait, or for what its status shows."""


class Phase(StrEnum):
    traits: Traits

    def __new__(cls, value: str, traits: Traits) -> Self:
        phase = str.__new__(cls, value)
        phase._value_, phase.traits = value, traits
        return phase

    RESOLVING = "Resolving", Traits("resolving", "cyan", queued=False, cause=Cause.RESOLVER)
    PENDING = "Pending", Traits("pending", "yellow")
    ADMITTED = "Admitted", Traits("admitted", "blue", holds=True, cause=Cause.DISPATCH)
    RUNNING = "Running", Traits("running", "bold blue", holds=True, runs=True)
    SUCCEEDED = "Succeeded", Traits("finished", "green", terminal=True)
    FAILED = "Failed", Traits("finished", "bold red", terminal=True)
    STOPPING = "Stopping", Traits("stopping", "magenta", holds=True, runs=True)
    STOPPED = "Stopped", Traits("finished", "magenta", terminal=True)


NEW: Final = "New"
"""The displayed phase of an object that has no phase yet: no operator has reconciled it."""
TERMINAL: Final = frozenset(phase.value for phase in Phase if phase.traits.terminal)
HOLDING: Final = frozenset(phase.value for phase in Phase if phase.traits.holds)
RUNS: Final = frozenset(phase.value for phase in Phase if phase.traits.runs)
UNQUEUED: Final = frozenset({NEW, *(phase.value for phase in Phase if not phase.traits.queued)})
ACTIVE: Final = frozenset({NEW, *(phase.value for phase in Phase)}) - TERMINAL
BEFORE_RUN: Final = ACTIVE - RUNS
"""The phases in which no task has begun."""
PHASE_TIME: Final[Mapping[str, str]] = {
    phase.value: phase.traits.time for phase in sorted(Phase, key=lambda phase: phase.traits.terminal)
}
"""Phase → the field of `status.phaseTimes` with the time of entering it, in the order of a job's life."""
OF_APPWRAPPERS: Final = (
    *("Suspended", "Resuming", "Running", "Resetting", "Suspending", "Terminating", "Succeeded", "Failed"),
)
OF_MINICLUSTERS: Final = ("Waiting", "Running", "Ready", "Finished")


def run_times(job: Mapping[str, Any]) -> tuple[str, str]:
    """Returns when a FournosJob last began to run and when it ended, in RFC 3339; "" until then.

    It runs from entering Running, when its PipelineRun is made, to its end: all that show how long a job ran
    go by this.
    """
    status = job.get("status") or {}
    times = status.get("phaseTimes") or {}
    ended = times.get("finished") if status.get("phase") in TERMINAL else ""
    return str(times.get("running") or ""), str(ended or "")
