"""Load for tests: busy processors, a busy disk, tight memory.  It ends with the process that asked for it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from signal import SIG_DFL, SIGHUP, SIGINT, SIGKILL, SIGTERM, signal

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)
_BLOCK = bytes(2**20)
_BLOCKS_OF_FILE = 64
_GIB = 2**30


@dataclass(frozen=True)
class Load:
    """What runs beside the tests."""

    busy: float = 0
    """Busy processes for each core."""
    disk: bool = False
    """One process writes 64 MiB again and again, with fsync after each MiB."""
    memory: float | None = None
    """GiB that are available when the run starts: the rest is held."""

    def __str__(self) -> str:
        parts = [f"{self.processes} busy processes"] if self.busy else []
        parts += ["busy disk"] if self.disk else []
        parts += [f"{self.memory:g} GiB of memory"] if self.memory is not None else []
        return ", ".join(parts) or "no load"

    @property
    def processes(self) -> int:
        return round(self.busy * (os.cpu_count() or 1))

    @contextlib.contextmanager
    def beside(self, folder: Path) -> Iterator[None]:
        """Has the load until the end of the block or of this process; the disk is that of `folder`."""
        works: list[Callable[[], None]] = [_spin] * self.processes
        if self.disk:
            works.append(lambda: _write(folder))
        pids = [_child(work) for work in works]
        if self.memory is not None and (held := available(Path("/")) - int(self.memory * _GIB)) > 0:
            pids.append(_holder(held))
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, SIGKILL)  # not waited for yet, so its number is no other's
                os.waitpid(pid, 0)


def available(root: Path) -> int:
    """Returns the bytes of memory that programs can still take: of the machine, or of its cgroup if less."""
    meminfo = dict(line.split(":") for line in (root / "proc/meminfo").read_text().splitlines())
    free = int(meminfo["MemAvailable"].split()[0]) * 1024
    for limit, usage in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        with contextlib.suppress(OSError, ValueError):  # "max": no limit
            group = root / "sys/fs/cgroup"
            free = min(free, int((group / limit).read_text()) - int((group / usage).read_text()))
    return free


def _child(work: Callable[[], None]) -> int:
    """Starts a process that the kernel kills when this one ends, however it ends; returns its PID."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        _libc.prctl(_PR_SET_PDEATHSIG, SIGKILL)
        for number in (SIGINT, SIGTERM, SIGHUP):
            signal(number, SIG_DFL)
        if os.getppid() == parent:  # else it ended before the kernel was asked
            work()
    finally:
        os._exit(1)


def _spin() -> None:
    while True:
        pass


def _write(folder: Path) -> None:
    with tempfile.TemporaryFile(dir=folder) as file:  # it has no name, so nothing is left of it
        while True:
            file.seek(0)
            for _ in range(_BLOCKS_OF_FILE):
                file.write(_BLOCK)
                file.flush()
                os.fsync(file.fileno())


def _holder(size: int) -> int:
    """Starts a process that holds memory, the first that the kernel ends for want of it; returns its PID."""
    ready, write_end = os.pipe()

    def hold() -> None:
        Path("/proc/self/oom_score_adj").write_text("1000")
        taken = bytearray(b"x") * size  # written: the kernel gives memory only then
        os.write(write_end, b"x")
        while taken:
            time.sleep(3600)

    pid = _child(hold)
    os.close(write_end)
    os.read(ready, 1)  # nothing if it has ended
    os.close(ready)
    return pid
