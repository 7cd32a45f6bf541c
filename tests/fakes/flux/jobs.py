"""Jobs and their queue, as rank 0 keeps them: first come first served over the ranks that are up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

STATES = {"SCHED": "S", "RUN": "R", "INACTIVE": "I"}


@dataclass
class Job:
    number: int
    spec: dict[str, Any]
    """argv, env, cwd, ntasks, nnodes, cores, name, waitable, output, error, batch"""
    scope: str
    state: str = "SCHED"
    tasks: list[int] = field(default_factory=list)
    """The rank of each task."""
    ranks: list[int] = field(default_factory=list)
    codes: dict[int, int] = field(default_factory=dict)
    exception: str = ""
    lines: list[tuple[str, int, str]] = field(default_factory=list)
    submitted: float = field(default_factory=time.time)
    started: float = 0.0
    ended: float = 0.0
    waited: bool = False

    @property
    def id(self) -> str:
        return f"f{self.number}"

    @property
    def code(self) -> int:
        """What submit --watch ends with."""
        if self.exception:
            return 1
        return max(self.codes.values(), default=0)

    @property
    def active(self) -> bool:
        return self.state != "INACTIVE"

    @property
    def result(self) -> str:
        if self.exception.startswith("cancel"):
            return "CANCELED"
        return "COMPLETED" if not self.code else "FAILED"

    @property
    def letter(self) -> str:
        if self.active:
            return STATES[self.state]
        return {"CANCELED": "CA", "COMPLETED": "CD", "FAILED": "F"}[self.result]

    def dump(self) -> dict[str, Any]:
        """For an archive: without what only a running job needs."""
        return {
            "number": self.number,
            "spec": {key: value for key, value in self.spec.items() if key != "env"},
            "scope": self.scope,
            "state": self.state,
            "ranks": self.ranks,
            "codes": {str(task): code for task, code in self.codes.items()},
            "exception": self.exception,
            "lines": self.lines,
            "times": [self.submitted, self.started, self.ended],
        }

    @classmethod
    def restored(cls, found: dict[str, Any]) -> Job:
        job = cls(found["number"], found["spec"], found["scope"])
        job.state = "INACTIVE"
        job.ranks, job.exception = found["ranks"], found["exception"]
        job.codes = {int(task): code for task, code in found["codes"].items()}
        job.lines = [(stream, task, line) for stream, task, line in found["lines"]]
        job.submitted, job.started, job.ended = found["times"]
        return job


class UnsatisfiableError(Exception):
    """No state of the instance would let it run."""


class Queue:
    """One list of jobs and the cores they share.  `changed` is notified of everything."""

    def __init__(self, cores: dict[int, int], usable: Callable[[int], bool]) -> None:
        self.cores = dict(cores)
        self.free = dict(cores)
        self.usable = usable
        self.jobs: list[Job] = []

    def check(self, spec: dict[str, Any]) -> None:
        """Raises UnsatisfiableError."""
        if self._place(spec, self.cores, self.cores) is None:
            raise UnsatisfiableError("unsatisfiable request")

    def next(self) -> Job | None:
        """The head of the queue, with its ranks, if it can start now."""
        head = next((job for job in self.jobs if job.state == "SCHED"), None)
        if head is None:
            return None
        placed = self._place(head.spec, self.free, [rank for rank in self.free if self.usable(rank)])
        if placed is None:
            return None
        head.tasks = placed
        head.ranks = sorted(set(placed))
        for rank in placed:
            self.free[rank] -= int(head.spec["cores"])
        head.state, head.started = "RUN", time.time()
        return head

    def done(self, job: Job) -> None:
        for rank in job.tasks:
            self.free[rank] += int(job.spec["cores"])
        job.state, job.ended = "INACTIVE", time.time()

    def _place(self, spec: dict[str, Any], free: dict[int, int], ranks: Iterable[int]) -> list[int] | None:
        """The rank of each task; None: they do not fit."""
        tasks, nodes, each = int(spec["ntasks"]), int(spec["nnodes"]), int(spec["cores"])
        room = {rank: free[rank] // each for rank in ranks}
        if nodes:
            if tasks < nodes:
                raise UnsatisfiableError("node count must not be greater than task count")
            least = -(-tasks // nodes)
            chosen = [rank for rank in sorted(room) if room[rank] >= least][:nodes]
            if len(chosen) < nodes:
                return None
            counts = [tasks // nodes + (i < tasks % nodes) for i in range(nodes)]
            return [rank for rank, count in zip(chosen, counts, strict=True) for _ in range(count)]
        placed = [rank for rank in sorted(room) for _ in range(room[rank])][:tasks]
        return placed if len(placed) == tasks else None


@dataclass
class Change:
    """Notifies the tasks that wait for a change of the jobs."""

    condition: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def notify(self) -> None:
        async with self.condition:
            self.condition.notify_all()

    async def until(self, true: Callable[[], bool]) -> None:
        async with self.condition:
            await self.condition.wait_for(true)
