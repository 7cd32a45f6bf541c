"""Supervision of background tasks that must not end: restarted with backoff, then the process gives up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from fournos.engine.kube.errors import NotLeaderError
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.metrics_table import TASK_RESTARTS

log = logging.getLogger(__name__)

RESTARTS = 5
"""Ends in a row after which the process gives up, because a restart of the process is more likely to help."""
HEALTHY = 300.0
"""Seconds of running after which earlier ends are no longer counted."""


class TaskFailedError(Exception):
    """Raised when a background task has ended RESTARTS times in a row."""


async def supervise(name: str, run: Callable[[], Awaitable[None]], *, clock: Clock, metrics: Metrics) -> None:
    """Runs the task and restarts it with backoff, until cancelled.

    Raises TaskFailedError when it has ended RESTARTS times in a row, and NotLeaderError at once.
    """
    ends = 0
    while True:
        started = clock.monotonic()
        try:
            await run()
            log.error("task %s ended", name)
        except NotLeaderError:
            raise
        except Exception:
            log.exception("task %s failed", name)
        if clock.monotonic() - started > HEALTHY:
            ends = 0
        ends += 1
        if ends >= RESTARTS:
            raise TaskFailedError(f"task {name} ended {ends} times in a row")
        metrics.add(TASK_RESTARTS, name)
        await asyncio.sleep(min(2.0**ends, 30.0))
