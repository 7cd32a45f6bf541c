"""The cgroup under which a cluster's kubelet creates its pods' groups, on cgroup version 1 and 2."""

from __future__ import annotations

import os
import time
from pathlib import Path

from devcluster.errors import DevclusterError

ROOT = Path("/sys/fs/cgroup")
_V2_CONTROLLERS = ("cpu", "cpuset", "memory", "pids", "io", "hugetlb")
_WEIGHT = 4
"""The share of the CPU of all pods of a cluster together, in shares of one process outside of it.

With 1, as a new group has it, the dozen pods of a node starve beside a few busy processes: their probes fail.
"""


def version(root: Path = ROOT) -> int:
    """Returns 2 if the unified hierarchy is mounted at the root, else 1."""
    return 2 if (root / "cgroup.controllers").exists() else 1


def controllers(root: Path = ROOT) -> frozenset[str]:
    """Returns the controllers that groups below the root can have."""
    if version(root) == 2:
        return frozenset((root / "cgroup.controllers").read_text().split())
    return frozenset(name for entry in _hierarchies(root) for name in entry.name.split(","))


def make(name: str, root: Path = ROOT) -> None:
    """Creates `/name` in every hierarchy.

    On version 1 a new cpuset group is empty and refuses processes until it has CPUs and memory nodes, so
    they are copied from the parent first.
    """
    if version(root) == 2:
        _make_v2(name, root)
        return
    for hierarchy in _hierarchies(root):
        group = hierarchy / name
        try:
            group.mkdir(exist_ok=True)
        except OSError as error:
            if hierarchy.name == "unified":  # the hybrid layout's second tree holds no controllers
                continue
            raise DevclusterError(f"Cannot make the cgroup {group}: {error}") from None
        for setting in ("cpuset.cpus", "cpuset.mems"):
            if (group / setting).exists():
                (group / setting).write_text((hierarchy / setting).read_text())
        if (group / "cpu.shares").exists():
            (group / "cpu.shares").write_text(str(1024 * _WEIGHT))


def _make_v2(name: str, root: Path) -> None:
    available = (root / "cgroup.controllers").read_text().split()
    enabled = [f"+{each}" for each in _V2_CONTROLLERS if each in available]
    try:
        (root / "cgroup.subtree_control").write_text(" ".join(enabled))
        group = root / name
        group.mkdir(exist_ok=True)
        (group / "cgroup.subtree_control").write_text(" ".join(enabled))
        if (group / "cpu.weight").exists():
            (group / "cpu.weight").write_text(str(100 * _WEIGHT))
    except OSError as error:
        raise DevclusterError(
            f"Cannot prepare the cgroup {root / name}: {error}",
            hint="In a container, cgroup version 2 needs a delegated tree. Or use another provider.",
        ) from None


def remove(name: str, root: Path = ROOT, *, limit: float = 10.0) -> None:
    """Removes the group and all groups below it, with retries: a group empties shortly after its last process
    has died.
    """
    deadline = time.monotonic() + limit
    while groups := find(name, root):
        for group in groups:
            try:
                group.rmdir()
            except OSError:
                continue
        if time.monotonic() > deadline:
            return
        time.sleep(0.05)


def find(name: str, root: Path = ROOT) -> list[Path]:
    """Returns all directories of the group, the deepest first, but those that go while they are listed."""
    directories: list[Path] = []
    for hierarchy in [root] if version(root) == 2 else _hierarchies(root):
        directories += [Path(folder) for folder, _, _ in os.walk(hierarchy / name, topdown=False)]
    return directories


def _hierarchies(root: Path) -> list[Path]:
    if not root.is_dir():
        return []
    return sorted(entry for entry in root.iterdir() if entry.is_dir() and not entry.is_symlink())
