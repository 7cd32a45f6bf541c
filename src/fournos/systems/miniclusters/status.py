"""The status draft of a MiniCluster. Each pass has one draft and writes it once."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Self

from fournos.api.minicluster import MiniClusterStatus
from fournos.engine.api.values import format_time
from fournos.engine.kube.resource import Obj
from fournos.engine.runtime.status_draft import Draft, read

REQUESTED: Final = "JobRequested"
WAITING: Final = "JobWaitingForResources"
RUNNING: Final = "JobRunning"
READY: Final = "JobMiniClusterReady"
FINISHED: Final = "JobFinished"
SIDECAR_FAILED: Final = "JobSidecarFailed"
"""Set only after a sidecar has failed."""


def summary_of(minicluster: Obj) -> MiniClusterStatus:
    """Returns phase, sizes and result of the status, without the conditions."""
    status = minicluster.get("status") or {}
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
