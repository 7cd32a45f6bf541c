"""The status under construction: one draft a pass, written once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from fournos.api.conditions import Condition, condition, upsert
from fournos.api.times import format_time
from fournos.kube.resource import Obj
from fournos.runtime.decision import Note

REQUESTED: Final = "JobRequested"
WAITING: Final = "JobWaitingForResources"
RUNNING: Final = "JobRunning"
READY: Final = "JobMiniClusterReady"
FINISHED: Final = "JobFinished"


class StatusDraft:
    """A copy of a MiniCluster's status with the changes of this pass, and the events that go with them."""

    def __init__(self, minicluster: Obj, now: datetime) -> None:
        self._now = now
        self._generation = minicluster["metadata"].get("generation")
        self._status: dict[str, Any] = dict(minicluster.get("status") or {})
        self.notes: list[Note] = []

    # --- reading ---

    @property
    def phase(self) -> str:
        return str(self._status.get("phase") or "")

    @property
    def begun(self) -> bool:
        """Whether something was made for it that has not been taken down since: the claim."""
        return bool(self._status.get("maximumSize"))

    @property
    def maximum(self) -> int:
        return int(self._status.get("maximumSize") or 0)

    @property
    def size(self) -> int:
        return int(self._status.get("size") or 0)

    @property
    def finished(self) -> bool:
        return self.phase == "Finished"

    @property
    def ended(self) -> bool:
        """Whether the result is known; letting go may still be under way."""
        return bool(self._status.get("finishedAt"))

    @property
    def exit_code(self) -> int | None:
        found = self._status.get("exitCode")
        return None if found is None else int(found)

    @property
    def message(self) -> str:
        return str(self._status.get("message") or "")

    def found(self, type_: str) -> Mapping[str, Any]:
        return condition({"status": self._status}, type_) or {}

    def is_true(self, type_: str) -> bool:
        return self.found(type_).get("status") == "True"

    # --- changing ---

    def condition(self, type_: str, holds: bool, reason: str, message: str = "") -> StatusDraft:
        self._status["conditions"] = upsert(
            self._status.get("conditions") or (),
            Condition(type_, str(holds), reason, message),
            now=self._now,
            generation=self._generation,
        )
        return self

    def put(self, **fields: Any) -> StatusDraft:
        """Fields by their JSON names; None removes one."""
        self._status |= fields
        return self

    def phased(self, phase: str, message: str) -> StatusDraft:
        return self.put(phase=phase, message=message)

    def claim(self, maximum: int, selector: str) -> StatusDraft:
        """Something is about to be made, for as many hosts."""
        return self.put(
            maximumSize=maximum, selector=selector, exitCode=None, finishedAt=None, startedAt=None
        )

    def unclaim(self) -> StatusDraft:
        """All of it is gone."""
        return self.put(maximumSize=None, size=0, ready=0, jobid=None, startedAt=None)

    def end(self, exit_code: int | None, reason: str, message: str) -> StatusDraft:
        """The result; written before anything is let go for it."""
        self.put(exitCode=exit_code, finishedAt=format_time(self._now), message=message)
        return self.condition(RUNNING, False, reason, message)

    def note(self, reason: str, message: str, *, warning: bool = False) -> StatusDraft:
        self.notes.append(Note("Warning" if warning else "Normal", reason, message))
        return self

    def done(self) -> Obj:
        return self._status
