"""What one pass over a Workload works with: facts in, a status draft and a decision out."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from fournos.api.conditions import Condition, condition, is_true, upsert
from fournos.api.times import format_time
from fournos.kube.resource import Key, Obj, Resource, uid_of
from fournos.multikueue import names
from fournos.multikueue.settings import MultiKueueSettings
from fournos.multikueue.workers import Order, Send, Trouble
from fournos.runtime.decision import Decision, Facts, Note
from fournos.runtime.steps import Step

MESSAGE_MAX = 1024


@dataclass(frozen=True, slots=True)
class Remote:
    """A worker, and what of one Workload is there."""

    name: str
    listed: bool
    """The check's MultiKueueConfig names it."""
    usable: bool
    """Reachable, and all its watches are up to date."""
    hindrance: str = ""
    workload: Obj | None = None
    jobs: tuple[tuple[Resource, Obj], ...] = ()
    busy: bool = False
    trouble: Trouble | None = None
    looked: str = ""
    lost_since: datetime | None = None
    """Since when it cannot be used, as the AdmissionCheck has it: a restart does not reset it."""

    @property
    def empty(self) -> bool:
        return self.workload is None and not self.jobs


@dataclass(frozen=True, slots=True)
class Observed:
    """A Workload of the manager, and what workers have of it."""

    key: Key
    workload: Obj | None
    """None: it is gone, and something of it is left on a worker."""
    check: Obj | None
    """The AdmissionCheck of ours that it waits for, or waited."""
    kind: Resource | None
    """Of the job that owns it, if it is one that we take to workers."""
    job: Obj | None
    remotes: tuple[Remote, ...]
    """All workers, those of the check's MultiKueueConfig first, in its order."""


@dataclass(slots=True)
class Context:
    observed: Observed
    facts: Facts
    now: datetime
    settings: MultiKueueSettings
    steps: list[Step] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    deadlines: list[datetime] = field(default_factory=list)
    status: dict[str, Any] = field(init=False)
    """The wanted status of the Workload."""

    def __post_init__(self) -> None:
        self.status = dict((self.observed.workload or {}).get("status") or {})

    @property
    def workload(self) -> Obj:
        assert self.observed.workload is not None
        return self.observed.workload

    @property
    def claim(self) -> str:
        """The worker that has won."""
        return str(self.status.get("clusterName") or "")

    @property
    def nominated(self) -> tuple[str, ...]:
        return tuple(self.status.get("nominatedClusterNames") or ())

    @property
    def reserved_at(self) -> str:
        """When the manager gave it quota."""
        return since(self.workload, "QuotaReserved")

    @property
    def attempt(self) -> str:
        """Each reservation of quota begins a new one; two within a second have an eviction between."""
        stats = (self.workload.get("status") or {}).get("schedulingStats") or {}
        count = sum(int(one.get("count") or 0) for one in stats.get("evictions") or ())
        return f"{self.reserved_at}/{count}"

    @property
    def state(self) -> str:
        return str(self._entry().get("state") or "Pending")

    # --- whose is what a worker has ---

    def is_current(self, obj: Obj) -> bool:
        """Of this attempt of this Workload and job, not of an earlier one."""
        found = obj["metadata"].get("annotations") or {}
        if found.get(names.ATTEMPT) != self.attempt:
            return False
        if names.WORKLOAD_UID in found:
            return bool(found[names.WORKLOAD_UID] == uid_of(self.workload))
        return self.observed.job is not None and found.get(names.JOB_UID) == uid_of(self.observed.job)

    def current(self, remote: Remote) -> Obj | None:
        """Its Workload, if that is of this attempt."""
        found = remote.workload
        return found if found is not None and self.is_current(found) else None

    def mirror(self, remote: Remote) -> Obj | None:
        """The job's copy there, if that is of this attempt."""
        kind = self.observed.kind
        return next((job for of, job in remote.jobs if of == kind and self.is_current(job)), None)

    def refused(self, remote: Remote) -> bool:
        """It will not take this attempt, however long one waits."""
        trouble = remote.trouble
        return trouble is not None and trouble.final and trouble.attempt == self.attempt

    # --- results ---

    def send(self, remote: Remote, order: Order) -> None:
        self.steps.append(Send(remote.name, self.observed.key, order))

    def wake(self, when: datetime) -> None:
        self.deadlines.append(when)

    def note(self, reason: str, message: str, *, warning: bool = False) -> None:
        self.notes.append(Note("Warning" if warning else "Normal", reason, message[:MESSAGE_MAX]))

    def tell(self, state: str, message: str) -> None:
        """The check's state and message; an event when the state is news."""
        before = self._entry()
        changed = before.get("state") != state
        if not changed and before.get("message") == message:
            return
        name = self._check_name()
        entry = {**before, "name": name, "state": state, "message": message[:MESSAGE_MAX]}
        if changed or not before.get("lastTransitionTime"):
            entry["lastTransitionTime"] = format_time(self.now)
        self.status["admissionChecks"] = [
            entry if one["name"] == name else one for one in self.status.get("admissionChecks") or ()
        ]
        if changed:
            self.note("MultiKueue", message, warning=state in ("Retry", "Rejected"))

    def put(self, *, cluster: str | None, nominated: tuple[str, ...] = ()) -> None:
        """Kueue's rule: only one of the two at a time."""
        for name, value in (("clusterName", cluster), ("nominatedClusterNames", list(nominated) or None)):
            if value is None:
                self.status.pop(name, None)
            else:
                self.status[name] = value

    def finish(self, reason: str, message: str) -> None:
        self.status["conditions"] = upsert(
            self.status.get("conditions") or (),
            Condition("Finished", "True", reason, message),
            now=self.now,
            generation=self.workload["metadata"].get("generation"),
        )

    def decision(self, *, retry: bool = False) -> Decision:
        return Decision(
            steps=tuple(self.steps),
            status=self.status if self.observed.workload is not None else None,
            notes=tuple(self.notes),
            wake_at=min(self.deadlines, default=None),
            retry=retry,
        )

    def _check_name(self) -> str:
        assert self.observed.check is not None
        return str(self.observed.check["metadata"]["name"])

    def _entry(self) -> dict[str, Any]:
        if self.observed.check is None:
            return {}
        name = self._check_name()
        found = (one for one in self.status.get("admissionChecks") or () if one["name"] == name)
        return dict(next(found, {}))


def since(obj: Obj, *types: str) -> str:
    """When the first of these conditions that is there last changed."""
    for type_ in types:
        if found := condition(obj, type_):
            return str(found["lastTransitionTime"])
    return ""


def holds_quota(workload: Obj) -> bool:
    return is_true(workload, "QuotaReserved") and not is_true(workload, "Finished")
