"""Looks for anything that a cluster left on the machine, by other means than tear-down's own."""

from __future__ import annotations

import fnmatch
import json
import os
import socket
import subprocess
from pathlib import Path

from devcluster.network import Network
from devcluster.state import Record


def traces(state: Path) -> list[str]:
    """Every process, mount and file that names the state directory `state`."""
    needle = str(state)
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            mounts = (process / "mountinfo").read_text()
        except OSError:
            continue
        if needle in words:
            found.append(f"process {process.name}: {words}")
        elif needle in mounts:
            found.append(f"mount seen by process {process.name}: {words}")
    clusters = state / "clusters"
    if clusters.is_dir():
        found += [f"file {path}" for path in clusters.iterdir()]
    return found


def network_traces(cluster: str) -> list[str]:
    """Network namespaces and cgroups with the cluster's name."""
    listed = json.loads(subprocess.check_output(["ip", "-json", "netns"], text=True) or "[]")
    found = [f"netns {each['name']}" for each in listed if each["name"].endswith(f"-{cluster}")]
    # Not by a glob, which fails if a group goes while it is read: those of other clusters come and go.
    found += [
        f"cgroup {folder}/{name}"
        for folder, names, _ in os.walk("/sys/fs/cgroup")
        for name in fnmatch.filter(names, f"fournos-*-{cluster}")
    ]
    return found


def interface(record: Record) -> int:
    """The number that Linux gave the machine's end of this cluster's veth pair. It is not given again."""
    name = Network(record.index, record.spec.name).interface
    return int(Path(f"/sys/class/net/{name}/ifindex").read_text())


def interfaces() -> set[int]:
    """The numbers of the machine's network interfaces. Other tests start clusters at the same time."""
    return {number for number, _ in socket.if_nameindex()}
