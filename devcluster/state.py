"""The record of a cluster: written before anything is made, so that tear-down always knows what to remove."""

from __future__ import annotations

import json
import os
import shutil
import threading
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from devcluster.errors import DevclusterError
from devcluster.paths import CHECKOUT, state_root
from devcluster.spec import ClusterSpec

_RECORD = "cluster.json"
_saving = threading.Lock()  # components are started from two threads


@dataclass(frozen=True)
class ProcessRef:
    """A process, told apart from a later one with the same number by its start time (clock ticks)."""

    pid: int
    started: int


@dataclass
class Record:
    """What is known of one cluster. `index` is the native provider's network number, 0 elsewhere."""

    spec: ClusterSpec
    shape: str
    index: int = 0
    phase: Literal["starting", "ready"] = "starting"
    processes: dict[str, ProcessRef] = field(default_factory=dict)
    commands: dict[str, list[str]] = field(default_factory=dict)
    """What a component was started with, so that it can be started again."""
    checkout: str = str(CHECKOUT)
    """Which one made the cluster: `teardown` ends no other's."""

    @property
    def directory(self) -> Path:
        return cluster_directory(self.spec.name)

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "admin.kubeconfig"

    def log_file(self, component: str) -> Path:
        return self.directory / "log" / f"{component}.log"

    def save(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with _saving:
            self._write()

    def _write(self) -> None:
        data: dict[str, Any] = {
            "spec": self.spec.to_json(),
            "shape": self.shape,
            "index": self.index,
            "phase": self.phase,
            "commands": self.commands,
            "checkout": self.checkout,
            "processes": {name: asdict(ref) for name, ref in self.processes.items()},
        }
        temporary = self.directory / f"{_RECORD}.new"
        temporary.write_text(json.dumps(data, indent=1))
        temporary.replace(self.directory / _RECORD)


def cluster_directory(name: str) -> Path:
    return state_root() / name


def lock_path(name: str) -> Path:
    return state_root() / f".{name}.lock"


def load(name: str) -> Record | None:
    """The record of a cluster, or None when there is none. Raises DevclusterError when it is unreadable."""
    try:
        data = json.loads((cluster_directory(name) / _RECORD).read_text())
        return Record(
            spec=ClusterSpec.from_json(data["spec"]),
            shape=data["shape"],
            index=data["index"],
            phase=data["phase"],
            commands=data.get("commands", {}),
            checkout=data.get("checkout", ""),
            processes={key: ProcessRef(**ref) for key, ref in data["processes"].items()},
        )
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise DevclusterError(
            f"{cluster_directory(name) / _RECORD} cannot be read: {error}",
            hint="Another version wrote it: take the cluster down with that one, or remove the directory.",
        ) from None


def require(name: str) -> Record:
    """The record of a cluster. Raises DevclusterError when there is none."""
    record = load(name)
    if record is None:
        known = ", ".join(names()) or "none"
        raise DevclusterError(f"There is no cluster {name!r}", hint=f"Known clusters: {known}.")
    return record


def names() -> list[str]:
    """The names of all clusters that have a record, whatever their condition."""
    root = state_root()
    if not root.is_dir():
        return []
    return sorted(entry.name for entry in root.iterdir() if (entry / _RECORD).is_file())


def forget(name: str) -> None:
    """Removes the state directory, and its parents where they are empty now."""
    directory = cluster_directory(name)
    shutil.rmtree(directory, ignore_errors=True)
    if directory.exists():  # a mount or an immutable file: say which, rather than leave it in silence
        shutil.rmtree(directory)


def process_state(pid: int) -> tuple[str, int] | None:
    """The state letter and start time of a process, or None when there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return fields[0], int(fields[19])


def reference(pid: int) -> ProcessRef:
    """Names a running process for later. Raises ProcessLookupError when it has gone."""
    found = process_state(pid)
    if found is None:
        raise ProcessLookupError(pid)
    return ProcessRef(pid, found[1])


def alive(ref: ProcessRef) -> bool:
    """Whether that very process runs (a zombie does not)."""
    found = process_state(ref.pid)
    return found is not None and found[1] == ref.started and found[0] not in "ZX"


def is_root() -> bool:
    return os.geteuid() == 0
