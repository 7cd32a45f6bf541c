"""Measures what a failover costs under a load of short jobs: the leader is killed, or ends at a SIGTERM."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from bench.replicas import Replicas, replicas
from bench.report import Result
from bench.rig import new_rig
from bench.stream import Record, Stream

How: TypeAlias = Literal["kill", "graceful"]
LEASE: Final = 15.0
"""Seconds after which the Lease of a leader that is gone expires: the engine's default."""
REPLICAS: Final = 2
_FLOWS: Final = 3.0
"""Seconds of load before each end of a leader."""
_LIMIT: Final = 90.0


@dataclass(frozen=True, slots=True)
class Handover:
    """One end of a leader; times in seconds."""

    how: How
    led: float
    """From the signal until the Lease has a new holder."""
    gap: float
    """From the last write of the old leader to the first of the new one."""


@dataclass(frozen=True, slots=True)
class Failover(Result):
    handovers: list[Handover]
    ends: int
    doubles: list[str]
    failed: list[str]
    late: list[str]

    def quotients(self) -> dict[str, float]:
        """Returns the longest gaps in Lease durations."""
        return {
            f"{how}.gap": max(each.gap for each in self.handovers if each.how == how) / LEASE
            for how in {each.how for each in self.handovers}
        }

    def wrong(self) -> dict[str, Sequence[str]]:
        return {"doubles": self.doubles, "failed": self.failed, "late": self.late}


def gap(writes: Sequence[float], led: float) -> float:
    """Returns the seconds between the last write before the new leader and the first after.

    `writes` is in order.  Raises ValueError without a write on both sides.
    """
    place = bisect_left(writes, led)
    if not 0 < place < len(writes):
        raise ValueError("there is no write both before and after the new leader")
    return writes[place] - writes[place - 1]


async def measure(
    name: str,
    *,
    kills: int,
    graceful: int,
    live: int,
    slots: int,
    rate: float,
    directory: Path,
    keep: bool,
) -> Failover:
    """Ends the leader of two replicas so many times on a new cluster `name`.

    Beside it `live` jobs, of which `rate` end a second.  Raises TimeoutError if no other replica writes.
    """
    ends: tuple[tuple[How, int], ...] = (("kill", kills), ("graceful", graceful))
    async with (
        new_rig(name, quotas={"bench-1": slots}, keep=keep) as rig,
        replicas(rig.cluster.kubeconfig_path, directory, REPLICAS) as group,
    ):
        stream = Stream(rig.client, live=live, ends_per_second=rate)
        async with stream.flowing(slots):
            handovers = [
                await hand_over(group, stream.record, how) for how, number in ends for _ in range(number)
            ]
            await asyncio.sleep(_FLOWS)
        record = stream.record
    return Failover(handovers, record.ends, record.doubles, record.failed, record.late)


async def hand_over(group: Replicas, record: Record, how: How) -> Handover:
    """Ends the leader, waits for the first write of another, and starts a replica in its place."""
    await asyncio.sleep(_FLOWS)
    leader = group.holding(record.leaders[-1][1])
    changes, began = len(record.leaders), time.perf_counter()
    await asyncio.to_thread(leader.kill if how == "kill" else leader.stop)
    async with asyncio.timeout(_LIMIT):
        while True:
            # A leader that ends at a SIGTERM clears the holder first.
            led = next((at for at, holder in record.leaders[changes:] if holder), None)
            if led is not None and record.writes[-1] > led:
                break
            await asyncio.sleep(0.02)
    handover = Handover(how, led - began, gap(record.writes, led))
    await group.fill()
    await group.ready()
    return handover
