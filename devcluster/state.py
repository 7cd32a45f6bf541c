"""The record of a cluster. It is written before any resource is created, so that tear-down can find all."""

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
    """A process. Its start time (clock ticks) distinguishes it from a later process with the same PID."""

    pid: int
    started: int


@dataclass
class Record:
    """The stored state of one cluster. `index` is the native provider's network number, otherwise 0."""

    spec: ClusterSpec
    shape: str
    index: int = 0
    phase: Literal["starting", "ready"] = "starting"
    processes: dict[str, ProcessRef] = field(default_factory=dict)
    commands: dict[str, list[str]] = field(default_factory=dict)
    """Component → the command that started it, so that it can be started again."""
    checkout: str = str(CHECKOUT)
    """The checkout that made the cluster. `teardown` removes only the clusters of its own checkout."""
    engine: str = ""
    """Docker or Podman, with which kind has made the cluster; "" while it has not."""

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
            "engine": self.engine,
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
    """Returns the record of a cluster; None if there is none. Raises DevclusterError if it is unreadable."""
    try:
        data = json.loads((cluster_directory(name) / _RECORD).read_text())
        return Record(
            spec=ClusterSpec.from_json(data["spec"]),
            shape=data["shape"],
            index=data["index"],
            phase=data["phase"],
            commands=data.get("commands", {}),
            checkout=data.get("checkout", ""),
            engine=data.get("engine", ""),
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
    """Returns the record of a cluster. Raises DevclusterError if there is none."""
    record = load(name)
    if record is None:
        known = ", ".join(names()) or "none"
        raise DevclusterError(f"There is no cluster {name!r}", hint=f"Known clusters: {known}.")
    return record


def names() -> list[str]:
    """Returns the names of all clusters that have a record, in any condition."""
    root = state_root()
    if not root.is_dir():
        return []
    return sorted(entry.name for entry in root.iterdir() if (entry / _RECORD).is_file())


def remove(name: str) -> None:
    """Removes the state directory of a cluster, and its parents if they are empty then."""
    directory = cluster_directory(name)
    shutil.rmtree(directory, ignore_errors=True)
    if directory.exists():  # a mount or an immutable file remains: this call raises its error
        shutil.rmtree(directory)


def process_state(pid: int) -> tuple[str, int] | None:
    """Returns the state letter and start time of a process; None if it does not exist."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return fields[0], int(fields[19])


def reference(pid: int) -> ProcessRef:
    """Returns the reference of a running process. Raises ProcessLookupError if it has ended."""
    state = process_state(pid)
    if state is None:
        raise ProcessLookupError(pid)
    return ProcessRef(pid, state[1])


def alive(ref: ProcessRef) -> bool:
    """True if the same process still runs. A zombie does not count."""
    found = process_state(ref.pid)
    return found is not None and found[1] == ref.started and found[0] not in "ZX"


def is_root() -> bool:
    return os.geteuid() == 0
