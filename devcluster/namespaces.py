"""Keeps the network, mount and PID namespaces of a cluster in one holder process.

The holder is `unshare`; its child is process 1 of the PID namespace. When that child is killed the kernel
ends every process inside; with the last process the mount namespace is removed, with all its mounts.
Each process started here has MARKER in its environment, so that tear-down finds it even if the process that
started it was killed before it recorded the PID.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from devcluster.errors import ComponentFailedError
from devcluster.network import Network
from devcluster.shell import UMASK, tail_file
from devcluster.state import ProcessRef, Record, alive, reference

MARKER = "FOURNOS_DEVCLUSTER"
HOLDER = "holder"
_MASKED = ("/tmp", "/run", "/var")  # noqa: S108 (names of mount points, not of temporary files)


VOLUME_GROUP: Final = 65532
"""The group to which the volumes of a cluster belong: the fsGroup of the shipped pods."""
_VOLUMES: Final = f"""\
while :; do
  for volume in /tmp/hostpath_pv/*; do
    if [ -d "$volume" ] && [ ! -g "$volume" ]; then
      chgrp {VOLUME_GROUP} "$volume" && chmod 2775 "$volume"
    fi
  done
  sleep 1
done &"""
"""Kubernetes applies no fsGroup to volumes of its hostPath provisioner: they are root's, and no other user's
pod could write there.  Nothing reports a new one, so they are looked at each second."""


def init_script(directory: Path, *, visible: Sequence[Path], pods: bool) -> str:
    """Returns the shell program of process 1; `pods`: the cluster has a node.

    Programs write to fixed paths (/run/containerd, /var/log/containers, /var/lib/kubelet/device-plugins,
    /tmp/hostpath_pv). So /tmp, /var and, without pods, /etc are bound to directories of the cluster, and
    /run is a tmpfs: clusters do not share files there and leave none behind. `visible` directories keep
    their paths even below a masked directory. /run/netns is made a shared mount before containerd starts:
    otherwise sandboxes could not be removed.
    """
    masks = list(_MASKED) if pods else [*_MASKED, "/etc"]
    hidden = [path for path in visible if any(str(path).startswith(f"{mask}/") for mask in masks)]
    sources = {Path(mask): directory / mask.strip("/") for mask in masks if mask != "/run"}
    binds = [*sources.items(), *((path, path) for path in hidden)]
    # All sources are opened first: a state directory below /tmp has no path once /tmp is masked.
    lines = ["set -e", "mount --make-rprivate /"]
    lines += [
        f"exec {number}<{shlex.quote(str(source))}" for number, (_, source) in enumerate(binds, start=3)
    ]
    lines.append("mount -t tmpfs -o mode=755 fournos-run /run")
    for number, (target, _) in enumerate(binds, start=3):
        quoted = shlex.quote(str(target))
        lines.append(f"mkdir -p {quoted}")
        lines.append(f"mount --no-canonicalize --bind /proc/self/fd/{number} {quoted}")
        lines.append(f"exec {number}<&-")
    lines += [
        "mkdir -p /run/lock /run/netns",
        "mount -t tmpfs fournos-netns /run/netns",
        "mount --make-rshared /",
        f"touch {shlex.quote(str(directory / 'namespaces-ready'))}",
        *((_VOLUMES,) if pods else ()),
        # Process 1 must outlive its sleeping child and reap the orphans of containerd's shims.
        "trap '' TERM INT HUP",
        "while :; do sleep 86400 & wait $!; done",
    ]
    return "\n".join(lines) + "\n"


def start_holder(record: Record, network: Network, *, visible: Sequence[Path], pods: bool) -> ProcessRef:
    """Creates the namespaces and waits until their mounts are complete. Raises ComponentFailedError."""
    directory = record.directory
    for name in ("tmp", "var/lib", "var/log", "var/cache", "var/tmp", "log"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    (directory / "tmp").chmod(0o1777)
    if not (directory / "var/run").is_symlink():
        (directory / "var/run").symlink_to("/run")
    if not pods:
        _fill_etc(directory / "etc")
    ready = directory / "namespaces-ready"
    ready.unlink(missing_ok=True)
    script = directory / "init.sh"
    script.write_text(init_script(directory, visible=[directory, *visible], pods=pods))
    argv = ["nsenter", f"--net=/run/netns/{network.namespace}", "unshare", "--mount", "--pid", "--fork"]
    argv += ["--kill-child", "--mount-proc", "--propagation", "private", "sh", str(script)]
    holder = _launch(record, HOLDER, argv)
    deadline = time.monotonic() + 10
    while not ready.exists():
        if not alive(holder) or time.monotonic() > deadline:
            raise ComponentFailedError(
                HOLDER,
                "the cluster's namespaces could not be made",
                log_tail=tail_file(record.log_file(HOLDER)),
                hint="This needs root that may mount and unshare. Or use another --provider.",
            )
        time.sleep(0.02)
    record.processes[HOLDER] = holder
    record.save()
    return holder


def init_pid(record: Record) -> int:
    """Returns the PID, on the machine, of the cluster's init. Raises ComponentFailedError if it has ended."""
    holder = record.processes.get(HOLDER)
    if holder is not None and (inside := children(holder)):
        return inside[0]
    raise ComponentFailedError(HOLDER, "it does not run, so nothing of the cluster does")


def enter(record: Record) -> list[str]:
    """Returns the command prefix that runs a command inside the cluster's namespaces."""
    return ["nsenter", "--target", str(init_pid(record)), "--net", "--mount", "--pid"]


def start(record: Record, component: str, argv: Sequence[str]) -> ProcessRef:
    """Starts and records a detached component inside the cluster, with output to `log/<component>.log`."""
    ref = _launch(record, component, [*enter(record), *argv])
    record.processes[component] = ref
    record.commands[component] = list(argv)
    record.save()
    return ref


def stop(record: Record, component: str, *, limit: float = 15.0) -> None:
    """Kills a component (SIGKILL) and waits for its end. Raises ComponentFailedError if it does not end."""
    ref = record.processes[component]
    for pid in children(ref):
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + limit
    while alive(ref):
        if time.monotonic() > deadline:
            raise ComponentFailedError(component, f"it did not end within {limit:.0f} s of SIGKILL")
        time.sleep(0.02)


def children(ref: ProcessRef) -> list[int]:
    """Returns the processes inside the cluster whose parent is the recorded process outside of it."""
    if not alive(ref):
        return []
    return [int(pid) for pid in Path(f"/proc/{ref.pid}/task/{ref.pid}/children").read_text().split()]


def _launch(record: Record, component: str, argv: Sequence[str]) -> ProcessRef:
    log = record.log_file(component)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/",
            start_new_session=True,
            env={**_plain_environment(), **mark(record)},
            umask=UMASK,
        )
    # The child outlives this object by design. A set return code keeps Python from warning about it.
    process.returncode = 0
    return reference(process.pid)


def mark(record: Record) -> dict[str, str]:
    """Returns the environment of a process that must not outlive the cluster, although it is not recorded.

    A kubectl is one: it goes on with what it applies when only the `up` that started it is killed.
    """
    return {MARKER: str(record.directory)}


def _plain_environment() -> dict[str, str]:
    """Returns only PATH and HOME: a cluster must not depend on the user's shell or receive its tokens."""
    path = os.environ.get("PATH", "")
    return {"PATH": f"{path}:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}


def kill_all(record_directory: Path, *, limit: float = 15.0) -> None:
    """Kills every process that has this cluster's marker, and waits until all have ended.

    Repeats until none is found: the search misses a process between fork and exec.
    """
    deadline = time.monotonic() + limit
    while marked := find_marked(record_directory):
        for pid in marked:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        if time.monotonic() > deadline:
            raise ComponentFailedError(
                HOLDER, f"processes {marked} did not end within {limit:.0f} s of SIGKILL"
            )
        time.sleep(0.05)


def find_marked(record_directory: Path) -> list[int]:
    """Returns the processes with this cluster's marker in the environment (a zombie has no environment)."""
    variable = f"{MARKER}={record_directory}".encode()
    marked = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue
            if variable in environment.split(b"\0"):
                marked.append(int(entry.name))
    return marked


def _fill_etc(etc: Path) -> None:
    """Creates a minimal /etc: the files for name lookups, and the fixed directory of Kueue's manager."""
    etc.mkdir(parents=True, exist_ok=True)
    for name in ("passwd", "group", "nsswitch.conf", "hosts", "ld.so.cache", "localtime"):
        source = Path("/etc") / name
        if source.exists():
            (etc / name).write_bytes(source.read_bytes())
    (etc / "resolv.conf").write_text("")
    (etc / "kueue/metrics/certs").mkdir(parents=True, exist_ok=True)
