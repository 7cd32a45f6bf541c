"""Measures the start of an operator beside many live jobs: until its first decision, and its memory."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.executors import Executors
from bench.idle import PENDING, RUNNING_SHARE, seed
from bench.operator import operator
from bench.result import Result
from bench.rig import new_rig
from bench.tasks import until

_LIMIT: Final = 120.0
_DECIDED: Final = {"admitted", "run", "running"}
"""Any of these shows the decision: a short phase may not appear in the watch."""


@dataclass(frozen=True, slots=True)
class Started(Result):
    """Times in seconds from the start of the process, memory in bytes."""

    jobs: int
    ready_after: float
    """Until the caches are complete."""
    decided_after: float
    """Until a job that Kueue admitted meanwhile has its next phase."""
    cpu: float
    """CPU seconds until then."""
    peak: int


async def measure(name: str, jobs: int, *, directory: Path, profile: Path | None, keep: bool) -> Started:
    """Starts the operator beside `jobs` jobs on a new cluster `name`.  Raises TimeoutError."""
    async with new_rig(name, quotas={"bench-1": 1}, keep=keep) as rig:
        await seed(rig, jobs, max(1, jobs // RUNNING_SHARE), directory)
        executors = Executors(rig.client, finish_runs=False)
        async with executors.watching():
            begun = time.perf_counter()
            async with operator(
                rig.cluster.kubeconfig_path, directory / "operator.log", profile=profile
            ) as running:
                async with asyncio.timeout(_LIMIT):
                    await until(lambda: not _DECIDED.isdisjoint(executors.times.get(PENDING, {})), every=0.01)
                usage = await running.usage()
    decided = min(at for event, at in executors.times[PENDING].items() if event in _DECIDED) - begun
    return Started(jobs, running.ready_after, decided, usage.cpu, usage.peak)
