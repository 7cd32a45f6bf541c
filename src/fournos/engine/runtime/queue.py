"""The work queue of a controller: each key at most once, never with two workers, retried with backoff.

The semantics are those of client-go's rate-limiting work queue, with three additions.  A key has at most one
deadline set by its decision (`add_at`).  Namespaces take turns, so that one with thousands of keys does not
delay the others.  Keys of which nothing has changed (`sweep`) take turns with them, as one more namespace.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Protocol

from fournos.engine.kube.resource import Key
from fournos.engine.runtime.clock import Clock

MAX_SLEEP = 60.0
"""Seconds after which deadlines are compared with the wall clock again, because that clock may be set."""

STREAK = 8
"""How often in a row a key that must run again may overtake the waiting keys."""

_SWEEP = None
"""The lane of the keys of which nothing has changed."""


class QueueMetrics(Protocol):
    """Receives the changes of each key's state."""

    def added(self) -> None: ...

    def taken(self, key: Key, waited: float) -> None:
        """`waited`: seconds since the key was ready."""

    def finished(self, key: Key) -> None: ...


class QueueClosedError(Exception):
    """Raised by `get` when the queue gives out no more keys."""


class Queue:
    """A work queue, used from one event loop.

    Any task may call `add*`.  Each worker calls `key = await get()`, reconciles, then `retry(key)` or
    `forget(key)`, then `done(key)`.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        base: float = 0.05,
        limit: float = 60.0,
        jitter: Callable[[], float] = random.random,
        metrics: QueueMetrics | None = None,
    ) -> None:
        """`base` and `limit` bound the backoff in seconds; `jitter` returns numbers in [0, 1)."""
        self._metrics = metrics
        self._clock = clock
        self._base = base
        self._limit = limit
        self._jitter = jitter
        self._streaks: dict[Key, int] = {}
        # Lane → key → since; a lane is a namespace, or _SWEEP.
        self._ready: OrderedDict[str | None, OrderedDict[Key, float]] = OrderedDict()
        self._processing: set[Key] = set()
        self._again: set[Key] = set()
        self._failures: dict[Key, int] = {}
        # Two heaps with lazy deletion: retries by the monotonic clock, deadlines by the wall clock.
        self._retry_at: dict[Key, float] = {}
        self._retries: list[tuple[float, Key]] = []
        self._wake_at: dict[Key, float] = {}
        self._wakes: list[tuple[float, Key]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    # --- adding ------------------------------------------------------------------------------------

    def add(self, key: Key) -> None:
        """Enqueues the key now; a key that is being reconciled runs once more afterwards."""
        self._add(key, key.namespace)

    def sweep(self, keys: Iterable[Key]) -> None:
        """Enqueues keys of which nothing has changed: a key that changes meanwhile waits for few of them."""
        for key in keys:
            self._add(key, _SWEEP)

    def _add(self, key: Key, lane: str | None) -> None:
        if self._closed:
            return
        if key in self._processing:
            self._again.add(key)
        elif lane is not _SWEEP and key in self._ready.get(_SWEEP, ()):
            self._ready.setdefault(lane, OrderedDict())[key] = self._leave(_SWEEP, key)
        elif not self._is_ready(key):
            self._ready.setdefault(lane, OrderedDict())[key] = self._clock.monotonic()
            if self._metrics is not None:
                self._metrics.added()
            self._wake_one()

    def _is_ready(self, key: Key) -> bool:
        return any(key in self._ready.get(lane, ()) for lane in (key.namespace, _SWEEP))

    def _leave(self, lane: str | None, key: Key) -> float:
        """Removes the key from its lane; returns since when it has waited."""
        since = self._ready[lane].pop(key)
        if not self._ready[lane]:
            del self._ready[lane]
        return since

    def add_after(self, key: Key, seconds: float) -> None:
        """Enqueues the key after so many seconds; the earliest such request wins."""
        due = self._clock.monotonic() + seconds
        if due < self._retry_at.get(key, float("inf")):
            self._retry_at[key] = due
            heapq.heappush(self._retries, (due, key))
            self._arm()

    def add_at(self, key: Key, when: datetime | None) -> None:
        """Enqueues the key at this time, which replaces its earlier deadline; None removes the deadline."""
        if when is None:
            self._wake_at.pop(key, None)
            return
        due = when.timestamp()
        if self._wake_at.get(key) != due:
            self._wake_at[key] = due
            heapq.heappush(self._wakes, (due, key))
            if len(self._wakes) > 2 * len(self._wake_at) + 64:  # mostly deadlines that were replaced
                self._wakes = [(at, sleeper) for sleeper, at in self._wake_at.items()]
                heapq.heapify(self._wakes)
            self._arm()

    def retry(self, key: Key, *, at_least: float = 0.0) -> float:
        """Enqueues the key with backoff, which doubles with each failure in a row; returns it in seconds."""
        count = self._failures[key] = self._failures.get(key, 0) + 1
        delay = min(self._limit, self._base * 2.0 ** min(count - 1, 32))
        delay = max(at_least, delay * (0.5 + self._jitter() / 2))
        self.add_after(key, delay)
        return delay

    def hurry(self) -> None:
        """Ends every pending backoff, because what failed is usable again; the failure counts stay."""
        for key in list(self._retry_at):
            self.add_after(key, 0.0)

    def forget(self, key: Key) -> None:
        """Resets the backoff of a key that succeeded and cancels its pending retry."""
        self._failures.pop(key, None)
        self._retry_at.pop(key, None)

    def failures(self, key: Key) -> int:
        """Returns how many times in a row the key has failed."""
        return self._failures.get(key, 0)

    def __contains__(self, key: Key) -> bool:
        """True if the key is ready, is being reconciled, or waits for its backoff."""
        return key in self._processing or key in self._retry_at or self._is_ready(key)

    # --- working -----------------------------------------------------------------------------------

    async def get(self) -> Key:
        """Returns the next key; it is the caller's until `done`.  Raises QueueClosedError after shutdown."""
        while True:
            if self._closed:
                raise QueueClosedError
            if self._ready:
                return self._take()
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._wake_one()  # this worker was woken for a key and is cancelled: wake another
                raise

    def _take(self) -> Key:
        lane = next(iter(self._ready))
        self._ready.move_to_end(lane)  # the next turn is that of the next lane
        key = next(iter(self._ready[lane]))
        since = self._leave(lane, key)
        self._processing.add(key)
        self._retry_at.pop(key, None)  # this pass replaces the pending retry
        self._idle.clear()
        if self._metrics is not None:
            self._metrics.taken(key, self._clock.monotonic() - since)
        return key

    def done(self, key: Key) -> None:
        """Ends the pass of a key.

        A key that must run again goes first, so that started work is finished before new work begins.  After
        STREAK such turns it waits in order, so that it cannot block the others.
        """
        self._processing.discard(key)
        if self._metrics is not None:
            self._metrics.finished(key)
        streak = self._streaks.pop(key, 0) + 1
        if key in self._again:
            self._again.discard(key)
            self.add(key)
            if streak <= STREAK and not self._closed:
                self._ready[key.namespace].move_to_end(key, last=False)
                self._streaks[key] = streak
        if not self._processing:
            self._idle.set()

    # --- end and numbers -----------------------------------------------------------------------------

    def shutdown(self) -> None:
        """Stops giving out keys; running passes finish (`drained`)."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)

    async def drained(self) -> None:
        """Returns when no key is being reconciled."""
        await self._idle.wait()

    def __len__(self) -> int:
        """The number of keys that are ready."""
        return sum(map(len, self._ready.values()))

    @property
    def retrying(self) -> int:
        """The number of keys that wait for their backoff."""
        return len(self._retry_at)

    def oldest(self) -> float:
        """Returns the seconds that the oldest ready key has waited; 0.0 without one."""
        since = [min(lane.values()) for lane in self._ready.values()]
        return self._clock.monotonic() - min(since) if since else 0.0

    # --- timers --------------------------------------------------------------------------------------

    def _wake_one(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _arm(self) -> None:
        """Sets the one timer to the earliest due time of both heaps."""
        if self._closed:
            return
        delay = MAX_SLEEP
        if self._retries:
            delay = min(delay, self._retries[0][0] - self._clock.monotonic())
        if self._wakes:
            delay = min(delay, self._wakes[0][0] - self._clock.now().timestamp())
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_later(max(delay, 0.0), self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._due(self._retries, self._retry_at, self._clock.monotonic())
        self._due(self._wakes, self._wake_at, self._clock.now().timestamp())
        if self._retries or self._wakes:
            self._arm()

    def _due(self, heap: list[tuple[float, Key]], current: dict[Key, float], now: float) -> None:
        while heap and (current.get(heap[0][1]) != heap[0][0] or heap[0][0] <= now):
            due, key = heapq.heappop(heap)
            if current.get(key) == due:  # else the entry was replaced or removed
                del current[key]
                self.add(key)
