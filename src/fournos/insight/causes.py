"""What a job can wait for, as classes that explanations and the waiting ledger of the history share."""

from __future__ import annotations

from enum import StrEnum


class Cause(StrEnum):
    """The class of what a job waits for: of an explanation, and of an interval of the waiting ledger."""

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
    """Not observed: the recorder did not run, or lacked the right to read the reason."""
