"""One life of a controller process in the in-memory world: its caches, which may lag, and its queue.

The queue, the pass and the schedule after it are those of the manager.  Its tasks are not: the harness runs
one pass at a time, so that each write, event and crash has a number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fournos.engine.kube.resource import Key, Obj, Resource, key_of
from fournos.engine.kube.store import Store, same_but_version
from fournos.engine.runtime.act import StepExecutor
from fournos.engine.runtime.controller import Caches, Controller, Followed, Watch
from fournos.engine.runtime.manager import schedule
from fournos.engine.runtime.queue import Queue
from fournos.engine.runtime.reconcile import PassOutcome, Result, reconcile
from tests.world.connection import Connection
from tests.world.server import Server, copied

NEVER = float("inf")

WatchEventNumber = tuple[int, int]
"""The index of a system in its process, and the number (from 1) of the watch event that it gets."""


class Process:
    """Runs one pass at a time.  `lag`: by how many changes its caches stay behind while there is work;
    `blind`: the watch event that it never gets."""

    def __init__(
        self,
        server: Server,
        controller: Controller[Any],
        *,
        system: int = 0,
        lag: int = 0,
        blind: WatchEventNumber | None = None,
        before: Callable[[int], None] = lambda n: None,
        after: Callable[[int], None] = lambda n: None,
    ) -> None:
        self.server = server
        self.controller = controller
        self.api = Connection(server, before=before, after=after)
        self.executor = StepExecutor(self.api)
        self.events: list[WatchEventNumber] = []
        """Watch events so far."""
        self._system = system
        self._lag = lag
        self._blind = blind
        self._queue = VirtualQueue(server.clock, jitter=lambda: 1.0)
        self._at_work: Key | None = None
        self._watches = {watch.resource: watch for watch in controller.watches}
        self._stores = {
            watch.resource: Store(project=watch.project, indexes=watch.indexes)
            for watch in controller.watches
        }
        self.caches = Caches(
            self._stores,
            covers={resource: watch.covers for resource, watch in self._watches.items()},
            on_write=self._on_write,
        )
        self._followed = Followed(controller, self._open, self._close)
        self._position = max(0, server.version - lag)
        self.relist()
        self.wake_all()

    # --- caches --------------------------------------------------------------------------------------

    def relist(self) -> None:
        """All lists anew, as the API server was at this process's position."""
        for resource in tuple(self._stores):
            self._list(resource)

    def _list(self, resource: Resource) -> None:
        store = self._stores.get(resource)
        if store is None:  # nobody needs it any more
            return
        store.served = resource not in self.server.unserved
        changes = store.replace(map(store.slim, self._listed(resource)), str(self._position))
        for change in changes:
            self._changed(resource, change.old, change.new)

    def _listed(self, resource: Resource) -> Iterable[Obj]:
        objects: dict[Key, Obj] = {}
        for change in self.server.history[: self._position]:
            if change.resource == resource and self._watches[resource].covers(change.object):
                objects[key_of(change.object)] = change.object
                if change.type == "DELETED":
                    del objects[key_of(change.object)]
        return map(copied, objects.values())

    def deliver(self, *, at_least: int = 0) -> bool:
        """The watch events due by now; True if there were any."""
        until = min(self.server.version, max(self._position + at_least, self.server.version - self._lag))
        delivered = until > self._position
        while self._position < until:
            _, resource, type_, obj = self.server.history[self._position]
            self._position += 1
            watch = self._watches.get(resource)
            if watch is None or type_ not in ("ADDED", "MODIFIED", "DELETED") or not watch.covers(obj):
                continue
            self.events.append((self._system, len(self.events) + 1))
            if self.events[-1] == self._blind:
                continue
            change = self._stores[resource].observe(type_, copied(obj))  # type: ignore[arg-type]
            if change is not None:
                self._changed(resource, change.old, change.new)
        return delivered

    def _changed(self, resource: Resource, old: Obj | None, new: Obj | None) -> None:
        if resource == self.controller.resource:
            self._followed.changed(new, old)
        if not self._hidden(resource, old, new):
            self._wake(resource, old, new)

    def _on_write(self, resource: Resource, old: Obj | None, new: Obj) -> None:
        if resource == self.controller.resource:
            self._followed.changed(new, old)
        self._wake(resource, old, new)

    def _open(self, watch: Watch) -> None:
        """Listed at once: what a real process misses until then is the business of its controller."""
        resource = watch.resource
        self._watches[resource] = watch
        store = self._stores[resource] = Store(project=watch.project, indexes=watch.indexes)
        self.caches.open(watch, store)
        self._list(resource)

    def _close(self, resource: Resource) -> None:
        del self._watches[resource], self._stores[resource]
        self.caches.close(resource)

    def _hidden(self, resource: Resource, old: Obj | None, new: Obj | None) -> bool:
        """As the runtime: a change outside the projection triggers no reconcile."""
        return self._watches[resource].project is not None and same_but_version(old, new)

    def _wake(self, resource: Resource, *objects: Obj | None) -> None:
        for obj in objects:
            if obj is not None:
                for key in self._watches[resource].wakes(obj, self.caches):
                    if key != self._at_work:
                        self._queue.add(key)

    # --- work ----------------------------------------------------------------------------------------

    def wake_all(self) -> None:
        """As at start: all keys of the primary kind, and what the collection finds."""
        for obj in self.caches[self.controller.resource]:
            self._queue.add(key_of(obj))
        for key in self.controller.collect(self.caches) if self.controller.collect is not None else ():
            self._queue.add(key)

    async def step(self) -> PassOutcome | None:
        """One pass over the next ready key; None if there is none.  A bug is raised."""
        if not len(self._queue):
            return None
        key = self._at_work = await self._queue.get()
        now, failures = self.server.clock.now(), self._queue.failures(key)
        try:
            outcome = await reconcile(self.controller, self.caches, self.executor, key, now, failures)
            if outcome.result is Result.BUG:
                assert outcome.error is not None
                raise outcome.error
            schedule(self._queue, key, outcome, now)
        finally:
            self._at_work = None
            self._queue.done(key)
        return outcome

    def next_timer(self) -> float:
        """The monotonic time of the next retry or deadline."""
        return self._queue.next_timer()

    def fire_timers(self) -> None:
        self._queue.fire_timers()


class VirtualQueue(Queue):
    """The queue of a controller without the timer of an event loop: the harness advances the clock."""

    def _arm(self) -> None: ...

    def next_timer(self) -> float:
        now, wall = self._clock.monotonic(), self._clock.now().timestamp()
        deadlines = (now + due - wall for due in self._wake_at.values())
        return min([*self._retry_at.values(), *deadlines], default=NEVER)

    def fire_timers(self) -> None:
        self._fire()
