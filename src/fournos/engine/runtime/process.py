"""The life cycle of an operator process: caches, leader election, work, and an orderly end."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import IntEnum
from typing import Annotated, Any

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from fournos.engine.kube.errors import NotLeaderError
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.events import Recorder
from fournos.engine.runtime.manager import Manager
from fournos.engine.runtime.memory import collect_seldom, keep_objects
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.metrics_table import LEADER
from fournos.engine.runtime.settings_types import LogLevel
from fournos.engine.runtime.supervise import supervise

log = logging.getLogger(__name__)

GRACE = 20.0
"""Seconds that running passes have to finish; below the 30 s after which Kubernetes kills the pod."""
FLUSH = 3.0
"""Seconds to send the last Events."""


class ProcessSettings(BaseSettings):
    """Every field is one variable: `FOURNOS_` + the field's name in capitals."""

    model_config = SettingsConfigDict(env_prefix="FOURNOS_", extra="ignore")

    log_level: LogLevel = "INFO"
    metrics_port: Annotated[int, Field(ge=0, le=65535)] = Field(
        0,
        description="Port that serves /metrics, by http: a NetworkPolicy says to whom; "
        "0: the port of /healthz and /readyz",
    )


class ExitCode(IntEnum):
    """How a process of the operator ended."""

    STOPPED = 0
    GAVE_UP = 1
    """A part failed for good, or a lease was lost."""
    NOT_STARTED = 2
    """The arguments, the settings or the cluster do not allow a start."""


async def run(
    managers: Sequence[Manager],
    *,
    clock: Clock,
    metrics: Metrics,
    recorder: Recorder | None = None,
    background: Mapping[str, Callable[[], Awaitable[None]]] | None = None,
    stop: asyncio.Event | None = None,
    grace: float = GRACE,
) -> ExitCode:
    """Runs until SIGTERM, SIGINT or `stop`.

    Each manager works while this process holds its lease.  The loss of one lease ends all of them.
    `background` tasks run on every replica.
    """
    collect_seldom()
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
    tasks += [asyncio.create_task(manager.informers.watch(), name="watch") for manager in managers]
    lead = asyncio.create_task(_lead(managers, metrics), name="lead")
    stopping = asyncio.create_task(stop.wait(), name="stop")
    try:
        await asyncio.wait([stopping, lead, *tasks], return_when=asyncio.FIRST_COMPLETED)
        if not stop.is_set():
            for task in [lead, *tasks]:
                _failed(task)
            return ExitCode.GAVE_UP
        log.info("stopping: waiting for passes under way")
        return await _end(managers, recorder, lead, grace)
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)
        for manager in managers:
            metrics.set(LEADER, 0, _lease_name(manager))
        for task in [stopping, lead, *tasks]:
            task.cancel()
        await asyncio.gather(stopping, lead, *tasks, return_exceptions=True)


async def _lead(managers: Sequence[Manager], metrics: Metrics) -> None:
    if not managers:
        await asyncio.Event().wait()  # only tasks of the background
    async with asyncio.TaskGroup() as tasks:
        for manager in managers:
            tasks.create_task(_work(manager, metrics))


async def _work(manager: Manager, metrics: Metrics) -> None:
    """Lets a manager work while it leads; it waits for its own caches alone.

    A part whose CRD is missing would otherwise keep the other parts of the process idle.
    """
    await manager.informers.synced()  # an incomplete cache would show objects as deleted
    log.info("caches are complete: %s", _lease_name(manager))
    keep_objects()
    if manager.lease is not None:
        await manager.lease.acquire()
    metrics.set(LEADER, 1, _lease_name(manager))
    async with asyncio.TaskGroup() as tasks:
        if manager.lease is not None:
            tasks.create_task(manager.lease.hold())
        tasks.create_task(manager.work())


def _lease_name(manager: Manager) -> str:
    return manager.lease.key.name if manager.lease is not None else ""


async def _end(
    managers: Sequence[Manager],
    recorder: Recorder | None,
    lead: asyncio.Task[None],
    grace: float,
) -> ExitCode:
    """Drains all managers while their leases are still renewed, then releases the leases.

    A lease that is released before the last write ends would let another leader write at the same time.
    """
    drained = asyncio.gather(*(manager.drain() for manager in managers))
    futures: list[asyncio.Future[Any]] = [drained, lead]
    await asyncio.wait(futures, timeout=grace, return_when=asyncio.FIRST_COMPLETED)
    if lead.done():  # the lease was lost, or all workers have ended
        if _failed(lead):
            drained.cancel()
            return ExitCode.GAVE_UP
        await drained  # all workers have ended, so nothing is under way
    elif not drained.done():
        drained.cancel()
        log.warning("passes still under way after %g s are cut off; the leases expire by themselves", grace)
        # Without a release: a pass that was cut off may still have a write on its way.
        return ExitCode.STOPPED
    if recorder is not None:
        try:
            async with asyncio.timeout(FLUSH):
                await recorder.flush()
        except TimeoutError:
            log.warning("some events were not written")
    lead.cancel()  # a renewal after the release would take the lease back
    await asyncio.wait([lead])
    await asyncio.gather(*(manager.lease.release() for manager in managers if manager.lease))
    return ExitCode.STOPPED


def _failed(task: asyncio.Task[Any]) -> bool:
    """True if the task ended with an error, which is logged."""
    if not task.done() or task.cancelled():
        return False
    error = task.exception()
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is None:
        return False
    if isinstance(error, NotLeaderError):
        log.critical("leadership lost: %s", error.message)
    else:
        log.critical("%s gave up: %s", task.get_name(), error, exc_info=error)
    return True
