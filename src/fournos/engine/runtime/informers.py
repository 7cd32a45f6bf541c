"""Informers: the watch-fed caches of the controllers, and the keys that a change of them enqueues."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context, ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import NotLeaderError
from fournos.engine.kube.reflector import INACTIVITY, Reflector
from fournos.engine.kube.resource import Key, Obj, Resource, key_of
from fournos.engine.kube.store import Store, same_but_version
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.controller import Caches, Controller, Followed, IndexFunction, Watch
from fournos.engine.runtime.metrics import (
    CACHE_OBJECTS,
    CONTROLLER_RUNTIME_ACTIVE_WORKERS,
    CONTROLLER_RUNTIME_MAX_CONCURRENT_RECONCILES,
    CONTROLLER_RUNTIME_RECONCILE,
    CONTROLLER_RUNTIME_RECONCILE_ERRORS,
    CONTROLLER_RUNTIME_RECONCILE_PANICS,
    CONTROLLER_RUNTIME_RECONCILE_TIME_SECONDS,
    TASK_RESTARTS,
    WATCH_AGE_SECONDS,
    WORKQUEUE_ADDS,
    WORKQUEUE_DEPTH,
    WORKQUEUE_LONGEST_RUNNING_PROCESSOR_SECONDS,
    WORKQUEUE_QUEUE_DURATION_SECONDS,
    WORKQUEUE_RETRIES,
    WORKQUEUE_UNFINISHED_WORK_SECONDS,
    WORKQUEUE_WORK_DURATION_SECONDS,
    Metrics,
)
from fournos.engine.runtime.queue import Queue
from fournos.engine.runtime.reconcile import PassOutcome, Result

# --- tasks that are restarted -----------------------------------------------------------------------
# Supervision of background tasks that must not end: restarted with backoff, then the process gives up.

log = logging.getLogger(__name__)

RESTARTS = 5
"""Ends in a row after which the process gives up, because a restart of the process is more likely to help."""
HEALTHY = 300.0
"""Seconds of running after which earlier ends are no longer counted."""


_OF_CONTENT: Final = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    RecursionError,
)
"""What a program raises of content that it has not foreseen.  A restart of the process would end alike."""


class TaskFailedError(Exception):
    """Raised when a background task has ended RESTARTS times in a row, for causes that no object can have."""


def _of_content(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(map(_of_content, error.exceptions))
    return isinstance(error, _OF_CONTENT)


async def supervise(name: str, run: Callable[[], Awaitable[None]], *, clock: Clock, metrics: Metrics) -> None:
    """Runs the task and restarts it with backoff, until cancelled.

    Raises TaskFailedError when it has ended RESTARTS times in a row, and NotLeaderError at once.  A failure
    that somebody's object can cause is no reason to give up: the other tasks of the process go on.
    """
    ends = 0
    while True:
        started, of_content = clock.monotonic(), False
        try:
            await run()
            log.error("task %s ended", name)
        except NotLeaderError:
            raise
        except Exception as error:
            log.exception("task %s failed", name)
            of_content = _of_content(error)
        if clock.monotonic() - started > HEALTHY:
            ends = 0
        ends += 1
        if ends >= RESTARTS and not of_content:
            raise TaskFailedError(f"task {name} ended {ends} times in a row")
        metrics.add(TASK_RESTARTS, name)
        await asyncio.sleep(2.0 ** min(ends, 5))


# --- gauges of a manager ----------------------------------------------------------------------------
# The metrics of controller-runtime for one controller of ours.

RESULTS: Final = ("success", "error", "requeue", "requeue_after")


def result_of(outcome: PassOutcome) -> str:
    """Returns controller-runtime's result of a pass; if several apply, the first in the order of the code."""
    if outcome.result in (Result.FAILED, Result.CONFLICT, Result.BUG):
        return "error"
    if outcome.retry or outcome.again:
        return "requeue"
    return "requeue_after" if outcome.wake_at is not None else "success"


class ControllerMetrics:
    """The metrics of one controller.  Its queue calls `added`, `taken` and `finished`; its manager the
    others."""

    def __init__(self, metrics: Metrics, controller: str, clock: Clock, *, workers: int) -> None:
        self._metrics = metrics
        self._controller = controller
        self._clock = clock
        self._since: dict[Key, float] = {}
        """The keys under way, each with the time of its start."""
        self._added = metrics.counter(WORKQUEUE_ADDS, controller, controller)
        self._waited = metrics.histogram(WORKQUEUE_QUEUE_DURATION_SECONDS, controller, controller)
        self._worked = metrics.histogram(WORKQUEUE_WORK_DURATION_SECONDS, controller, controller)
        self._seconds = metrics.histogram(CONTROLLER_RUNTIME_RECONCILE_TIME_SECONDS, controller)
        self._results = {
            result: metrics.counter(CONTROLLER_RUNTIME_RECONCILE, controller, result) for result in RESULTS
        }
        # Created at start with value 0: an alert on a rate needs the series before the first error.
        self._errors = metrics.counter(CONTROLLER_RUNTIME_RECONCILE_ERRORS, controller)
        self._panics = metrics.counter(CONTROLLER_RUNTIME_RECONCILE_PANICS, controller)
        self._retries = metrics.counter(WORKQUEUE_RETRIES, controller, controller)
        metrics.set(CONTROLLER_RUNTIME_MAX_CONCURRENT_RECONCILES, workers, controller)
        self.refresh(0)

    def added(self) -> None:
        self._added.inc()

    def taken(self, key: Key, waited: float) -> None:
        """Records that a worker has taken the key, after `waited` seconds in the queue."""
        self._waited.observe(waited)
        self._since[key] = self._clock.monotonic()

    def finished(self, key: Key) -> None:
        since = self._since.pop(key, None)
        if since is not None:
            self._worked.observe(self._clock.monotonic() - since)

    def passed(self, outcome: PassOutcome, seconds: float) -> None:
        result = result_of(outcome)
        self._results[result].inc()
        self._seconds.observe(seconds)
        if result == "error":
            self._errors.inc()
        if outcome.result is Result.BUG:
            self._panics.inc()
        if outcome.retry:
            self._retries.inc()

    def refresh(self, depth: int) -> None:
        """Sets the gauges.  Call it before metrics are read."""
        now, name = self._clock.monotonic(), self._controller
        under_way = [now - since for since in self._since.values()]
        self._metrics.set(CONTROLLER_RUNTIME_ACTIVE_WORKERS, len(under_way), name)
        self._metrics.set(WORKQUEUE_DEPTH, depth, name, name)
        self._metrics.set(WORKQUEUE_UNFINISHED_WORK_SECONDS, sum(under_way), name, name)
        longest = max(under_way, default=0.0)
        self._metrics.set(WORKQUEUE_LONGEST_RUNNING_PROCESSOR_SECONDS, longest, name, name)


SYNC_POLL = 0.05
SYNC_REPORT_INTERVAL = 10.0
RECENT = 1000
"""The maximum number of keys that a standby remembers for each controller: far more than change while nobody
leads."""
SILENCE = 3 * INACTIVITY
"""Seconds without an event after which the task of a watch is reported as hanging.

The reflector closes a silent watch earlier than that.
"""


@dataclass(slots=True, eq=False)
class RunningController:
    """A controller with its queue, its metrics and the caches that it reads."""

    controller: Controller[Any]
    queue: Queue
    metrics: ControllerMetrics
    caches: Caches = field(init=False)
    feeds: dict[Resource, Feed] = field(default_factory=dict)
    followed: Followed = field(init=False)
    recent: OrderedDict[Key, None] = field(default_factory=OrderedDict)
    """The last RECENT keys that changes concerned while this replica did not lead, the newest last."""

    def remember(self, key: Key) -> None:
        self.recent[key] = None
        self.recent.move_to_end(key)
        if len(self.recent) > RECENT:
            self.recent.popitem(last=False)


@dataclass(slots=True, eq=False)
class Feed:
    """One store and the watch that fills it, shared by the controllers with the same watch."""

    watch: Watch
    indexes: dict[str, IndexFunction] = field(default_factory=dict)
    readers: list[tuple[RunningController, Watch]] = field(default_factory=list)
    followed: bool = False
    """True for a dynamic watch, opened for an object that needs it; no startup waits for its cache."""
    store: Store = field(init=False)
    reflector: Reflector = field(init=False)

    def suits(self, watch: Watch) -> bool:
        own = self.watch
        return (own.resource, own.namespace, own.selector, own.project) == (
            watch.resource,
            watch.namespace,
            watch.selector,
            watch.project,
        ) and all(self.indexes.get(name, index) is index for name, index in watch.indexes.items())

    def add(self, reader: RunningController, watch: Watch) -> None:
        self.indexes.update(watch.indexes)
        self.readers.append((reader, watch))
        reader.feeds[watch.resource] = self

    @property
    def labels(self) -> tuple[str, str, str]:
        return str(self.watch.resource), self.watch.namespace, self.watch.selector

    @property
    def incomplete(self) -> bool:
        """True if work has to wait for this cache."""
        required = any(watch.required for _, watch in self.readers)
        return not self.followed and not self.store.synced and (self.store.served or required)


at_work: ContextVar[tuple[RunningController, Key] | None] = ContextVar("at_work", default=None)
"""The key that this task reconciles.  The task's own writes do not enqueue this key: the pass returns whether
it must run again."""


class Informers:
    """The caches of all controllers of a manager, each filled by one list and watch."""

    def __init__(
        self,
        api: Api,
        readers: Sequence[RunningController],
        *,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self.waking = False
        """True if changes enqueue keys.  A standby keeps its caches up to date, and remembers the keys."""
        self._complete = False
        """True once all required caches were synced: nobody need remember what the first lists contain."""
        self._api = api
        self._clock = clock
        self._metrics = metrics
        self._feeds: list[Feed] = []
        self._watching: asyncio.TaskGroup | None = None
        self._tasks: dict[Feed, asyncio.Task[None]] = {}
        for running in readers:
            self._subscribe(running)
        for feed in self._feeds:
            self._fill(feed)
        for running in readers:
            running.caches = Caches(
                {resource: feed.store for resource, feed in running.feeds.items()},
                covers={watch.resource: watch.covers for watch in running.controller.watches},
                on_write=partial(self._written, running),
            )
            running.followed = Followed(
                running.controller, partial(self._open, running), partial(self._close, running)
            )

    def _subscribe(self, running: RunningController) -> None:
        for watch in running.controller.watches:
            feed = next((feed for feed in self._feeds if feed.suits(watch)), None)
            if feed is None:
                feed = Feed(watch)
                self._feeds.append(feed)
            feed.add(running, watch)

    def _fill(self, feed: Feed) -> None:
        def changed(_type: str, old: Obj | None, new: Obj | None) -> None:
            for running, watch in feed.readers:
                if watch.resource == running.controller.resource:
                    # Also on a standby, so that its dynamic caches are warm.
                    running.followed.changed(new, old)
            if not (self.waking or self._complete):
                return
            if feed.watch.project is not None and same_but_version(old, new):
                return  # a change outside the projection triggers no reconcile
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

    # --- enqueueing --------------------------------------------------------------------------------------

    def _listed(self, feed: Feed) -> None:
        """Enqueues the objects that need this cache after its list.

        An object deleted before the first list never makes an event, so the list must trigger a reconcile.
        """
        for running, watch in feed.readers:
            for key in running.followed.keys(watch.resource) if self.waking else ():
                running.queue.add(key)

    def _wake(self, running: RunningController, watch: Watch, old: Obj | None, new: Obj | None) -> None:
        for obj in (old, new):
            if obj is None:
                continue
            try:
                for key in watch.wakes(obj, running.caches):
                    if not self.waking:
                        running.remember(key)
                    elif (running, key) != at_work.get():
                        running.queue.add(key)
            except Exception:  # a malformed object must not end the watch that delivers it
                log.exception(
                    "%s: whom %s wakes is unknown",
                    running.controller.name,
                    watch.resource,
                    extra={"key": key_of(obj)},
                )

    def _written(
        self, writer: RunningController, resource: Resource, old: Obj | None, new: Obj | None
    ) -> None:
        """Enqueues the keys that an own write concerns, before its watch event.

        The key whose pass made the write is left out: its pass decides whether it runs again.
        """
        for running, watch in writer.feeds[resource].readers:
            if resource == running.controller.resource:
                running.followed.changed(new, old)
            self._wake(running, watch, old, new)

    # --- dynamic watches, on every replica --------------------------------------------------------------

    def _open(self, running: RunningController, watch: Watch) -> None:
        feed = Feed(watch, followed=True)
        feed.add(running, watch)
        self._fill(feed)
        running.caches.open(watch, feed.store)
        self._feeds.append(feed)
        if self._watching is not None:
            self._watch(feed, self._watching)

    def _close(self, running: RunningController, resource: Resource) -> None:
        feed = running.feeds.pop(resource)
        running.caches.close(resource)
        self._feeds.remove(feed)
        task = self._tasks.pop(feed, None)
        if task is not None:
            task.cancel()
        for gauge in (WATCH_AGE_SECONDS, CACHE_OBJECTS):
            self._metrics.remove(gauge, *feed.labels)

    # --- watching ----------------------------------------------------------------------------------------

    async def watch(self) -> None:
        """Keeps all caches up to date until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._watching = tasks
            for feed in self._feeds:
                self._watch(feed, tasks)

    def _watch(self, feed: Feed, tasks: asyncio.TaskGroup) -> None:
        name = "watch " + " ".join(filter(None, feed.labels))
        job = supervise(name, feed.reflector.run, clock=self._clock, metrics=self._metrics)
        # An empty context: a watch opened by a pass must not inherit `at_work`, or its events would never
        # enqueue the key of that pass.
        self._tasks[feed] = tasks.create_task(job, name=name, context=Context())

    async def synced(self) -> None:
        """Returns when all required caches are synced; logs the missing ones every SYNC_PATIENCE seconds."""
        warn_at = self._clock.monotonic() + SYNC_REPORT_INTERVAL
        while missing := self.unsynced():  # polled: an empty first list makes no change to wait for
            if self._clock.monotonic() >= warn_at:
                warn_at += SYNC_REPORT_INTERVAL
                log.warning("waiting for caches: %s", "; ".join(missing))
            await asyncio.sleep(SYNC_POLL)
        self._complete = True

    def unsynced(self) -> list[str]:
        """Returns the resource types whose caches are not complete, each with the error that prevents it."""
        return [
            f"{feed.watch.resource}: {feed.reflector.error or 'not listed yet'}"
            for feed in self._feeds
            if feed.incomplete
        ]

    def stuck(self) -> list[str]:
        """Returns the watches without an error that delivered nothing for more than SILENCE seconds."""
        return [
            f"watch of {feed.watch.resource}: silent for {age:.0f} s"
            for feed in self._feeds
            if feed.reflector.error is None
            and (age := feed.reflector.last_event_age) is not None
            and age > SILENCE
        ]

    def failing(self) -> list[str]:
        """Returns the watches that fail with an error, each with the time until the next try."""
        return [
            f"watch of {feed.watch.resource}: {error}; next try in {feed.reflector.retry_in:.0f} s"
            for feed in self._feeds
            if (error := feed.reflector.error) is not None
        ]

    def refresh_metrics(self) -> None:
        """Sets the gauges.  Call it before metrics are read."""
        for feed in self._feeds:
            age = feed.reflector.last_event_age
            if age is not None:
                self._metrics.set(WATCH_AGE_SECONDS, age, *feed.labels)
            self._metrics.set(CACHE_OBJECTS, len(feed.store), *feed.labels)
