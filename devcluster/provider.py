"""What every provider of clusters can do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from devcluster.progress import Progress
from devcluster.state import Record


@dataclass(frozen=True)
class ComponentStatus:
    """One row of `status`. `detail` says why it is not running, or what runs it."""

    component: str
    state: Literal["running", "failed", "starting", "absent"]
    detail: str = ""


class Provider(Protocol):
    """One way to get a cluster. All methods raise DevclusterError with a message for people."""

    def up(self, record: Record, progress: Progress) -> None:
        """Brings the cluster of `record` up and writes its kubeconfig; its phase is `ready` afterwards."""

    def down(self, record: Record, progress: Progress) -> None:
        """Removes all that `up` made, also after an `up` that was cut short."""

    def status(self, record: Record) -> list[ComponentStatus]:
        """Every component and how it is."""

    def load(self, record: Record, archive: Path, progress: Progress) -> None:
        """Makes the images of a docker archive known to the cluster's nodes."""

    def logs(self, record: Record, component: str, *, tail: int) -> str:
        """The last `tail` lines that a component wrote."""

    def kubectl(self, record: Record) -> list[str]:
        """The words that run kubectl against the cluster."""
