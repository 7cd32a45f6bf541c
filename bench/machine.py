"""Who used the machine while something was measured."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_IDLE_COLUMNS = (3, 4)
"""idle and iowait in /proc/stat."""
_COLUMNS = slice(8)
"""Those behind are guests' time, which is counted in user and nice already."""


@dataclass(frozen=True, slots=True)
class Load:
    """Seconds of CPU since some beginning."""

    processes: dict[str, float]
    busy: float
    """All cores, everybody."""
    capacity: float
    """All cores, idle time included."""

    def since(self, before: Load) -> Load:
        return Load(
            {name: self.processes[name] - before.processes[name] for name in self.processes},
            self.busy - before.busy,
            self.capacity - before.capacity,
        )

    @property
    def others(self) -> float:
        """The share of the machine, 0 to 1, that went to processes that have nothing to do with us."""
        return max(0.0, self.busy - sum(self.processes.values())) / self.capacity if self.capacity else 0.0


def load(processes: Mapping[str, int]) -> Load:
    """By name → number of the process."""
    words = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    columns = [int(word) for word in words[_COLUMNS]]
    idle = sum(columns[column] for column in _IDLE_COLUMNS)
    return Load(
        {name: cpu(pid) for name, pid in processes.items()},
        (sum(columns) - idle) / _TICKS,
        sum(columns) / _TICKS,
    )


def cpu(pid: int) -> float:
    """Seconds, user and system, of one process with all its threads."""
    # The command's name, in brackets, may hold blanks: fields are counted behind it.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def memory(pid: int) -> tuple[int, int]:
    """Bytes resident: now, and the most so far."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = {line.split()[0]: int(line.split()[1]) * 1024 for line in lines if line.startswith("Vm")}
    return found["VmRSS:"], found["VmHWM:"]
