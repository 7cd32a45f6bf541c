"""What a native cluster asks of a machine: measured at once, before anything is installed, built or started.

A machine that lacks something is refused, and so is one of a kind that no cluster has been tried on, unless
the caller asks for it: an early sentence is better than a late failure.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from devcluster import binaries, cgroups, system
from devcluster.errors import NotSupportedError
from devcluster.paths import cache_root
from devcluster.progress import Progress
from devcluster.state import is_root
from devcluster.versions import Versions

GIB = 1 << 30
TRIED = {"debian": ("12", "13")}
"""Distribution → versions on which the tests have brought clusters up, by the names of /etc/os-release."""
ARCHITECTURE = "x86_64"
MEMORY = 6 * GIB
"""Of the machine in tests/vm. Less is shown, because the kernel keeps some of it for itself."""
_KERNEL_SHARE = 0.9
DISK = 3 * GIB
"""A cluster and the operator's image."""
DISK_TO_BUILD = 14 * GIB
"""With Go's caches (6 GiB), programs, images and packages (2 GiB); DISK is left for a second run."""
_CONTROLLERS = {"cpu", "cpuset", "memory", "pids"}


@dataclass(frozen=True)
class Facts:
    """What this machine has. Sizes in bytes."""

    system: str
    release: str
    root: bool
    architecture: str
    distribution: str
    version: str
    memory: int
    disk: int
    built: bool
    """Whether the programs of the clusters are in the cache."""
    cgroup_version: int
    controllers: frozenset[str]
    missing_packages: tuple[str, ...] = ()
    apt: bool = True
    selinux: bool = False
    """Whether SELinux refuses what its rules do not allow."""
    firewalld: bool = False


@dataclass(frozen=True)
class Row:
    """One condition: what is needed, what is there, and the verdict."""

    needed: str
    here: str
    verdict: Literal["ok", "missing", "untried"] = "ok"
    remedy: str = ""


def decide(facts: Facts) -> list[Row]:
    """Returns the conditions of a cluster with a node, with a verdict on each."""
    if facts.system != "Linux":
        return [Row("Linux", facts.system, "missing", "Use a machine with Linux.")]
    disk = DISK if facts.built else DISK_TO_BUILD
    lacking = sorted(_CONTROLLERS - facts.controllers)
    versions = TRIED.get(facts.distribution, ())
    return [
        _row("Linux", f"Linux {facts.release}"),
        _row("root", "root" if facts.root else "not root", facts.root, "Run it as root."),
        _untried(ARCHITECTURE, facts.architecture, facts.architecture == ARCHITECTURE),
        _untried(
            " or ".join(f"{name} {version}" for name, tried in TRIED.items() for version in tried),
            f"{facts.distribution} {facts.version}".strip(),
            facts.version in versions,
        ),
        _row(
            "Debian's packages",
            f"missing: {' '.join(facts.missing_packages)}" if facts.missing_packages else "installed",
            facts.apt or not facts.missing_packages,
            "Install them with your package manager.",
        ),
        _row(
            f"{_size(MEMORY)} of memory",
            _size(facts.memory),
            facts.memory >= MEMORY * _KERNEL_SHARE,
            "Use a machine with more memory.",
        ),
        _row(
            f"{_size(disk)} of free disk{'' if facts.built else ', to build the programs'}",
            _size(facts.disk),
            facts.disk >= disk,
            "Free some, or name a directory elsewhere: FOURNOS_CACHE, FOURNOS_STATE.",
        ),
        _row(
            f"cgroups with {', '.join(sorted(_CONTROLLERS))}",
            f"version {facts.cgroup_version}" + (f" without {', '.join(lacking)}" if lacking else ""),
            not lacking,
            "Boot with them (kernel command line: cgroup_enable=memory), or pass them to the container.",
        ),
        _untried(
            "no SELinux that enforces",
            "it enforces" if facts.selinux else "none",
            not facts.selinux,
            "setenforce 0",
        ),
        _untried(
            "no firewalld",
            "it runs" if facts.firewalld else "none",
            not facts.firewalld,
            "systemctl stop firewalld",
        ),
    ]


def _row(needed: str, here: str, holds: bool = True, remedy: str = "") -> Row:
    return Row(needed, here) if holds else Row(needed, here, "missing", remedy)


def _untried(tried: str, here: str, holds: bool, command: str = "") -> Row:
    """A condition without which a cluster may come up; it has not been tried."""
    return Row(tried, here) if holds else Row(tried, here, "untried", f"Run {command}." if command else "")


def require(progress: Progress, versions: Versions, *, untried: bool = False) -> None:
    """Prints what a native cluster needs and what this machine has.

    Raises NotSupportedError if something is missing or, without `untried`, if it has never been tried.
    """
    rows = decide(facts(versions))
    progress.print(table(rows))
    for verdict, what in (
        ("missing", "misses what is needed"),
        ("untried", "is of a kind that was never tried"),
    ):
        bad = [row for row in rows if row.verdict == verdict]
        if bad and not (untried and verdict == "untried"):
            shown = "; ".join(f"needed {row.needed}, here {row.here}" for row in bad)
            remedies = [row.remedy for row in bad if row.remedy]
            if verdict == "untried":
                remedies.append("Go on all the same with --untried (make demo DEV_ARGS=--untried).")
            raise NotSupportedError(
                f"This machine {what}: {shown}", hint=" ".join([*remedies, system.OTHER_PROVIDERS])
            )


def table(rows: Sequence[Row]) -> str:
    """Returns the conditions as aligned lines."""
    width = max(len(row.needed) for row in rows)
    marks = {"ok": "✓", "missing": "✗", "untried": "?"}
    lines = [f"  {marks[row.verdict]} {row.needed:<{width}}  {row.here}" for row in rows]
    return "\n".join(["This machine (needed, found):", *lines])


def facts(versions: Versions) -> Facts:
    """Measures this machine. What Linux alone has is empty elsewhere."""
    linux = platform.system() == "Linux"
    release = platform.freedesktop_os_release() if linux and Path("/etc/os-release").exists() else {}
    return Facts(
        system=platform.system(),
        release=platform.release(),
        root=is_root(),
        architecture=platform.machine(),
        distribution=release.get("ID", "unknown"),
        version=release.get("VERSION_ID", ""),
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        disk=shutil.disk_usage(_existing(cache_root())).free,
        built=binaries.Built(versions).complete,
        cgroup_version=cgroups.version(),
        controllers=cgroups.controllers() if linux else frozenset(),
        missing_packages=tuple(system.missing_packages({**system.BASE_PACKAGES, **system.NODE_PACKAGES})),
        apt=shutil.which("apt-get") is not None,
        selinux=_reads("/sys/fs/selinux/enforce", "1"),
        firewalld=any(_reads(path, "firewalld") for path in Path("/proc").glob("[0-9]*/comm")),
    )


def _existing(path: Path) -> Path:
    return path if path.exists() else _existing(path.parent)


def _reads(path: str | Path, text: str) -> bool:
    try:
        # The kernel cuts the names of processes at 15 bytes, within a character if need be.
        return Path(path).read_text(errors="replace").strip() == text
    except OSError:
        return False


def _size(size: int) -> str:
    return f"{size / GIB:.3g} GiB"
