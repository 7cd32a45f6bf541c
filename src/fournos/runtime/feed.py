"""What a controller holds for its systems: their queues and caches, and the watches that fill them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fournos.kube.reflector import Reflector
from fournos.kube.resource import Resource
from fournos.kube.store import Store
from fournos.runtime.controller_metrics import ControllerMetrics
from fournos.runtime.follow import Followed
from fournos.runtime.queue import Queue
from fournos.runtime.system import Caches, IndexFunction, System, Watch


@dataclass(slots=True, eq=False)
class Running:
    """One system at work."""

    system: System[Any]
    queue: Queue
    metrics: ControllerMetrics
    caches: Caches = field(init=False)
    feeds: dict[Resource, Feed] = field(default_factory=dict)
    followed: Followed = field(init=False)


@dataclass(slots=True, eq=False)
class Feed:
    """One store and the watch that fills it, shared by the systems that want the same."""

    watch: Watch
    indexes: dict[str, IndexFunction] = field(default_factory=dict)
    readers: list[tuple[Running, Watch]] = field(default_factory=list)
    followed: bool = False
    """Whether it came with an object that needs it; nothing waits for it."""
    store: Store = field(init=False)
    reflector: Reflector = field(init=False)

    def suits(self, watch: Watch) -> bool:
        mine = self.watch
        return (mine.resource, mine.namespace, mine.selector, mine.project) == (
            watch.resource,
            watch.namespace,
            watch.selector,
            watch.project,
        ) and all(self.indexes.get(name, index) is index for name, index in watch.indexes.items())

    def add(self, reader: Running, watch: Watch) -> None:
        self.indexes.update(watch.indexes)
        self.readers.append((reader, watch))
        reader.feeds[watch.resource] = self

    @property
    def labels(self) -> tuple[str, str, str]:
        return str(self.watch.resource), self.watch.namespace, self.watch.selector

    @property
    def incomplete(self) -> bool:
        """Whether work has to wait for it."""
        required = any(watch.required for _, watch in self.readers)
        return not self.followed and not self.store.synced and (self.store.served or required)
