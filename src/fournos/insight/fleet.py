"""The clusters with what holds them, what is wrong with them, and what runs there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.resource import Obj, key_of
from fournos.insight import overview
from fournos.insight.clusters import drained, lock_of
from fournos.insight.overview import ClusterLine, GpuCounts, JobLine, Overview
from fournos.insight.source import Source, or_error
from fournos.insight.values import name_of, one_line, spec_of, status_of

KINDS: Final = (*overview.KINDS, FOURNOS_CLUSTER)
"""The kinds that are read."""


@dataclass(frozen=True, slots=True)
class ClusterLock:
    """A lock that is requested or held."""

    state: str
    """Requested, Held, Expiring or Releasing."""
    owner: str
    since: str
    """When it was first held; RFC 3339, "" while it is only requested."""
    ends: str
    """When it ends by itself; "" if it has no ttl."""
    behind: tuple[str, ...]
    """The jobs that must end before it is held."""
    waiting: tuple[str, ...]
    """The jobs that wait for its end."""


@dataclass(frozen=True, slots=True)
class ClusterCard:
    """A cluster."""

    namespace: str
    name: str
    health: str
    """Valid, Missing, Invalid or Unreachable, as its kubeconfig is; Unknown before the first probe.

    "" for a cluster that only Kueue's quota names: no FournosCluster describes it.
    """
    problem: str
    """Why it cannot be reached, or why its GPUs could not be counted; "" if all is well."""
    version: str
    """The version of its Kubernetes."""
    lock: ClusterLock | None
    drain: str
    """Draining, Drained, Removing, or "" if it takes jobs."""
    gpus: tuple[GpuCounts, ...]
    running: tuple[JobLine, ...]
    """The jobs that hold it, the oldest first."""

    @property
    def state(self) -> str:
        """One word for what counts most: its health, then a drain, then a lock."""
        if self.health not in ("Valid", ""):
            return self.health
        return self.drain or (f"Lock {self.lock.state.lower()}" if self.lock else "Open")


@dataclass(frozen=True, slots=True)
class Details:
    """What the operator found out about a cluster.  Times are RFC 3339, "" if there is none."""

    secret: str
    """The Secret with its kubeconfig."""
    drain: bool
    """A drain is requested."""
    latency: str
    """How long it took to answer; "" if it has not answered."""
    certificate_ends: str
    unreachable_since: str
    counted: str
    """When its GPUs were counted."""
    shrinking: tuple[tuple[str, str], ...]
    """Models with fewer GPUs than before, and since when."""
    conditions: tuple[tuple[str, str, str, str, str], ...]
    """Type, status, reason, message and time of the last transition."""


@dataclass(frozen=True, slots=True)
class FleetOverview:
    clusters: tuple[ClusterCard, ...]
    now: Overview


async def read(
    source: Source, namespace: str, clusters: str, now: datetime, *, most: int | None = None
) -> FleetOverview:
    """Reads the fleet from a source; `clusters` is the namespace of the FournosClusters.

    Queues and clusters that may not be read are left out.  `most`: so many of the waiting jobs at most.
    """
    happening = await overview.read(source, namespace, clusters, now, most=most)
    found = await or_error(source.list(FOURNOS_CLUSTER, namespace=clusters))
    objects = () if isinstance(found, KubeError) else found.items
    return FleetOverview(cards(objects, happening), happening)


def cards(clusters: Iterable[Obj], happening: Overview) -> tuple[ClusterCard, ...]:
    """The clusters by name; numbers in names count as numbers."""
    described = {name_of(one): one for one in clusters}
    lines = {one.name: one for one in happening.clusters}
    running: dict[str, list[JobLine]] = {}
    for job in happening.running:
        running.setdefault(job.cluster, []).append(job)
    return tuple(
        _card(described[name], lines.get(name), tuple(running.get(name, ())))
        if name in described
        else _kueue_card(lines[name], tuple(running.get(name, ())))
        for name in sorted({*described, *lines}, key=_natural)
    )


def _natural(name: str) -> list[tuple[int, str]]:
    parts = re.findall(r"\d+|\D+", name)
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in parts]


def _kueue_card(line: ClusterLine, running: tuple[JobLine, ...]) -> ClusterCard:
    return ClusterCard(
        namespace="",
        name=line.name,
        health="",
        problem="",
        version="",
        lock=ClusterLock("Held", line.owner, running[0].since, "", (), ()) if line.owner else None,
        drain="",
        gpus=line.gpus,
        running=running,
    )


def _card(cluster: Obj, line: ClusterLine | None, running: tuple[JobLine, ...]) -> ClusterCard:
    status = status_of(cluster)
    connection, hardware = status.get("connection") or {}, status.get("hardware") or {}
    return ClusterCard(
        namespace=key_of(cluster).namespace,
        name=name_of(cluster),
        health=str(status.get("kubeconfigStatus") or "Unknown"),
        problem=one_line(connection.get("error") or hardware.get("lastError")),
        version=str(connection.get("version") or ""),
        lock=_lock(cluster),
        drain=_drain(cluster),
        gpus=line.gpus if line else (),
        running=running,
    )


def _lock(cluster: Obj) -> ClusterLock | None:
    lock, status = lock_of(cluster), status_of(cluster)
    owner = str(lock.get("owner") or spec_of(cluster).get("owner") or "")
    if not owner and not lock:
        return None
    return ClusterLock(
        state=str(lock.get("state") or "Requested"),
        owner=owner,
        since=str(lock.get("heldSince") or ""),
        ends=str(status.get("lockExpiresAt") or ""),
        behind=tuple(map(str, lock.get("behind") or ())),
        waiting=tuple(map(str, lock.get("waiting") or ())),
    )


def _drain(cluster: Obj) -> str:
    if (gone := status_of(cluster).get("decommission")) is not None:
        return str(gone)
    if not spec_of(cluster).get("drain"):
        return ""
    return "Drained" if drained(cluster) else "Draining"


def details(cluster: Obj) -> Details:
    spec, status = spec_of(cluster), status_of(cluster)
    connection, hardware = status.get("connection") or {}, status.get("hardware") or {}
    latency = connection.get("latencyMs")
    names = ("type", "status", "reason", "message", "lastTransitionTime")
    return Details(
        secret=str(spec.get("kubeconfigSecret") or ""),
        drain=bool(spec.get("drain")),
        latency="" if latency is None else f"{latency} ms",
        certificate_ends=str(connection.get("certificateExpires") or ""),
        unreachable_since=str(connection.get("unreachableSince") or ""),
        counted=str(hardware.get("lastDiscovery") or ""),
        shrinking=tuple(
            (str(entry["model"]), str(entry["since"])) for entry in hardware.get("shrinking") or ()
        ),
        conditions=tuple(
            tuple(one_line(condition.get(name)) for name in names)  # type: ignore[misc]
            for condition in status.get("conditions") or ()
        ),
    )


def idle_locks(found: Iterable[ClusterCard]) -> tuple[ClusterCard, ...]:
    """The clusters that are held while nothing runs there, the longest held first."""
    idle = (one for one in found if one.lock and one.lock.since and all(job.lock_only for job in one.running))
    return tuple(sorted(idle, key=lambda one: one.lock.since if one.lock else ""))
