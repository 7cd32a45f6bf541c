"""The status draft of a MiniCluster. Each pass has one draft and writes it once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Self

from fournos.api.kinds import MINICLUSTER
from fournos.api.minicluster import MiniClusterStatus
from fournos.engine.api.conditions import is_true
from fournos.engine.api.values import format_time, parse_count
from fournos.engine.kube.resource import JOB, POD, Key, Obj, Resource, controller_of, controls, uid_of
from fournos.engine.queueing.job import QueueInputs
from fournos.engine.runtime.context import Draft, PassContext, read
from fournos.engine.runtime.decision import Absent, Facts, LiveGet, LiveList, Present
from fournos.systems.miniclusters import names
from fournos.systems.miniclusters.settings import MiniClusterSettings

REQUESTED: Final = "JobRequested"
WAITING: Final = "JobWaitingForResources"
RUNNING: Final = "JobRunning"
READY: Final = "JobMiniClusterReady"
FINISHED: Final = "JobFinished"
SIDECAR_FAILED: Final = "JobSidecarFailed"
"""Set only after a sidecar has failed."""


def summary_of(minicluster: Obj) -> MiniClusterStatus:
    """Returns phase, sizes and result of the status, without the conditions."""
    status = minicluster.get("status")
    status = status if isinstance(status, Mapping) else {}
    return read(MiniClusterStatus, status, "maximumSize", "phase", "exitCode", "message", "ready")


class StatusDraft(Draft):
    """A copy of a MiniCluster's status with the changes of this pass, and the events to record with them."""

    # --- reading ---

    @property
    def begun(self) -> bool:
        """True if the claim is set: objects were created and not all of them are gone."""
        return bool(self.maximum)

    @property
    def maximum(self) -> int:
        return read(MiniClusterStatus, self._status, "maximumSize").maximum_size or 0

    @property
    def size(self) -> int:
        return read(MiniClusterStatus, self._status, "size").size or 0

    @property
    def finished(self) -> bool:
        return self.phase == "Finished"

    @property
    def ended(self) -> bool:
        """True if the result is written. Pods may still be running."""
        return read(MiniClusterStatus, self._status, "finishedAt").finished_at is not None

    @property
    def started_at(self) -> datetime | None:
        return read(MiniClusterStatus, self._status, "startedAt").started_at

    @property
    def exit_code(self) -> int | None:
        return read(MiniClusterStatus, self._status, "exitCode").exit_code

    # --- changing ---

    def phased(self, phase: str, message: str) -> Self:
        return self.put(phase=phase, message=message)

    def claim(self, maximum: int, selector: str) -> Self:
        """Sets the claim for so many hosts. It is written before any object is created."""
        return self.put(
            maximumSize=maximum, selector=selector, exitCode=None, finishedAt=None, startedAt=None
        )

    def unclaim(self) -> Self:
        """Removes the claim, after all objects are gone."""
        return self.put(maximumSize=None, size=0, ready=0, jobid=None, startedAt=None)

    def end(self, exit_code: int | None, reason: str, message: str) -> Self:
        """Sets the result. It is written before anything is taken down."""
        self.put(exitCode=exit_code, finishedAt=format_time(self._now), message=message)
        return self.condition(RUNNING, False, reason, message)


# --- the state of a pass -------------------------------------------------------------------------------
# The input of one pass over a MiniCluster, and the place where its policies collect their results.


@dataclass(frozen=True, slots=True)
class Observed:
    """A MiniCluster and what the caches hold about it."""

    key: Key
    minicluster: Obj
    made: Mapping[tuple[Resource, str], Obj] = field(default_factory=dict)
    """All objects with its label or its Service's name, by resource type and name, with any owner."""
    pods: tuple[Obj, ...] = ()
    """The pods with its label."""
    inputs: QueueInputs = field(default_factory=QueueInputs)


@dataclass(slots=True)
class Context(PassContext):
    """One pass: the observed state, and the draft that the policies change."""

    resource = MINICLUSTER
    finalizer_name = names.FINALIZER

    observed: Observed
    facts: Facts
    now: datetime
    settings: MiniClusterSettings
    draft: StatusDraft = field(init=False)

    def __post_init__(self) -> None:
        self.draft = StatusDraft(self.minicluster, self.now)

    @property
    def obj(self) -> Obj:
        return self.observed.minicluster

    @property
    def minicluster(self) -> Obj:
        return self.observed.minicluster

    @property
    def spec(self) -> Mapping[str, Any]:
        return self.minicluster.get("spec") or {}

    @property
    def suspended(self) -> bool:
        return bool(self.spec.get("suspend"))

    # --- existing objects: from the API server if this pass has read them live, otherwise from the cache ---

    def part(self, resource: Resource, name: str) -> Obj | None:
        """Returns an object that this MiniCluster owns, or None."""
        answer = self.facts.get(LiveGet(resource, Key(self.namespace, name)))
        obj = self.observed.made.get((resource, name))
        if isinstance(answer, Present):
            obj = answer.value
        elif isinstance(answer, Absent):
            obj = None
        return obj if obj is not None and self.owns(obj) else None

    @property
    def job(self) -> Obj | None:
        return self.part(JOB, self.name)

    @property
    def job_question(self) -> LiveGet:
        return LiveGet(JOB, Key(self.namespace, self.name))

    @property
    def pods_question(self) -> LiveList:
        return LiveList(POD, self.namespace, f"{names.MINICLUSTER_LABEL}={self.name}")

    @property
    def all_pods(self) -> tuple[Obj, ...]:
        """Our pods: those of the Job, and the services pod."""
        answer = self.facts.get(self.pods_question)
        found = answer.value if isinstance(answer, Present) else self.observed.pods
        return tuple(pod for pod in found if self._ours(pod))

    def _ours(self, pod: Obj) -> bool:
        """True if the pod is ours.

        A pod of an earlier MiniCluster with this name counts as long as it exists, because it has the host
        name.
        """
        owner = controller_of(pod) or {}
        return owner.get("uid") == uid_of(self.minicluster) or (
            owner.get("kind") == JOB.kind and owner.get("name") == self.name
        )

    @property
    def pods(self) -> tuple[Obj, ...]:
        """The pods of the current Job."""
        job = self.job
        if job is None:
            return ()
        return tuple(pod for pod in self.all_pods if controls(job, pod))

    @property
    def alive(self) -> tuple[Obj, ...]:
        """The pods that still use resources, of whichever Job."""
        return tuple(pod for pod in self.all_pods if not terminal(pod))

    # --- Kueue ---

    @property
    def workload(self) -> Obj | None:
        """The Workload whose quota it uses: its own, or the prebuilt one; None if there is neither."""
        inputs = self.observed.inputs
        owned = [one for one in inputs.workloads if self.owns(one) and is_true(one, "QuotaReserved")]
        if owned:
            return owned[0]
        prebuilt = inputs.prebuilt
        return prebuilt if prebuilt is not None and self.owns(prebuilt) else None


def terminal(pod: Obj) -> bool:
    """True if the pod's phase is Succeeded or Failed."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def index_of(pod: Obj) -> int | None:
    """Returns the pod's completion index; None for the services pod."""
    return parse_count((pod["metadata"].get("labels") or {}).get(names.COMPLETION_INDEX_LABEL))


def over(job: Obj) -> set[int]:
    """Returns the indexes that the Job does not run again.

    They are read from its status, which has lists such as "1,3-5".
    """
    status, indexes = job.get("status") or {}, set[int]()
    for key in ("completedIndexes", "failedIndexes"):
        for part in filter(None, str(status.get(key) or "").split(",")):
            first, _, last = part.partition("-")
            indexes.update(range(int(first), int(last or first) + 1))
    return indexes
