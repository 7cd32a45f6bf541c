"""The status of a FournosCluster under construction: one draft a pass, written once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from fournos.api.conditions import Condition, condition, upsert
from fournos.api.times import parse_time
from fournos.kube.resource import Obj
from fournos.runtime.decision import Note

MESSAGE_MAX = 1024


class StatusDraft:
    """A copy of the status with the changes of this pass, and the events that go with them."""

    def __init__(self, cluster: Obj, now: datetime) -> None:
        self._cluster = cluster
        self._now = now
        self._status: dict[str, Any] = dict(cluster.get("status") or {})
        self.notes: list[Note] = []

    def get(self, name: str) -> Any:
        return self._status.get(name)

    def group(self, name: str) -> dict[str, Any]:
        """A copy of a field that is an object."""
        return dict(self._status.get(name) or {})

    def time(self, name: str) -> datetime | None:
        found = self._status.get(name)
        return parse_time(found) if found else None

    def put(self, **fields: Any) -> StatusDraft:
        """Set top-level fields (camelCase); None removes one."""
        for name, value in fields.items():
            if value is None:
                self._status.pop(name, None)
            else:
                self._status[name] = value
        return self

    def condition(self, type_: str, status: str, reason: str, message: str) -> StatusDraft:
        self._status["conditions"] = upsert(
            self._status.get("conditions") or (),
            Condition(type_, status, reason, message[:MESSAGE_MAX]),
            now=self._now,
            generation=self._cluster["metadata"].get("generation"),
        )
        return self

    def tell(self, type_: str, status: str, reason: str, message: str) -> StatusDraft:
        """A condition, with an event when its reason is news."""
        if self.reason_of(type_) != reason:
            self.note(reason, message, warning=status == "False")
        return self.condition(type_, status, reason, message)

    def reason_of(self, type_: str) -> str:
        return str((condition({"status": self._status}, type_) or {}).get("reason") or "")

    def is_true(self, type_: str) -> bool:
        return (condition({"status": self._status}, type_) or {}).get("status") == "True"

    def is_false(self, type_: str) -> bool:
        return (condition({"status": self._status}, type_) or {}).get("status") == "False"

    def note(self, reason: str, message: str, *, warning: bool = False) -> StatusDraft:
        self.notes.append(Note("Warning" if warning else "Normal", reason, message[:MESSAGE_MAX]))
        return self

    def done(self) -> Mapping[str, Any]:
        generation = self._cluster["metadata"].get("generation")
        if generation is not None:
            self._status["observedGeneration"] = generation
        return self._status
