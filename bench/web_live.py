"""Writes changes, and measures when they are on open tabs and what that costs their server."""

from __future__ import annotations

import asyncio
import itertools
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

import aiohttp

from bench.machine import cpu
from bench.rig import NAMESPACE
from bench.tasks import until
from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.client import Client
from fournos.engine.kube.resource import Key

RATE: Final = 10
"""Status changes per second."""
ARRIVES: Final = 60.0
"""Seconds after which a change that is not on each tab counts as lost."""
_MARK: Final = re.compile(rb"change-(\d+)-")


@dataclass(frozen=True, slots=True)
class Live:
    """Changes that arrive at open tabs or sockets."""

    tabs: int
    changes: int
    seconds: float
    delays: tuple[float, ...]
    """Seconds from before the write of each change to each tab."""
    bytes: int
    cpu_percent: float


@dataclass(frozen=True, slots=True)
class Changes:
    """Writes statuses of jobs that the page shows: each with a mark in its message."""

    client: Client
    names: tuple[str, ...]
    numbers: itertools.count[int] = field(default_factory=itertools.count)
    written: dict[int, float] = field(default_factory=dict)
    """Mark → when its write began."""

    async def write(self) -> int:
        number = next(self.numbers)
        key = Key(NAMESPACE, self.names[number % len(self.names)])
        self.written[number] = time.perf_counter()
        body = {"status": {"message": f"change-{number}-"}}
        await self.client.patch(FOURNOS_JOB, key, body, subresource="status")
        return number

    async def some(self, seconds: float) -> list[int]:
        """Writes `RATE` changes a second."""
        end, writes = time.perf_counter() + seconds, []
        while time.perf_counter() < end:
            writes.append(asyncio.create_task(self.write()))
            await asyncio.sleep(1 / RATE)
        return list(await asyncio.gather(*writes))


class Arrived:
    """What came to the open tabs."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self.delays: dict[tuple[int, int], float] = {}
        """(tab, mark) → seconds from the write of the mark to the tab."""
        self.bytes = 0

    async def chunks(self, tab: int, answer: aiohttp.ClientResponse) -> None:
        rest = b""
        async for chunk in answer.content.iter_any():
            # A mark may be cut in two by the chunks.
            rest = self._take(tab, chunk, rest)[-32:]

    async def messages(self, tab: int, socket: aiohttp.ClientWebSocketResponse) -> None:
        async for message in socket:
            self._take(tab, message.data)

    def _take(self, tab: int, data: bytes, before: bytes = b"") -> bytes:
        self.bytes += len(data)
        now, received = time.perf_counter(), before + data
        for match in _MARK.finditer(received):
            mark = int(match[1])
            self.delays.setdefault((tab, mark), now - self._changes.written[mark])
        return received

    async def all(self, marks: list[int], tabs: int) -> None:
        """Waits until each mark is on each tab.  Raises TimeoutError."""
        async with asyncio.timeout(ARRIVES):
            await until(lambda: all((tab, mark) in self.delays for tab in range(tabs) for mark in marks))


async def measure_live(changes: Changes, arrived: Arrived, pid: int, tabs: int, seconds: float) -> Live:
    arrived.bytes, first = 0, time.perf_counter()
    numbers: list[int] = []

    async def work() -> None:
        numbers.extend(await changes.some(seconds))
        await arrived.all(numbers, tabs)

    used = await share(pid, work)
    took = time.perf_counter() - first
    marks = set(numbers)
    delays = tuple(delay for (_, mark), delay in arrived.delays.items() if mark in marks)
    return Live(tabs, len(numbers), took, delays, arrived.bytes, used)


async def share(pid: int, work: Callable[[], Awaitable[None]]) -> float:
    """Returns the CPU of a process during some work, in percent of a core."""
    before, began = cpu(pid), time.perf_counter()
    await work()
    return (cpu(pid) - before) / (time.perf_counter() - began) * 100
