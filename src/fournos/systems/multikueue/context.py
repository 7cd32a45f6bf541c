"""State of one reconcile pass of a Workload: observed objects, facts, a status draft and collected steps."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.resource import Key, Obj, Resource, key_of, merge_patch, uid_of
from fournos.engine.runtime.context import PassContext
from fournos.engine.runtime.decision import Decision, Facts
from fournos.engine.runtime.steps import Patch, Step
from fournos.systems.multikueue import names
from fournos.systems.multikueue.build import mirrored_status
from fournos.systems.multikueue.settings import MultiKueueSettings
from fournos.systems.multikueue.status import WorkloadDraft
from fournos.systems.multikueue.workers import RemoteFailure, RemoteStep, Send


@dataclass(frozen=True, slots=True)
class Remote:
    """A worker, and the objects of one Workload that exist there."""

    name: str
    listed: bool
    """True if the check's MultiKueueConfig lists the worker."""
    usable: bool
    """True if the worker is reachable and all its watches are up to date."""
    unusable_reason: str = ""
    workload: Obj | None = None
    jobs: tuple[tuple[Resource, Obj], ...] = ()
    busy: bool = False
    failure: RemoteFailure | None = None
    last_read: str = ""
    lost_since: datetime | None = None
    """The time since which the worker is unusable, from the AdmissionCheck's condition.

    A restart of the operator does not reset it.
    """

    @property
    def empty(self) -> bool:
        return self.workload is None and not self.jobs


@dataclass(frozen=True, slots=True)
class Observed:
    """A Workload of the manager cluster, and its objects on workers."""

    key: Key
    workload: Obj | None
    """The Workload, or None if it is gone and a worker still has objects of it."""
    check: Obj | None
    """The AdmissionCheck of this adapter on the Workload, or None."""
    kind: Resource | None
    """The type of the owning job, if this adapter dispatches that type."""
    job: Obj | None
    remotes: tuple[Remote, ...]
    """All workers; those of the check's MultiKueueConfig come first, in its order."""


@dataclass(slots=True)
class Context(PassContext):
    """The state of one pass: what was observed, the facts, the status draft, and the steps so far."""

    observed: Observed
    facts: Facts
    now: datetime
    settings: MultiKueueSettings
    steps: list[Step] = field(default_factory=list)
    deadlines: list[datetime] = field(default_factory=list)
    draft: WorkloadDraft = field(init=False)

    def __post_init__(self) -> None:
        check = self.observed.check
        name = str(check["metadata"]["name"]) if check is not None else ""
        self.draft = WorkloadDraft(self.observed.workload or {"metadata": {}}, self.now, check=name)

    @property
    def obj(self) -> Obj:
        assert self.observed.workload is not None
        return self.observed.workload

    @property
    def workload(self) -> Obj:
        return self.obj

    @property
    def reserved_at(self) -> str:
        """The time at which the manager cluster reserved quota, as an RFC 3339 text."""
        return since(self.workload, "QuotaReserved")

    @property
    def attempt(self) -> str:
        """The identifier of the current attempt.

        Each quota reservation starts an attempt.  Times have a resolution of one second; of two reservations
        within the same second the number of evictions differs.
        """
        stats = (self.workload.get("status") or {}).get("schedulingStats") or {}
        count = sum(int(one.get("count") or 0) for one in stats.get("evictions") or ())
        return f"{self.reserved_at}/{count}"

    # --- what a worker has: of which attempt it is ---

    def is_current(self, obj: Obj) -> bool:
        """Returns True if an object on a worker belongs to this attempt of this Workload and job."""
        annotations = obj["metadata"].get("annotations") or {}
        if annotations.get(names.ATTEMPT) != self.attempt:
            return False
        if names.WORKLOAD_UID in annotations:
            return bool(annotations[names.WORKLOAD_UID] == uid_of(self.workload))
        return self.observed.job is not None and annotations.get(names.JOB_UID) == uid_of(self.observed.job)

    def current(self, remote: Remote) -> Obj | None:
        """Returns the remote Workload if it belongs to this attempt, else None."""
        found = remote.workload
        return found if found is not None and self.is_current(found) else None

    def mirror(self, remote: Remote) -> Obj | None:
        """Returns the remote copy of the job if it belongs to this attempt, else None."""
        kind = self.observed.kind
        return next((job for of, job in remote.jobs if of == kind and self.is_current(job)), None)

    def refused(self, remote: Remote) -> bool:
        """Returns True if the worker refuses this attempt permanently."""
        failure = remote.failure
        return failure is not None and failure.permanent and failure.attempt == self.attempt

    # --- results ---

    def send(self, remote: Remote, step: RemoteStep) -> None:
        """Adds a step that is queued for a worker."""
        self.steps.append(Send(remote.name, self.observed.key, step))

    def copy_status(self, mirror: Obj | None) -> None:
        """Adds a patch with the job's status on the worker to the job on the manager cluster.

        Does nothing while the worker has no status, so that an empty status does not replace an older one.
        """
        job, kind = self.observed.job, self.observed.kind
        if job is None or kind is None or mirror is None or not mirror.get("status"):
            return
        changes = merge_patch(job.get("status") or {}, mirrored_status(job, mirror))
        if changes:
            # The UID is a precondition: a new job of the same name must not get this status.
            body = {"metadata": {"uid": uid_of(job)}, "status": changes}
            self.steps.append(Patch(kind, key_of(job), body, subresource="status"))

    def wake(self, when: datetime) -> None:
        """Adds a deadline: the Workload is reconciled again at this time at the latest."""
        self.deadlines.append(when)

    def gathered(self) -> Decision:
        """Returns the decision with the steps and deadlines that the pass has collected."""
        return Decision(
            steps=tuple(self.steps),
            status=self.draft.render() if self.observed.workload is not None else None,
            events=tuple(self.draft.events),
            wake_at=min(self.deadlines, default=None),
        )


def since(obj: Obj, *types: str) -> str:
    """Returns the last transition time of the first of these conditions that exists, or ""."""
    for type_ in types:
        if found := condition(obj, type_):
            return str(found["lastTransitionTime"])
    return ""


def holds_quota(workload: Obj) -> bool:
    """Returns True if a Workload has reserved quota and is not finished."""
    return is_true(workload, "QuotaReserved") and not is_true(workload, "Finished")
