"""A fleet on clusters that fail, heal and change, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from fournos.engine.kube.errors import ConnectionLostError
from fournos.engine.kube.fleet import Fleet, FleetWatch, Probe
from fournos.engine.kube.resource import NODE
from tests.fakes.clusters import FakeCluster, FakeClusters, kubeconfig
from tests.unit.engine.runtime.loop import START, LoopClock

ONE, TWO = "https://10.0.0.1:6443", "https://10.0.0.2:6443"
LOST = ConnectionLostError("reset")


@dataclass
class Running:
    fleet: Fleet
    clusters: FakeClusters
    clock: LoopClock
    changes: list[tuple[float, str]]

    def probe(self, name: str) -> Probe:
        found = self.fleet.probe(name)
        assert found is not None
        return found

    def names(self, name: str) -> list[str]:
        store = self.fleet.store(name, NODE)
        assert store is not None
        return sorted(obj["metadata"]["name"] for obj in store)

    def changes_of(self, name: str) -> int:
        """Returns the number of changes since the last call."""
        count = sum(1 for _, reported in self.changes if reported == name)
        self.changes[:] = [entry for entry in self.changes if entry[1] != name]
        return count


@contextlib.asynccontextmanager
async def running(
    clusters: FakeClusters, watches: Sequence[FleetWatch] = (FleetWatch(NODE),)
) -> AsyncIterator[Running]:
    clock = LoopClock()
    messages: list[tuple[float, str]] = []
    fleet = Fleet(
        watches=watches,
        on_change=lambda name: messages.append((clock.monotonic(), name)),
        now=clock.now,
        monotonic=clock.monotonic,
        dial=clusters.dial,
        rng=random.Random(5),
    )
    run = Running(fleet, clusters, clock, messages)
    before = asyncio.all_tasks()
    task = asyncio.create_task(fleet.run())
    await asyncio.sleep(0)
    try:
        yield run
        assert not task.done(), "a fleet never ends"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert asyncio.all_tasks() == before, "no task is left"
    assert all(cluster.open == 0 for cluster in clusters.by_server.values()), "no connection is left"


def one(*nodes: str) -> tuple[FakeClusters, FakeCluster]:
    clusters = FakeClusters()
    cluster = clusters.add(ONE)
    for node in nodes:
        cluster.put(node)
    return clusters, cluster


@contextlib.asynccontextmanager
async def connected(
    *nodes: str, watches: Sequence[FleetWatch] = (FleetWatch(NODE),)
) -> AsyncIterator[tuple[Running, FakeCluster]]:
    """A fleet that has had one cluster, `a`, for a second."""
    clusters, cluster = one(*nodes)
    async with running(clusters, watches) as run:
        run.fleet.connect("a", kubeconfig(ONE), version="1")
        await asyncio.sleep(1)
        yield run, cluster


def at(seconds: float) -> Any:
    return START + timedelta(seconds=seconds)
