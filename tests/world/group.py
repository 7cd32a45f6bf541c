"""One life of a process that runs several systems: caches of their own, one connection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fournos.engine.runtime.act import StepExecutor
from fournos.engine.runtime.controller import Controller
from fournos.engine.runtime.reconcile import PassOutcome
from tests.world.connection import Connection
from tests.world.process import Process, WatchEventNumber
from tests.world.server import Server


class Group:
    """As `Process`, for systems that share no cache."""

    def __init__(
        self,
        server: Server,
        controllers: Sequence[Controller[Any]],
        *,
        lag: int = 0,
        blind: WatchEventNumber | None = None,
        before: Callable[[int], None] = lambda n: None,
        after: Callable[[int], None] = lambda n: None,
    ) -> None:
        self.server = server
        self.api = Connection(server, before=before, after=after)
        executor = StepExecutor(self.api)
        self._members = []
        for index, controller in enumerate(controllers):
            member = Process(server, controller, system=index, lag=lag, blind=blind)
            member.api, member.executor = self.api, executor
            self._members.append(member)

    @property
    def events(self) -> list[WatchEventNumber]:
        return sorted(event for member in self._members for event in member.events)

    def relist(self) -> None:
        for member in self._members:
            member.relist()

    def wake_all(self) -> None:
        for member in self._members:
            member.wake_all()

    def deliver(self, *, at_least: int = 0) -> bool:
        delivered = [member.deliver(at_least=at_least) for member in self._members]
        return any(delivered)

    async def step(self) -> PassOutcome | None:
        for member in self._members:
            outcome = await member.step()
            if outcome is not None:
                # The others come first the next time.
                self._members.append(self._members.pop(self._members.index(member)))
                return outcome
        return None

    def next_timer(self) -> float:
        return min(member.next_timer() for member in self._members)

    def fire_timers(self) -> None:
        for member in self._members:
            member.fire_timers()
