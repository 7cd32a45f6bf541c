"""What a pass over a Workload collects: the status of this adapter's fields, and steps for both sides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from fournos.engine.api.conditions import condition, is_true
from fournos.engine.api.values import format_time
from fournos.engine.kube.resource import Obj, key_of, merge_patch, uid_of
from fournos.engine.runtime.context import Draft, PassContext
from fournos.engine.runtime.decision import Decision, Facts, Patch, Step
from fournos.systems.multikueue import names
from fournos.systems.multikueue.build import mirrored_status
from fournos.systems.multikueue.observe import Observed, Remote
from fournos.systems.multikueue.remote import RemoteStep, Send
from fournos.systems.multikueue.settings import MultiKueueSettings

MESSAGE_MAX = 1024


class WorkloadDraft(Draft):
    """A copy of a Workload's status with the changes and events of this pass."""

    def __init__(self, workload: Obj, now: datetime, *, check: str) -> None:
        """`check` is the name of this adapter's AdmissionCheck, "" if the Workload has none."""
        super().__init__(workload, now)
        self._check = check

    # --- reading ---

    @property
    def cluster_name(self) -> str:
        """The name of the winning worker, or ""."""
        return str(self._status.get("clusterName") or "")

    @property
    def nominated(self) -> tuple[str, ...]:
        return tuple(self._status.get("nominatedClusterNames") or ())

    @property
    def check_state(self) -> str:
        return str(self._entry().get("state") or "Pending")

    @property
    def other_checks_ready(self) -> bool:
        checks = self._status.get("admissionChecks") or ()
        return all(one.get("state") == "Ready" for one in checks if one["name"] != self._check)

    def _entry(self) -> Mapping[str, Any]:
        checks = self._status.get("admissionChecks") or ()
        return next((one for one in checks if self._check and one["name"] == self._check), {})

    # --- changing ---

    def check(self, state: str, message: str) -> None:
        """Sets the state and message of this adapter's check; records an event when the state changes."""
        before = self._entry()
        changed = before.get("state") != state
        entry = {**before, "name": self._check, "state": state, "message": message[:MESSAGE_MAX]}
        if changed or not before.get("lastTransitionTime"):
            entry["lastTransitionTime"] = format_time(self._now)
        checks = self._status.get("admissionChecks") or ()
        self.put(admissionChecks=[entry if one["name"] == self._check else one for one in checks])
        if changed:
            self.event("MultiKueue", message, warning=state in ("Retry", "Rejected"))

    def claim(self, cluster: str | None, nominated: tuple[str, ...] = ()) -> None:
        """Sets the winner or the nominated workers; Kueue accepts only one of the two at a time."""
        self.put(clusterName=cluster, nominatedClusterNames=list(nominated) or None)

    def finish(self, reason: str, message: str) -> None:
        self.condition("Finished", True, reason, message)


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
