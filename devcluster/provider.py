"""The interface of the providers of clusters."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from devcluster.progress import Progress
from devcluster.state import Record


@dataclass(frozen=True)
class ComponentStatus:
    """One row of `status`. `detail` is why the component is not running, or what runs it."""

    component: str
    state: Literal["running", "failed", "starting", "absent"]
    detail: str = ""


class Provider(Protocol):
    """A kind of cluster. All methods raise DevclusterError with a message for the user."""

    def up(self, record: Record, progress: Progress) -> None:
        """Brings the cluster of `record` up, writes its kubeconfig and sets its phase to `ready`."""

    def down(self, record: Record, progress: Progress) -> None:
        """Removes everything that `up` created, also after an interrupted `up`."""

    def status(self, record: Record) -> list[ComponentStatus]:
        """Returns the state of each component."""

    def load(self, record: Record, archive: Path, progress: Progress) -> None:
        """Loads the images of a docker archive into the cluster's nodes."""

    def logs(self, record: Record, component: str, *, tail: int) -> str:
        """Returns the last `tail` lines of a component's log."""

    def kubectl(self, record: Record) -> list[str]:
        """Returns the command that runs kubectl against the cluster."""
