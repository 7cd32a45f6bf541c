"""Measures what the operator's caches and memory do when etcd is compacted, paused or full, under load.

While etcd is compacted (and defragmented) the API server is gone, so that all watches end at once and none of
them can be resumed; while it is paused, the API server's requests hang; while it is full, it refuses writes.
Jobs that are deleted in etcd itself before a compaction are deleted without an event.  Of two replicas the
standby needs no Lease: it lives through all of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from bench import etcd_api
from bench.machine import memory, reset_peak
from bench.outage import Fault, Outage, suffer, under_load
from bench.replicas import Program, Replicas
from bench.result import RangedResult
from bench.rig import NAMESPACE, Rig
from bench.stream import Stream
from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.client import Client
from fournos.engine.kube.resource import Resource

HOWS: Final = ("compacted", "paused", "full")
REPLICAS: Final = 2
_DELETED: Final = 5
"""Jobs that are deleted during each fault in which that is possible."""
_EQUAL_WITHIN: Final = 60.0
_SERVER: Final = "kube-apiserver"
_ETCD: Final = "etcd"

Content: TypeAlias = list[dict[str, Any]]
"""What the caches of a replica have, as `bench.inside` writes it."""


@dataclass(frozen=True, slots=True)
class Faulted:
    """One fault, and the replicas after it."""

    outage: Outage
    different: list[str]
    """What a cache had that the API server had not, or the other way round."""
    objects: int
    """How many objects the caches of all replicas had when they were compared."""
    equal: float
    """Seconds from the steady load until all caches were equal to the API."""
    relists: list[int]
    """How often each watch of the replicas that live through it listed again."""
    rss: int
    """Resident memory of the largest replica before, in bytes."""
    peak: int
    """The same at most, until the caches are equal; a replica that was started meanwhile counts."""


@dataclass(frozen=True, slots=True)
class Etcd(RangedResult):
    live: int
    faults: list[Faulted]
    doubles: list[str]
    failed: list[str]

    def quotients(self) -> dict[str, float]:
        """Returns memory over that before, and the lists of a watch."""
        memories = {
            f"{how}.memory": max(each.peak / each.rss for each in self.faults if each.outage.how == how)
            for how in {each.outage.how for each in self.faults}
        }
        gone = [each.relists for each in self.faults if each.outage.how == "compacted"]
        relists = {"compacted.relists": float(min(min(each, default=0) for each in gone))} if gone else {}
        return {**memories, **relists}

    def wrong(self) -> dict[str, Sequence[str]]:
        return {
            "different": [text for each in self.faults for text in each.different],
            "doubles": self.doubles,
            "failed": self.failed,
        }


async def measure(
    name: str,
    *,
    seconds: float,
    hows: Sequence[str],
    turns: int,
    live: int,
    slots: int,
    rate: float,
    window: float,
    directory: Path,
    keep: bool,
) -> Etcd:
    """Lets each fault last for `seconds` so many `turns`, on a new cluster `name` with `live` jobs.

    Raises TimeoutError if the load does not become steady again.
    """
    load = under_load(
        name,
        slots=slots,
        rate=rate,
        directory=directory,
        keep=keep,
        live=live,
        number=REPLICAS,
        program=Program(inside=directory),
    )
    async with load as (rig, group, stream):
        faulted = [
            await _faulted(rig, group, stream, how, seconds, window) for _ in range(turns) for how in hows
        ]
    return Etcd(live, faulted, stream.record.doubles, stream.record.failed)


async def _faulted(
    rig: Rig, group: Replicas, stream: Stream, how: str, seconds: float, window: float
) -> Faulted:
    await group.ready()
    before = await _contents(group)
    rss = max(memory(each.pid)[0] for each in group.running)
    for each in group.running:
        reset_peak(each.pid)
    gone = stream.queued()[-_DELETED:] if how != "paused" else []
    outage = await suffer(rig, group, stream, how, _fault(rig, how, gone), seconds, window)
    stream.paused = True
    began = time.perf_counter()
    different = await _difference(group, rig.client)
    equal = time.perf_counter() - began
    after = await _contents(group)
    stream.paused = False
    objects = sum(len(cache["objects"]) for content in after.values() for cache in content)
    peak = max(memory(each.pid)[1] for each in group.running)
    await stream.replace(gone)
    return Faulted(outage, different, objects, equal, relists(before, after), rss, peak)


def _fault(rig: Rig, how: str, gone: Sequence[str]) -> Fault:
    """Returns the fault; jobs with the names `gone` are deleted in etcd during it."""
    cluster = rig.cluster
    keys = [f"/registry/{FOURNOS_JOB.group}/{FOURNOS_JOB.plural}/{NAMESPACE}/{name}" for name in gone]

    def compact() -> None:
        cluster.stop_component(_SERVER)
        etcd_api.forget(cluster, keys)
        etcd_api.compact(cluster)

    def fill() -> None:
        etcd_api.set_full(cluster, full=True)
        etcd_api.forget(cluster, keys)

    def free() -> None:
        etcd_api.compact(cluster)
        etcd_api.set_full(cluster, full=False)

    faults: Mapping[str, Callable[[], Fault]] = {
        "compacted": lambda: Fault(compact, lambda: cluster.start_component(_SERVER)),
        "paused": lambda: Fault(
            lambda: cluster.pause_component(_ETCD), lambda: cluster.resume_component(_ETCD)
        ),
        "full": lambda: Fault(fill, free),
    }
    return faults[how]()


async def _contents(group: Replicas) -> dict[int, Content]:
    await group.ready()
    return {each.pid: await each.caches() for each in group.running}


def relists(before: Mapping[int, Content], after: Mapping[int, Content]) -> list[int]:
    """Returns the lists of each watch between two looks, of the processes in both."""
    return [
        new["relists"] - old["relists"]
        for pid in before.keys() & after.keys()
        for old, new in zip(before[pid], after[pid], strict=True)
    ]


async def _difference(group: Replicas, client: Client) -> list[str]:
    """Waits until all caches are equal to the API; returns what differs when the time is over."""
    end = time.perf_counter() + _EQUAL_WITHIN
    while True:
        texts = [
            f"replica {pid}: {text}"
            for pid, content in (await _contents(group)).items()
            for cache in content
            for text in differing(cache, await _listed(client, cache))
        ]
        if not texts or time.perf_counter() > end:
            return texts
        await asyncio.sleep(0.2)


async def _listed(client: Client, cache: Mapping[str, Any]) -> dict[str, str]:
    """Returns UID → resourceVersion of what the API server has for a cache."""
    listing = await client.list(
        Resource(*cache["resource"]), namespace=cache["namespace"], selector=cache["selector"]
    )
    return {each["metadata"]["uid"]: each["metadata"]["resourceVersion"] for each in listing.items}


def differing(cache: Mapping[str, Any], listed: Mapping[str, str]) -> list[str]:
    """Returns a text for each object that the cache lacks, has too much, or has in another version."""
    cached: Mapping[str, str] = cache["objects"]
    plural = cache["resource"][3]
    return [
        f"{plural} {uid}: {cached.get(uid)} in the cache, {listed.get(uid)} in the API"
        for uid in sorted(cached.keys() | listed.keys())
        if cached.get(uid) != listed.get(uid)
    ]
