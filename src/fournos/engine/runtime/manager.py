"""Runs controllers against one API server: caches, queues, workers, periodic garbage collection.

All replicas run the informers, so that the caches of a standby are warm.  Only the leader runs `work`.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import NotLeaderError
from fournos.engine.kube.resource import Key, Obj, Resource, key_of
from fournos.engine.runtime.act import StepExecutor
from fournos.engine.runtime.clock import Clock, SystemClock
from fournos.engine.runtime.controller import Caches, Controller
from fournos.engine.runtime.decision import EventRecord
from fournos.engine.runtime.informers import ControllerMetrics, Informers, RunningController, at_work
from fournos.engine.runtime.lease import Lease
from fournos.engine.runtime.metrics import (
    QUEUE_OLDEST_SECONDS,
    QUEUE_RETRYING,
    RECONCILES,
    STEP_FAILURES,
    Metrics,
)
from fournos.engine.runtime.queue import Queue, QueueClosedError
from fournos.engine.runtime.reconcile import PassOutcome, Result, reconcile

log = logging.getLogger(__name__)

RecordEvent = Callable[[Resource, Obj, EventRecord], None]
"""Sends a Kubernetes Event about an object; must not block."""

COLLECT_INTERVAL = 300.0
"""Seconds between garbage collections, for parts without a setting of their own."""
SOONEST = timedelta(milliseconds=100)


class Manager:
    """The controllers of a process on one API server, as in controller-runtime."""

    def __init__(
        self,
        api: Api,
        controllers: Sequence[Controller[Any]],
        *,
        lease: Lease | None = None,
        clock: Clock | None = None,
        metrics: Metrics | None = None,
        record: RecordEvent | None = None,
        workers: int = 8,
        collect_interval: float = COLLECT_INTERVAL,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """`workers`: concurrent passes per controller; `collect_interval` in seconds.

        `lease`: the leader election for `process.run`; without it the manager always works (development).
        """
        self.lease = lease
        self._executor = StepExecutor(api)
        self._clock = clock or SystemClock()
        self._metrics = metrics or Metrics()
        self._record = record
        self._workers = workers
        self._collect_interval = collect_interval
        self._jitter = jitter
        self._running = [self._prepare(controller) for controller in controllers]
        self.informers = Informers(api, self._running, clock=self._clock, metrics=self._metrics)

    def _prepare(self, controller: Controller[Any]) -> RunningController:
        name = controller.published_name or controller.name
        metrics = ControllerMetrics(self._metrics, name, self._clock, workers=self._workers)
        return RunningController(
            controller, Queue(self._clock, jitter=self._jitter, metrics=metrics), metrics
        )

    # --- for all replicas ----------------------------------------------------------------------------

    def caches(self, controller: str) -> Caches:
        """Returns the caches of a controller, by its name."""
        return next(running.caches for running in self._running if running.controller.name == controller)

    def refresh_metrics(self) -> None:
        """Sets the gauges.  Call it before metrics are read."""
        for running in self._running:
            name, queue = running.controller.name, running.queue
            self._metrics.set(QUEUE_RETRYING, queue.retrying, name)
            self._metrics.set(QUEUE_OLDEST_SECONDS, queue.oldest(), name)
            running.metrics.refresh(len(queue))
        self.informers.refresh_metrics()

    # --- for the leader --------------------------------------------------------------------------------

    async def work(self) -> None:
        """Reconciles all keys until `drain`.  The caches must be synced.

        Raises NotLeaderError and TaskFailedError.
        """
        # Before the keys are added, so that no change in between is lost.
        self.informers.waking = True
        for running in self._running:
            # First what the leader before may not have seen, the newest first.
            for key in reversed(running.recent):
                running.queue.add(key)
            running.recent.clear()
            running.queue.sweep(map(key_of, running.caches[running.controller.resource]))
        async with asyncio.TaskGroup() as tasks:
            collectors = [
                tasks.create_task(self._collect(running))
                for running in self._running
                if running.controller.collect is not None
            ]
            workers = [
                tasks.create_task(self._worker(running))
                for running in self._running
                for _ in range(self._workers)
            ]
            await asyncio.wait(workers)
            for collector in collectors:
                collector.cancel()

    def wake(self, controller: str, key: Key | None = None) -> None:
        """Enqueues a key because of a change that no watch delivers, such as the health of another cluster.

        `key` None: all keys of the controller, including those of its garbage collection.
        """
        if not self.informers.waking:
            return
        running = next(running for running in self._running if running.controller.name == controller)
        if key is None:
            running.queue.sweep(self._keys(running))
        else:
            running.queue.add(key)

    def _keys(self, running: RunningController) -> Iterable[Key]:
        own = (key_of(obj) for obj in running.caches[running.controller.resource])
        garbage = self._garbage(running) if running.controller.collect is not None else ()
        return dict.fromkeys((*own, *garbage))

    async def drain(self) -> None:
        """Stops giving out keys and returns when the running passes have ended."""
        for running in self._running:
            running.queue.shutdown()
        for running in self._running:
            await running.queue.drained()

    async def _worker(self, running: RunningController) -> None:
        while True:
            try:
                key = await running.queue.get()
            except QueueClosedError:
                return
            try:
                await self._work_on(running, key)
            except NotLeaderError:
                raise
            except Exception:  # an error of the runtime itself: the key must not be lost
                log.exception("%s: a worker failed", running.controller.name, extra={"key": key})
                running.queue.retry(key)
            finally:
                running.queue.done(key)
            # A pass without requests never suspends: thousands of them would delay the renewal of the lease.
            await asyncio.sleep(0)

    async def _work_on(self, running: RunningController, key: Key) -> None:
        controller, queue = running.controller, running.queue
        at_work.set((running, key))
        started = self._clock.monotonic()
        outcome = await reconcile(
            controller, running.caches, self._executor, key, self._clock.now(), queue.failures(key)
        )
        self._measure(running, outcome, self._clock.monotonic() - started)
        schedule(queue, key, outcome, self._clock.now())
        for note in outcome.events:
            level = logging.WARNING if note.type == "Warning" else logging.INFO
            log.log(level, "%s: %s", note.reason, note.message, extra={"key": key})
            resource, obj = note.about or (controller.resource, outcome.object)
            if self._record is not None and obj is not None:
                self._record(resource, obj, note)

    def _measure(self, running: RunningController, outcome: PassOutcome, seconds: float) -> None:
        metrics, name = self._metrics, running.controller.name
        running.metrics.passed(outcome, seconds)
        metrics.add(RECONCILES, name, outcome.result.value)
        if outcome.failure is not None:
            failure = outcome.failure
            metrics.add(STEP_FAILURES, name, type(failure.step).__name__, failure.error)

    async def _collect(self, running: RunningController) -> None:
        while True:
            running.queue.sweep(self._garbage(running))
            await asyncio.sleep(self._collect_interval * (0.9 + 0.2 * self._jitter()))

    @staticmethod
    def _garbage(running: RunningController) -> Iterable[Key]:
        assert running.controller.collect is not None
        keys: list[Key] = []
        try:
            for key in running.controller.collect(running.caches):
                keys.append(key)
        except Exception:
            log.exception("%s: collection failed after %d keys", running.controller.name, len(keys))
        return keys


def schedule(queue: Queue, key: Key, outcome: PassOutcome, now: datetime) -> None:
    """Enqueues a key after its pass: at its deadline, after its backoff, or at once."""
    if outcome.result in (Result.GONE, Result.DONE, Result.FAILED) and outcome.error is None:
        wake_at = outcome.wake_at
        if wake_at is not None:  # a deadline in the past must not become a hot loop
            wake_at = max(wake_at, now + SOONEST)
        queue.add_at(key, wake_at)  # not after a pass without a decision: the last deadline stays valid
    if outcome.retry:
        queue.retry(key, at_least=outcome.retry_after)
    else:
        queue.forget(key)
    if outcome.again:
        queue.add(key)
