"""The kernel settings that pods need: bridged packets pass iptables, and packets are forwarded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devcluster.errors import CommandFailedError
from devcluster.progress import Progress
from devcluster.shell import run

MODULE = "br_netfilter"


@dataclass(frozen=True)
class Kernel:
    """The paths that show the kernel's capabilities."""

    bridge: Path = Path("/proc/sys/net/bridge")
    """Exists if MODULE is built in or loaded."""
    modules: Path = Path("/proc/modules")
    """Exists if the kernel supports modules."""


def load_bridge_filter(progress: Progress, kernel: Kernel = Kernel()) -> bool:
    """Loads MODULE if necessary. Returns True if the kernel has it afterwards.

    A machine that refuses is not an error: only Services between pods of one node depend on the module.
    """
    if kernel.bridge.is_dir():
        return True
    reason = _load() if kernel.modules.exists() else "this kernel takes no modules"
    if kernel.bridge.is_dir():
        return True
    progress.print(
        f"  Note: the kernel has no {MODULE}, and it cannot be loaded: {reason}.\n"
        "  The cluster starts without it. Where a pod cannot reach a Service, DNS among them, load it on the "
        f"machine: modprobe {MODULE}"
    )
    return False


def _load() -> str:
    """Runs modprobe. Returns why MODULE could not be loaded, "" if it was."""
    try:
        run(["modprobe", MODULE], limit=20)
    except CommandFailedError as error:
        return str(error).replace("\n", ": ").rstrip(".")
    return ""


def switch_on(inside: Sequence[str], setting: str) -> None:
    """Sets a kernel setting to 1 in the namespaces that the command `inside` enters.

    A setting that is already 1 is not written: /proc/sys may be read-only. Raises CommandFailedError.
    """
    script = 'read -r now <"$1" && [ "$now" = 1 ] || echo 1 >"$1"'
    run([*inside, "sh", "-c", script, "sh", f"/proc/sys/{setting}"], limit=10)
