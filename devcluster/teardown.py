"""Removes a native cluster: in any condition, from its record alone, and checks that nothing is left."""

from __future__ import annotations

import os
from pathlib import Path

from devcluster import cgroups, namespaces, network, state
from devcluster.errors import DevclusterError
from devcluster.network import Network
from devcluster.state import Record


def tear_down(record: Record) -> None:
    """Ends every process of the cluster, then removes network, cgroups and files, in that order.

    The record goes last: a tear-down that is itself cut short can be repeated. Raises DevclusterError
    naming whatever would not go.
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
    state.forget(record.spec.name)


def leftovers(record: Record) -> list[str]:
    """What of a cluster is on the machine beside its files, in words."""
    net = Network(record.index, record.spec.name)
    found = [f"process {pid}" for pid in namespaces.find_marked(record.directory)]
    found += network.leftovers(net)
    found += [f"cgroup {group}" for group in cgroups.find(net.cgroup)]
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    found += [f"mount {line.split()[1]}" for line in mounts if f"{record.directory}/" in line]
    return found


def _reap(record: Record) -> None:
    """Takes leave of children that this very process started, so that no zombie stays in a long test run."""
    for ref in record.processes.values():
        try:
            os.waitpid(ref.pid, os.WNOHANG)
        except ChildProcessError:
            continue
