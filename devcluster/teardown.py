"""Removes a native cluster in any condition, from its record alone, and checks that nothing remains."""

from __future__ import annotations

import os
from pathlib import Path

from devcluster import cgroups, namespaces, network, state
from devcluster.errors import DevclusterError
from devcluster.network import Network
from devcluster.state import Record


def tear_down(record: Record) -> None:
    """Ends every process of the cluster, then removes network, cgroups and files, in that order.

    The record is removed last, so that an interrupted tear-down can be repeated. Raises DevclusterError that
    names what remains.
    """
    net = Network(record.index, record.spec.name)
    namespaces.kill_all(record.directory)
    _reap(record)
    network.remove(net)
    cgroups.remove(net.cgroup)
    left = leftovers(record)
    if left:
        raise DevclusterError(
            f"Cluster {record.spec.name}: could not remove {', '.join(left)}",
            hint=f"Run `python -m devcluster down {record.spec.name}` again in a moment.",
        )
    state.remove(record.spec.name)


def leftovers(record: Record) -> list[str]:
    """Describes what exists of a cluster on the machine, apart from its files."""
    net = Network(record.index, record.spec.name)
    remains = [f"process {pid}" for pid in namespaces.find_marked(record.directory)]
    remains += network.leftovers(net)
    remains += [f"cgroup {group}" for group in cgroups.find(net.cgroup)]
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    remains += [f"mount {line.split()[1]}" for line in mounts if f"{record.directory}/" in line]
    return remains


def _reap(record: Record) -> None:
    """Reaps the child processes that this process started: a long test run must not collect zombies."""
    for ref in record.processes.values():
        try:
            os.waitpid(ref.pid, os.WNOHANG)
        except ChildProcessError:
            continue
