"""An outage of the API server under a load of short jobs: it hangs (`stopped`) or ends (`killed`).

While it is away no run ends and no job is submitted.  A replica that ends meanwhile, because it cannot keep
its Lease, is started again, and so is a component of the cluster.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Final

from bench.machine import until
from bench.operator import Usage
from bench.replicas import Replicas
from bench.rig import Rig
from bench.stream import Record, Stream
from devcluster import Cluster
from fournos.engine.kube.errors import KubeError

HOWS: Final = ("stopped", "killed")
STEADY: Final = 3
"""After so many jobs in a row that are admitted as fast as before, the load is steady."""
_LIMIT: Final = 180.0
_TWICE: Final = 2.0
_LEAST: Final = 1.0
"""Seconds within which a wait always counts as usual."""


@dataclass(frozen=True, slots=True)
class Outage:
    """One outage; times in seconds from the first answer of the API server."""

    how: str
    seconds: float
    requests_before: int
    """Requests of the operator in the window of load before, without Lease and watches."""
    requests_meanwhile: float
    """The same while it is away, for as long a window, of processes that still live; refused ones count."""
    requests_after: int
    """The same in as long a window from the first answer on."""
    first_write: float
    steady: float
    """Until STEADY jobs in a row are admitted as fast as before.  Kueue's watches are part of it."""
    restarts: int
    """Replicas that ended by themselves."""

    @property
    def requests_ratio(self) -> float:
        return self.requests_after / self.requests_before if self.requests_before else float("inf")

    @property
    def meanwhile_ratio(self) -> float:
        return self.requests_meanwhile / self.requests_before if self.requests_before else float("inf")


async def suffer(
    rig: Rig, group: Replicas, stream: Stream, how: str, seconds: float, window: float
) -> Outage:
    """Lets the fault last for `seconds`.  Raises TimeoutError if the load does not become steady again."""
    take_away, bring_back = _faults(rig.cluster)[how]
    async with asyncio.timeout(_LIMIT):
        await until(lambda: len(stream.record.waits) >= STEADY)
    before = await group.usages()
    start = time.perf_counter()
    await asyncio.sleep(window)
    normal = await group.usages()
    waits = stream.record.waits
    usual = median([wait for at, wait in waits if at > start] or [wait for _, wait in waits])
    restarts = group.restarts
    stream.paused = True
    began = time.perf_counter()
    await asyncio.to_thread(take_away)
    try:
        await asyncio.sleep(seconds)
        meanwhile, lasted = await group.usages(), time.perf_counter() - began
    finally:
        await asyncio.to_thread(bring_back)
    back = await _answers(rig)
    at_return = await group.usages()
    stream.paused = False
    async with asyncio.TaskGroup() as tasks:
        steady = tasks.create_task(_steady(rig, stream.record, back, usual))
        await asyncio.sleep(back + window - time.perf_counter())
        after = await group.usages()
    return Outage(
        how,
        seconds,
        calls_between(before, normal),
        calls_between(normal, meanwhile) * window / lasted,
        calls_between(at_return, after),
        next(at for at in stream.record.writes if at > back) - back,
        steady.result(),
        group.restarts - restarts,
    )


def calls_between(before: Mapping[int, Usage], after: Mapping[int, Usage]) -> int:
    """Returns the requests between two looks; those of a new process count from its start."""
    return sum(usage.calls() - (before[pid].calls() if pid in before else 0) for pid, usage in after.items())


def settled(waits: Sequence[tuple[float, float]], since: float, usual: float) -> float | None:
    """Returns when STEADY jobs in a row had been admitted as fast as usual; None if that is still to come.

    `waits` are times of admission and the seconds waited.
    """
    limit, row = max(_LEAST, _TWICE * usual), 0
    for at, wait in waits:
        if at > since:
            row = row + 1 if wait <= limit else 0
            if row == STEADY:
                return at
    return None


async def _steady(rig: Rig, record: Record, back: float, usual: float) -> float:
    """Returns the seconds from `back` until admissions are as fast as usual.  Raises TimeoutError."""
    async with asyncio.timeout(_LIMIT):
        while True:
            at = settled(record.waits, back, usual)
            if at is not None:
                return at - back
            await asyncio.to_thread(rig.cluster.start_ended)
            await asyncio.sleep(0.2)


async def _answers(rig: Rig) -> float:
    """Returns the time of the API server's first answer.  Raises TimeoutError."""
    async with asyncio.timeout(_LIMIT):
        while True:
            with suppress(KubeError):
                await rig.client.raw_get("/readyz")
                return time.perf_counter()
            await asyncio.sleep(0.05)


def _faults(cluster: Cluster) -> dict[str, tuple[Callable[[], None], Callable[[], None]]]:
    """Returns how the API server is taken away and brought back; all of them may block."""
    server = "kube-apiserver"
    return {
        "stopped": (partial(cluster.pause_component, server), partial(cluster.resume_component, server)),
        "killed": (partial(cluster.stop_component, server), partial(cluster.start_component, server)),
    }
