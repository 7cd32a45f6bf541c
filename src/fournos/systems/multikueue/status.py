"""The status draft of a Workload on the manager cluster, for the fields of this adapter."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fournos.engine.api.values import format_time
from fournos.engine.kube.resource import Obj
from fournos.engine.runtime.status_draft import Draft

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
