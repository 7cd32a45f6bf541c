"""Replicas of the operator, as a Deployment keeps them: one that ends is started again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from bench.machine import background
from bench.operator import Operator, Usage, launch

_LOOK = 0.1


@dataclass(frozen=True, slots=True)
class Program:
    """What each replica is; see `bench.operator.launch`."""

    enable: str = "jobs"
    settings: Mapping[str, str] = field(default_factory=dict)


class Replicas:
    """See `replicas`."""

    def __init__(self, kubeconfig: Path, directory: Path, number: int, program: Program) -> None:
        self.running: list[Operator] = []
        self.restarts = 0
        self._kubeconfig = kubeconfig
        self._directory = directory
        self._number = number
        self._program = program
        self._started = 0
        self._filling = asyncio.Lock()

    def holding(self, identity: str) -> Operator:
        """Returns the replica of the Lease's holder.  Raises LookupError."""
        # The engine makes an identity of the host, the process and a random part.
        for each in self.running:
            if f"_{each.pid}_" in identity:
                return each
        raise LookupError(f"the Lease's holder {identity!r} is no replica of this benchmark")

    async def ready(self) -> None:
        """Returns when all replicas are ready.  Raises RuntimeError."""
        started = time.perf_counter()
        await asyncio.gather(*(each.await_ready(started) for each in self.running))

    async def fill(self) -> None:
        """Starts as many replicas as are missing; does not wait until they are ready."""
        async with self._filling:
            await self._fill()

    async def _fill(self) -> None:
        for each in [each for each in self.running if each.ended]:
            self.running.remove(each)
            self.restarts += 1
        while len(self.running) < self._number:
            self._started += 1
            log = self._directory / f"replica-{self._started}.log"
            self.running.append(
                await launch(
                    self._kubeconfig,
                    log,
                    enable=self._program.enable,
                    settings=self._program.settings,
                )
            )

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Starts what ends by itself, as long as the context is open."""
        async with background(self._keep()):
            yield

    async def _keep(self) -> None:
        while True:
            await self.fill()
            await asyncio.sleep(_LOOK)

    async def usages(self) -> dict[int, Usage]:
        """Returns PID → usage of the replicas that answer: one that has just started or ended does not."""
        usages = {}
        for each in self.running:
            with suppress(aiohttp.ClientError, OSError, KeyError):
                usages[each.pid] = await each.usage()
        return usages


@asynccontextmanager
async def replicas(
    kubeconfig: Path, directory: Path, number: int, program: Program | None = None
) -> AsyncIterator[Replicas]:
    """Starts so many replicas, of `jobs` by default, and waits until they are ready; ends them at the end."""
    group = Replicas(kubeconfig, directory, number, program or Program())
    try:
        await group.fill()
        await group.ready()
        yield group
    finally:
        await asyncio.gather(*(asyncio.to_thread(each.stop) for each in group.running))
