"""Controllers with real reflectors on the in-memory API server, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from fournos.engine.kube.api import Listing
from fournos.engine.kube.resource import Key, Obj, Resource, key_of
from fournos.engine.runtime.controller import Controller, Watch
from fournos.engine.runtime.decision import Decision, EventRecord, Facts
from fournos.engine.runtime.manager import Manager
from fournos.engine.runtime.metrics import Metrics
from tests import waiting
from tests.unit.engine.runtime.loop import LoopClock
from tests.unit.engine.runtime.toy import (
    TOY,
    worker,
)
from tests.world.connection import Connection
from tests.world.server import Server


class Counting(Connection):
    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.lists: list[str] = []

    async def list(self, resource: Resource, **options: Any) -> Listing:
        self.lists.append(str(resource))
        return await super().list(resource, **options)


class Bench:
    def __init__(self) -> None:
        self.server = Server()
        self.api = Counting(self.server)
        self.metrics = Metrics()
        self.clock = LoopClock()
        self.recorded: list[tuple[Key, EventRecord]] = []
        self.tasks: list[asyncio.Task[Any]] = []

    def manager(self, *controllers: Controller[Any], **options: Any) -> Manager:
        return Manager(
            self.api,
            controllers,
            clock=self.clock,
            metrics=self.metrics,
            record=lambda resource, obj, note: self.recorded.append((key_of(obj), note)),
            jitter=lambda: 0.5,
            **options,
        )

    def start(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.ensure_future(work)
        self.tasks.append(task)
        return task

    async def lead(self, manager: Manager) -> asyncio.Task[Any]:
        self.start(manager.informers.watch())
        await manager.informers.synced()
        return self.start(manager.work())


until = partial(waiting.until, limit=3600, pause=0.5)
"""In virtual time."""


async def play(server: Server) -> None:
    while True:
        worker(server)
        await asyncio.sleep(1)


def watching(name: str, decide: Callable[[Obj, Facts], Decision], **options: Any) -> Controller[Obj]:
    """A system of Toys alone."""
    return Controller(
        name=name,
        watches=(Watch(TOY, lambda obj, caches: [key_of(obj)], **options),),
        observe=lambda caches, key: caches[TOY].get(key),
        decide=lambda toy, facts, now: decide(toy, facts),
        primary=lambda toy: toy,
    )


def toys(server: Server, *names: str) -> None:
    for name in names:
        server.create(TOY, {"metadata": {"namespace": "ns", "name": name}, "spec": {}})
