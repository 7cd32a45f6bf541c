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
from fournos.runtime.events import Recorder
from fournos.runtime.manager import Manager
from fournos.runtime.metrics import Metrics
from fournos.runtime.metrics_table import LEADER
from fournos.runtime.supervise import supervise

log = logging.getLogger(__name__)

GRACE = 20.0
"""Seconds that passes under way get to finish; below Kubernetes' 30 s before the kill."""
FLUSH = 3.0
"""Seconds for the last Events."""
_COLLECT_EVERY = (20_000, 20, 20)
"""Python looks for cycles after so many new objects: a pass makes thousands, hardly one in a cycle."""


async def run(
    controllers: Sequence[Manager],
    *,
    clock: Clock,
    metrics: Metrics,
    recorder: Recorder | None = None,
    background: Mapping[str, Callable[[], Awaitable[None]]] | None = None,
    stop: asyncio.Event | None = None,
    grace: float = GRACE,
) -> int:
    """Until SIGTERM, SIGINT or `stop`.  Returns the exit code: 0, or 1 if something had to give up.

    Each controller works while this process holds its lease; one lease that is lost ends all of them.
    `background` tasks run on every replica.
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
    tasks += [asyncio.create_task(controller.informers.watch(), name="watch") for controller in controllers]
    lead = asyncio.create_task(_lead(controllers, metrics), name="lead")
    stopping = asyncio.create_task(stop.wait(), name="stop")
    try:
        await asyncio.wait([stopping, lead, *tasks], return_when=asyncio.FIRST_COMPLETED)
        if not stop.is_set():
            for task in [lead, *tasks]:
                _explain(task)
            return 1
        log.info("stopping: waiting for passes under way")
        return await _end(controllers, recorder, lead, grace)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
        for controller in controllers:
            metrics.set(LEADER, 0, _lease_name(controller))
        for task in [stopping, lead, *tasks]:
            task.cancel()
        await asyncio.gather(stopping, lead, *tasks, return_exceptions=True)


async def _lead(controllers: Sequence[Manager], metrics: Metrics) -> None:
    for controller in controllers:
        await controller.informers.synced()
    log.info("caches are complete")
    # What the caches hold stays: the collector need not look through it again and again.
    gc.collect()
    gc.freeze()
    async with asyncio.TaskGroup() as tasks:
        for controller in controllers:
            tasks.create_task(_work(controller, metrics))


async def _work(controller: Manager, metrics: Metrics) -> None:
    if controller.lease is not None:
        await controller.lease.acquire()
    metrics.set(LEADER, 1, _lease_name(controller))
    async with asyncio.TaskGroup() as tasks:
        if controller.lease is not None:
            tasks.create_task(controller.lease.hold())
        tasks.create_task(controller.work())


def _lease_name(controller: Manager) -> str:
    return controller.lease.key.name if controller.lease is not None else ""


async def _end(
    controllers: Sequence[Manager],
    recorder: Recorder | None,
    lead: asyncio.Task[None],
    grace: float,
) -> int:
    """Drain while the leases are still being renewed, then let go of them."""
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
        log.warning("passes still under way after %g s are cut off; the leases expire by themselves", grace)
        return 0
    if recorder is not None:
        try:
            async with asyncio.timeout(FLUSH):
                await recorder.flush()
        except TimeoutError:
            log.warning("some events were not written")
    lead.cancel()  # no renewal may cross the release
    await asyncio.wait([lead])
    await asyncio.gather(*(controller.lease.release() for controller in controllers if controller.lease))
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
