"""Measures which processes used the machine's CPU during a measurement."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TICKS = os.sysconf("SC_CLK_TCK")
_IDLE_COLUMNS = (3, 4)
"""The columns idle and iowait of /proc/stat."""
_COLUMNS = slice(8)
"""The columns after these are the guests' time, which user and nice already include."""


@dataclass(frozen=True, slots=True)
class Load:
    """CPU seconds since the boot, or since another Load."""

    processes: dict[str, float]
    busy: float
    """All processes on all cores."""
    capacity: float
    """All cores, including idle time."""

    def since(self, before: Load) -> Load:
        return Load(
            {name: self.processes[name] - before.processes[name] for name in self.processes},
            self.busy - before.busy,
            self.capacity - before.capacity,
        )

    @property
    def others(self) -> float:
        """The share of the capacity, 0 to 1, used by processes other than `processes`."""
        return max(0.0, self.busy - sum(self.processes.values())) / self.capacity if self.capacity else 0.0


def load(processes: Mapping[str, int]) -> Load:
    """Reads the current load.  `processes` is name → PID."""
    words = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    columns = [int(word) for word in words[_COLUMNS]]
    idle = sum(columns[column] for column in _IDLE_COLUMNS)
    return Load(
        {name: cpu(pid) for name, pid in processes.items()},
        (sum(columns) - idle) / _TICKS,
        sum(columns) / _TICKS,
    )


def cpu(pid: int) -> float:
    """Returns the CPU seconds, user and system, of a process with all its threads."""
    # The command's name, in parentheses, may contain blanks, so the fields are counted after it.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def memory(pid: int) -> tuple[int, int]:
    """Returns the resident memory of a process in bytes: the current and the peak value."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = {line.split()[0]: int(line.split()[1]) * 1024 for line in lines if line.startswith("Vm")}
    return found["VmRSS:"], found["VmHWM:"]


def open_files(pid: int) -> int:
    """Returns how many files and sockets a process has open."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


async def until(holds: Callable[[], bool], *, every: float = 0.05) -> None:
    """Looks `every` so many seconds, and returns when it holds."""
    while not holds():  # noqa: ASYNC110 - another process or a watch brings it about
        await asyncio.sleep(every)


@asynccontextmanager
async def background(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Does the work as long as the context is open, and then cancels it.  Its errors are dropped."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def limited(number: int, calls: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """Makes the calls, `number` of them at once."""
    room = asyncio.Semaphore(number)

    async def call_in_room(call: Callable[[], Awaitable[None]]) -> None:
        async with room:
            await call()

    await asyncio.gather(*map(call_in_room, calls))
