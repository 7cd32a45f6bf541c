"""The life cycle of an operator process: caches, leader election, work, and an orderly end."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Annotated, Any, Final

from aiohttp import web
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from fournos.engine.kube.errors import NotLeaderError
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.events import Recorder
from fournos.engine.runtime.informers import supervise
from fournos.engine.runtime.listening import listening
from fournos.engine.runtime.manager import Manager
from fournos.engine.runtime.metrics import CONTENT_TYPE, LEADER, LOOP_LAG_SECONDS, Metrics
from fournos.engine.runtime.part import LogLevel

# --- memory -----------------------------------------------------------------------------------------
# How Python's cycle collection treats a process that keeps many objects for long.

_COLLECT_EVERY: Final = (20_000, 20, 20)
"""Thresholds of the cycle collection.  A pass or a page makes thousands of objects and hardly any cycle."""


def collect_seldom() -> None:
    gc.set_threshold(*_COLLECT_EVERY)


def keep_objects() -> None:
    """Takes all present objects out of the search for cycles: the objects in complete caches stay.

    With 10,000 jobs in the caches each search for cycles among them takes a fifth of a second.
    """
    gc.collect()
    gc.freeze()


log = logging.getLogger(__name__)

GRACE = 20.0
"""Seconds that running passes have to finish; below the 30 s after which Kubernetes kills the pod."""
FLUSH = 3.0
"""Seconds to send the last Events."""


class ProcessSettings(BaseSettings):
    """Every field is one variable: `FOURNOS_` + the field's name in capitals."""

    model_config = SettingsConfigDict(env_prefix="FOURNOS_", extra="ignore")

    log_level: LogLevel = "INFO"
    controller_namespace: str = Field(
        "",
        description="Namespace of the operator itself: of its Services and certificates, and of the Lease of "
        "a system that works in all namespaces; empty: that of the jobs, or into which it is shipped",
    )
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


# --- health and metrics -----------------------------------------------------------------------------
# The endpoints of every process: /healthz and /readyz for the kubelet, /metrics for Prometheus.

MAX_LAG: Final = 10.0
"""Seconds of delay of the event loop from which the process counts as hung."""
TICK: Final = 1.0

Problems = Callable[[], Iterable[str]]
"""Returns the present problems, one line each; nothing if there is none."""


class Health:
    """The HTTP servers of the endpoints.  `run` serves until cancelled."""

    def __init__(
        self,
        clock: Clock,
        metrics: Metrics,
        *,
        alive: Problems = tuple,
        ready: Problems = tuple,
        remarks: Problems = tuple,
        refresh: Sequence[Callable[[], None]] = (),
    ) -> None:
        """`remarks` are added to either response and never change its status.

        Each of `refresh` is called before metrics are read.
        """
        self._clock = clock
        self._metrics = metrics
        self._alive = alive
        self._ready = ready
        self._remarks = remarks
        self._refresh = refresh
        self._lag = 0.0

    def app(self, *, metrics: bool = True) -> web.Application:
        """The application of the health endpoints, with or without /metrics."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        if metrics:
            app.router.add_get("/metrics", self._render)
        return app

    async def run(self, *, port: int, metrics_port: int = 0, host: str = "") -> None:
        """Serves until cancelled.  `metrics_port` 0: the same port.  Raises OSError if a port is in use."""
        async with listening(self.app(metrics=not metrics_port), host, port, closing=TICK):
            if not metrics_port:
                await self._tick()
            scraped = web.Application()
            scraped.router.add_get("/metrics", self._render)
            async with listening(scraped, host, metrics_port, closing=TICK):
                await self._tick()

    async def _tick(self) -> None:
        while True:
            before = self._clock.monotonic()
            await asyncio.sleep(TICK)
            self._lag = max(0.0, self._clock.monotonic() - before - TICK)
            self._metrics.set(LOOP_LAG_SECONDS, self._lag)

    async def _healthz(self, _request: web.Request) -> web.Response:
        late = [f"the event loop was held up for {self._lag:.1f} s"] if self._lag > MAX_LAG else []
        return self._response([*late, *self._alive()])

    async def _readyz(self, _request: web.Request) -> web.Response:
        return self._response(list(self._ready()))

    def _response(self, problems: list[str]) -> web.Response:
        lines = dict.fromkeys([*(problems or ["ok"]), *self._remarks()])
        return web.Response(status=503 if problems else 200, text="\n".join(lines) + "\n")

    async def _render(self, _request: web.Request) -> web.Response:
        for refresh in self._refresh:
            try:
                refresh()
            except Exception:  # gauges of one part that cannot be set must not hide all others
                log.exception("metrics are not refreshed")
        return web.Response(body=self._metrics.render(), headers={"Content-Type": CONTENT_TYPE})
