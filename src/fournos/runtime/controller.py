"""Runs systems against one API server: caches, queues, workers, periodic collection.

A standby runs `watch` only, so that its caches are warm; `work` is for the leader.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Sequence
from contextvars import Context, ContextVar
from datetime import timedelta
from functools import partial
from typing import Any

from fournos.kube.api import Api
from fournos.kube.errors import NotLeaderError, TransientError
from fournos.kube.reflector import INACTIVITY, Reflector
from fournos.kube.resource import Key, Obj, Resource, key_of
from fournos.kube.store import Store, same_but_version
from fournos.runtime.act import StepExecutor
from fournos.runtime.clock import Clock, SystemClock
from fournos.runtime.controller_metrics import ControllerMetrics
from fournos.runtime.decision import Note
from fournos.runtime.feed import Feed, Running
from fournos.runtime.follow import Followed
from fournos.runtime.lease import Lease
from fournos.runtime.metrics import Metrics
from fournos.runtime.queue import Queue, QueueClosedError
from fournos.runtime.reconcile import Outcome, Result, reconcile
from fournos.runtime.supervise import supervise
from fournos.runtime.system import Caches, System, Watch

log = logging.getLogger(__name__)

Tell = Callable[[Resource, Obj, Note], None]
"""Sends a Kubernetes Event about an object; must not block."""

COLLECT_INTERVAL = 300.0
SYNC_POLL = 0.05
SYNC_PATIENCE = 10.0
OUTAGE = 5
"""So many transient failures in a row, of whatever keys, are an outage of the API server."""
RECOVERY = 5.0
"""Seconds over which the keys that failed in an outage are spread when it is over."""
SOONEST = timedelta(milliseconds=100)
SILENCE = 3 * INACTIVITY
"""Seconds.  The reflector gives a watch up earlier; beyond this its task hangs."""


_at_work: ContextVar[tuple[Running, Key] | None] = ContextVar("at_work", default=None)
"""What this worker's pass is about; a pass says itself whether its own key has to run again."""


class Controller:
    """The systems of a process on one API server."""

    def __init__(
        self,
        api: Api,
        systems: Sequence[System[Any]],
        *,
        lease: Lease | None = None,
        clock: Clock | None = None,
        metrics: Metrics | None = None,
        tell: Tell | None = None,
        workers: int = 8,
        collect_interval: float = COLLECT_INTERVAL,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        """`workers`: passes at the same time per system; `collect_interval` in seconds.

        `lease`: who may work, for `process.run`; without one it always works (development).
        """
        self.lease = lease
        self._api = api
        self._executor = StepExecutor(api)
        self._clock = clock or SystemClock()
        self._metrics = metrics or Metrics()
        self._tell = tell
        self._workers = workers
        self._collect_interval = collect_interval
        self._jitter = jitter
        self._working = False
        self._failing = 0
        self._feeds: list[Feed] = []
        self._watching: asyncio.TaskGroup | None = None
        self._watches: dict[Feed, asyncio.Task[None]] = {}
        self._running = [self._prepare(system) for system in systems]
        for feed in self._feeds:
            self._furnish(feed)
        for running in self._running:
            running.caches = Caches(
                {resource: feed.store for resource, feed in running.feeds.items()},
                covers={watch.resource: watch.covers for watch in running.system.watches},
                told=partial(self._told, running),
            )
            running.followed = Followed(
                running.system, partial(self._open, running), partial(self._close, running)
            )

    def _prepare(self, system: System[Any]) -> Running:
        resources = [watch.resource for watch in system.watches]
        if len(set(resources)) != len(resources):
            raise ValueError(f"{system.name} watches a resource type twice")
        name = system.published_name or system.name
        metrics = ControllerMetrics(self._metrics, name, self._clock, workers=self._workers)
        queue = Queue(self._clock, jitter=self._jitter, metrics=metrics)
        running = Running(system, queue, metrics)
        for watch in system.watches:
            feed = next((feed for feed in self._feeds if feed.suits(watch)), None)
            if feed is None:
                feed = Feed(watch)
                self._feeds.append(feed)
            feed.add(running, watch)
        return running

    def _furnish(self, feed: Feed) -> None:
        def changed(_type: str, old: Obj | None, new: Obj | None) -> None:
            for running, watch in feed.readers:
                if watch.resource == running.system.resource:
                    running.followed.changed(new, old)
            if self._working:
                self._recovered()
                if feed.watch.project is not None and same_but_version(old, new):
                    return  # what the projection hides concerns nobody
                for running, watch in feed.readers:
                    self._wake(running, watch, old, new)

        feed.store = Store(project=feed.watch.project, indexes=feed.indexes)
        feed.reflector = Reflector(
            self._api,
            feed.watch.resource,
            feed.store,
            namespace=feed.watch.namespace,
            selector=feed.watch.selector,
            on_change=changed,
            on_state=partial(self._listed, feed) if feed.followed else None,
        )

    # --- watches that come and go, on every replica -----------------------------------------------------

    def _open(self, running: Running, watch: Watch) -> None:
        feed = Feed(watch, followed=True)
        feed.add(running, watch)
        self._furnish(feed)
        running.caches.open(watch, feed.store)
        self._feeds.append(feed)
        if self._watching is not None:
            self._watch(feed, self._watching)

    def _close(self, running: Running, resource: Resource) -> None:
        feed = running.feeds.pop(resource)
        running.caches.close(resource)
        self._feeds.remove(feed)
        task = self._watches.pop(feed, None)
        if task is not None:
            task.cancel()
        for name in ("fournos_watch_age_seconds", "fournos_cache_objects"):
            self._metrics.forget(name, *feed.labels)

    def _listed(self, feed: Feed) -> None:
        """Who needs it looks again: what had gone before the first list makes no event."""
        for running, watch in feed.readers:
            for key in running.followed.keys(watch.resource) if self._working else ():
                running.queue.add(key)

    def _wake(self, running: Running, watch: Watch, old: Obj | None, new: Obj | None) -> None:
        for obj in (old, new):
            if obj is None:
                continue
            try:
                for key in watch.wakes(obj, running.caches):
                    if (running, key) != _at_work.get():
                        running.queue.add(key)
            except Exception:  # an odd object must not end its watch
                log.exception(
                    "%s: whom %s wakes is unknown",
                    running.system.name,
                    watch.resource,
                    extra={"key": key_of(obj)},
                )

    def _told(self, teller: Running, resource: Resource, old: Obj | None, new: Obj | None) -> None:
        """An own write, seen before its event: whom it concerns but the key whose pass has made it."""
        for running, watch in teller.feeds[resource].readers:
            if resource == running.system.resource:
                running.followed.changed(new, old)
            self._wake(running, watch, old, new)

    # --- for all replicas ----------------------------------------------------------------------------

    def caches(self, system: str) -> Caches:
        """The caches of a system, by its name."""
        return next(running.caches for running in self._running if running.system.name == system)

    async def watch(self) -> None:
        """Keeps the caches; until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._watching = tasks
            for feed in self._feeds:
                self._watch(feed, tasks)

    def _watch(self, feed: Feed, tasks: asyncio.TaskGroup) -> None:
        name = "watch " + " ".join(filter(None, feed.labels))
        job = supervise(name, feed.reflector.run, clock=self._clock, metrics=self._metrics)
        # One that a pass has opened is not part of that pass: it wakes its key, too.
        self._watches[feed] = tasks.create_task(job, name=name, context=Context())

    async def synced(self) -> None:
        """Returns when all caches are complete; says in the log what it waits for."""
        tell_at = self._clock.monotonic() + SYNC_PATIENCE
        while missing := self.unsynced():  # polled: an empty first list changes nothing that could tell
            if self._clock.monotonic() >= tell_at:
                tell_at += SYNC_PATIENCE
                log.warning("waiting for caches: %s", "; ".join(missing))
            await asyncio.sleep(SYNC_POLL)

    def unsynced(self) -> list[str]:
        """The required resource types whose caches are not complete, with what keeps them from it."""
        return [
            f"{feed.watch.resource}: {feed.reflector.error or 'not listed yet'}"
            for feed in self._feeds
            if feed.incomplete
        ]

    def stuck(self) -> list[str]:
        """Watches that claim to be open and yet have told nothing for too long."""
        return [
            f"watch of {feed.watch.resource}: silent for {age:.0f} s"
            for feed in self._feeds
            if feed.reflector.error is None
            and (age := feed.reflector.last_event_age) is not None
            and age > SILENCE
        ]

    def hindered(self) -> list[str]:
        """Watches that an error stands in the way of, with the time of the next try."""
        return [
            f"watch of {feed.watch.resource}: {error}; next try in {feed.reflector.retry_in:.0f} s"
            for feed in self._feeds
            if (error := feed.reflector.error) is not None
        ]

    def refresh_metrics(self) -> None:
        """Sets the gauges; to be called before metrics are read."""
        for running in self._running:
            name, queue = running.system.name, running.queue
            self._metrics.set("fournos_queue_ready", len(queue), name)
            self._metrics.set("fournos_queue_processing", queue.processing, name)
            self._metrics.set("fournos_queue_retrying", queue.retrying, name)
            self._metrics.set("fournos_queue_sleeping", queue.sleeping, name)
            self._metrics.set("fournos_queue_oldest_seconds", queue.oldest(), name)
            running.metrics.refresh(len(queue))
        for feed in self._feeds:
            age = feed.reflector.last_event_age
            if age is not None:
                self._metrics.set("fournos_watch_age_seconds", age, *feed.labels)
            self._metrics.set("fournos_cache_objects", len(feed.store), *feed.labels)

    # --- for the leader --------------------------------------------------------------------------------

    async def work(self) -> None:
        """Works all keys, until `drain`.  Call it when synced.  Raises NotLeaderError, TaskFailedError."""
        self._working = True
        for running in self._running:
            for obj in running.caches[running.system.resource]:
                running.queue.add(key_of(obj))
        async with asyncio.TaskGroup() as tasks:
            collectors = [
                tasks.create_task(self._collect(running))
                for running in self._running
                if running.system.collect is not None
            ]
            workers = [
                tasks.create_task(self._worker(running))
                for running in self._running
                for _ in range(self._workers)
            ]
            await asyncio.wait(workers)
            for collector in collectors:
                collector.cancel()

    def wake(self, system: str, key: Key) -> None:
        """Work a key because of something that no watch of ours tells, such as another cluster's health."""
        if self._working:
            next(running for running in self._running if running.system.name == system).queue.add(key)

    async def drain(self) -> None:
        """No new passes; returns when those under way have ended."""
        for running in self._running:
            running.queue.shutdown()
        for running in self._running:
            await running.queue.drained()

    async def _worker(self, running: Running) -> None:
        while True:
            try:
                key = await running.queue.get()
            except QueueClosedError:
                return
            try:
                await self._work_on(running, key)
            except NotLeaderError:
                raise
            except Exception:  # of the runtime's own: the key must not be lost
                log.exception("%s: a worker failed", running.system.name, extra={"key": key})
                running.queue.retry(key)
            finally:
                running.queue.done(key)
            # A pass without requests never suspends: thousands of them must not hold up the lease.
            await asyncio.sleep(0)

    async def _work_on(self, running: Running, key: Key) -> None:
        system, queue = running.system, running.queue
        _at_work.set((running, key))
        started = self._clock.monotonic()
        outcome = await reconcile(
            system, running.caches, self._executor, key, self._clock.now(), queue.failures(key)
        )
        self._measure(running, outcome, self._clock.monotonic() - started)
        if isinstance(outcome.error, TransientError) or (outcome.failure and outcome.failure.transient):
            self._failing += 1
            if self._failing == OUTAGE:
                log.warning("the API server is in trouble: %s", _trouble(outcome))
        elif outcome.done or outcome.wrote_status:
            self._recovered()
        if outcome.result in (Result.GONE, Result.DONE, Result.FAILED) and outcome.error is None:
            wake_at = outcome.wake_at
            if wake_at is not None:  # one that is past already must not become a hot loop
                wake_at = max(wake_at, self._clock.now() + SOONEST)
            queue.add_at(key, wake_at)  # a pass without a decision keeps the last one's deadline
        if outcome.retry:
            queue.retry(key, at_least=outcome.retry_after)
        else:
            queue.forget(key)
        if outcome.again:
            queue.add(key)
        for note in outcome.notes:
            level = logging.WARNING if note.type == "Warning" else logging.INFO
            log.log(level, "%s: %s", note.reason, note.message, extra={"key": key})
            resource, obj = note.about or (system.resource, outcome.object)
            if self._tell is not None and obj is not None:
                self._tell(resource, obj, note)

    def _recovered(self) -> None:
        """The API server answers: after an outage nobody needs to wait for a long backoff."""
        if self._failing >= OUTAGE:
            log.info("the API server answers again")
            for running in self._running:
                running.queue.hurry(RECOVERY)
        self._failing = 0

    def _measure(self, running: Running, outcome: Outcome, seconds: float) -> None:
        metrics, name = self._metrics, running.system.name
        running.metrics.passed(outcome, seconds)
        metrics.add("fournos_reconciles_total", name, outcome.result.value)
        metrics.observe("fournos_reconcile_seconds", seconds, name)
        if outcome.retry:
            metrics.add("fournos_reconcile_retries_total", name)
        if outcome.wrote_status:
            metrics.add("fournos_status_writes_total", name)
        for step, _ in outcome.done:
            resource = str(getattr(step, "resource", "secrets"))
            metrics.add("fournos_steps_total", name, type(step).__name__, resource)
        if outcome.failure is not None:
            failure = outcome.failure
            metrics.add("fournos_step_failures_total", name, type(failure.step).__name__, failure.error)

    async def _collect(self, running: Running) -> None:
        while True:
            for key in self._garbage(running):
                running.queue.add(key)
            await asyncio.sleep(self._collect_interval * (0.9 + 0.2 * self._jitter()))

    @staticmethod
    def _garbage(running: Running) -> Iterable[Key]:
        assert running.system.collect is not None
        try:
            return tuple(running.system.collect(running.caches))
        except Exception:
            log.exception("%s: collection failed", running.system.name)
            return ()


def _trouble(outcome: Outcome) -> str:
    if outcome.failure is not None:
        return f"{outcome.failure.error}: {outcome.failure.message}"
    return str(outcome.error)
