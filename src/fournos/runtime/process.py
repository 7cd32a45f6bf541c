"""The life of a controller process: caches, leadership, work, and an orderly end."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from fournos.kube.errors import NotLeaderError
from fournos.runtime.clock import Clock
from fournos.runtime.controller import Controller
from fournos.runtime.events import Recorder
from fournos.runtime.lease import Lease
from fournos.runtime.metrics import Metrics
from fournos.runtime.supervise import supervise

log = logging.getLogger(__name__)

GRACE = 20.0
"""Seconds that passes under way get to finish; below Kubernetes' 30 s before the kill."""
FLUSH = 3.0
"""Seconds for the last Events."""
_COLLECT_EVERY = (20_000, 20, 20)
"""Python looks for cycles after so many new objects: a pass makes thousands, hardly one in a cycle."""


async def run(
    controllers: Sequence[Controller],
    *,
    clock: Clock,
    metrics: Metrics,
    lease: Lease | None = None,
    recorder: Recorder | None = None,
    background: Mapping[str, Callable[[], Awaitable[None]]] | None = None,
    stop: asyncio.Event | None = None,
    grace: float = GRACE,
) -> int:
    """Until SIGTERM, SIGINT or `stop`.  Returns the exit code: 0, or 1 if something had to give up.

    Without a lease this process always works (development).  `background` tasks run on every replica.
    """
    gc.set_threshold(*_COLLECT_EVERY)
    stop = stop or asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    jobs = dict(background or {})
    if recorder is not None:
        jobs["events"] = recorder.run
    tasks: list[asyncio.Task[Any]] = [
        asyncio.create_task(supervise(name, job, clock=clock, metrics=metrics), name=name)
        for name, job in jobs.items()
    ]
    tasks += [asyncio.create_task(controller.watch(), name="watch") for controller in controllers]
    lead = asyncio.create_task(_lead(controllers, lease, metrics), name="lead")
    stopping = asyncio.create_task(stop.wait(), name="stop")
    try:
        await asyncio.wait([stopping, lead, *tasks], return_when=asyncio.FIRST_COMPLETED)
        if not stop.is_set():
            for task in [lead, *tasks]:
                _explain(task)
            return 1
        log.info("stopping: waiting for passes under way")
        return await _end(controllers, lease, recorder, lead, grace)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
        metrics.set("fournos_leader", 0)
        for task in [stopping, lead, *tasks]:
            task.cancel()
        await asyncio.gather(stopping, lead, *tasks, return_exceptions=True)


async def _lead(controllers: Sequence[Controller], lease: Lease | None, metrics: Metrics) -> None:
    for controller in controllers:
        await controller.synced()
    log.info("caches are complete")
    # What the caches hold stays: the collector need not look through it again and again.
    gc.collect()
    gc.freeze()
    if lease is not None:
        await lease.acquire()
    metrics.set("fournos_leader", 1)
    async with asyncio.TaskGroup() as tasks:
        if lease is not None:
            tasks.create_task(lease.hold())
        for controller in controllers:
            tasks.create_task(controller.work())


async def _end(
    controllers: Sequence[Controller],
    lease: Lease | None,
    recorder: Recorder | None,
    lead: asyncio.Task[None],
    grace: float,
) -> int:
    """Drain while the lease is still being renewed, then let go of it."""
    drained = asyncio.gather(*(controller.drain() for controller in controllers))
    futures: list[asyncio.Future[Any]] = [drained, lead]
    await asyncio.wait(futures, timeout=grace, return_when=asyncio.FIRST_COMPLETED)
    if lead.done():
        if _explain(lead):
            drained.cancel()
            return 1
        await drained  # all workers have ended: nothing is under way
    elif not drained.done():
        drained.cancel()
        log.warning("passes still under way after %g s are cut off; the lease expires by itself", grace)
        return 0
    if recorder is not None:
        try:
            async with asyncio.timeout(FLUSH):
                await recorder.flush()
        except TimeoutError:
            log.warning("some events were not written")
    lead.cancel()  # no renewal may cross the release
    await asyncio.wait([lead])
    if lease is not None:
        await lease.release()
    return 0


def _explain(task: asyncio.Task[Any]) -> int:
    """Say why a task ended; the exit code."""
    if not task.done() or task.cancelled():
        return 0
    error = task.exception()
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is None:
        return 0
    if isinstance(error, NotLeaderError):
        log.critical("leadership lost: %s", error.message)
    else:
        log.critical("%s gave up: %s", task.get_name(), error, exc_info=error)
    return 1
