"""What the framework reads beside the job, and what it comes to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import Enum

from fournos.kube.resource import Key, Obj
from fournos.runtime.decision import EventRecord
from fournos.runtime.steps import Step


@dataclass(frozen=True, slots=True)
class Ancestor:
    """The top-most queued owner of a job: the job runs on its quota and gets no Workload of its own."""

    key: Key
    kind: str
    workload: Obj | None = None
    """Its newest Workload that is not finished."""


@dataclass(frozen=True, slots=True)
class Share:
    """What of an owner's admission is for one of the objects that it made."""

    flavors: Mapping[str, str]
    """resource -> ResourceFlavor, where there is one."""
    amounts: Mapping[str, Decimal]
    """resource -> how much of it Kueue has charged."""


@dataclass(frozen=True, slots=True)
class QueueInputs:
    workloads: tuple[Obj, ...] = ()
    """Those that name the job as owner."""
    prebuilt: Obj | None = None
    """The Workload that the job's label names, whoever made it."""
    flavors: Mapping[str, Obj] = field(default_factory=dict)
    workload_classes: Mapping[str, Obj] = field(default_factory=dict)
    pod_classes: Mapping[str, Obj] = field(default_factory=dict)
    ancestor: Ancestor | None = None


class Verdict(Enum):
    """Where the job stands with Kueue, after the outcome's steps."""

    NOT_QUEUED = "NotQueued"
    """Kueue has no say: no queue name."""
    NESTED = "Nested"
    """It runs on an ancestor's quota."""
    WAITING = "Waiting"
    STARTING = "Starting"
    ADMITTED = "Admitted"
    STOPPING = "Stopping"
    """Its quota is lost, or was never there; it holds on to what it has until all has stopped."""
    BLOCKED = "Blocked"
    """Something must exist first; the message says what."""
    ELSEWHERE = "Elsewhere"
    """Another cluster runs it; here it has its Workload, and nothing else is done about it."""
    FINISHED = "Finished"
    GONE = "Gone"


@dataclass(frozen=True, slots=True)
class Outcome:
    verdict: Verdict
    reason: str = ""
    message: str = ""
    steps: tuple[Step, ...] = ()
    events: tuple[EventRecord, ...] = ()
    retry: bool = False
    workload: Obj | None = None
    """Of STARTING: the Workload as it was confirmed."""
    ancestor: Ancestor | None = None
    """Of NESTED."""
