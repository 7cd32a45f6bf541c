"""Replicas of the operator, as a Deployment keeps them: one that ends is started again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import aiohttp

from bench.machine import background
from bench.operator import Operator, Usage, launch

_LOOK = 0.1


class Replicas:
    """See `replicas`."""

    def __init__(
        self, kubeconfig: Path, directory: Path, number: int, enable: str, settings: Mapping[str, str]
    ) -> None:
        self.running: list[Operator] = []
        self.restarts = 0
        self._kubeconfig = kubeconfig
        self._directory = directory
        self._number = number
        self._enable = enable
        self._settings = settings
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
                await launch(self._kubeconfig, log, enable=self._enable, settings=self._settings)
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
    kubeconfig: Path,
    directory: Path,
    number: int,
    *,
    enable: str = "jobs",
    settings: Mapping[str, str] | None = None,
) -> AsyncIterator[Replicas]:
    """Starts so many replicas and waits until they are ready; ends them at the end."""
    group = Replicas(kubeconfig, directory, number, enable, settings or {})
    try:
        await group.fill()
        await group.ready()
        yield group
    finally:
        await asyncio.gather(*(asyncio.to_thread(each.stop) for each in group.running))
