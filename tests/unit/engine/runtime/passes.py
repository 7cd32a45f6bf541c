"""Single passes over a toy, with a decision that the test writes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from fournos.engine.kube.errors import KubeError
from fournos.engine.kube.resource import Key, Obj, key_of
from fournos.engine.kube.store import Store
from fournos.engine.runtime.act import StepExecutor
from fournos.engine.runtime.controller import Caches, Controller, Watch
from fournos.engine.runtime.decision import Decision, EventRecord, Facts, Step
from fournos.engine.runtime.reconcile import PassOutcome, reconcile
from tests.unit.engine.runtime.toy import THING, TOY, TOY_KEY, make_toy
from tests.world.connection import Connection
from tests.world.server import Server

NOW = datetime(2030, 1, 1, tzinfo=UTC)
NOTE = EventRecord("Warning", "Odd", "odd")

Deciding = Callable[[Obj, Facts], Decision]


class Bench:
    def __init__(self) -> None:
        self.server = Server()
        make_toy(self.server)
        self.api = Connection(self.server)
        self.caches = Caches({TOY: Store(), THING: Store()})
        self.decided: list[tuple[Obj, datetime]] = []
        """Object and time of each decision."""
        self.see()

    def see(self) -> None:
        self.caches[TOY].replace(self.server.list(TOY), str(self.server.version))

    async def run(
        self, decide: Deciding, *, key: Key = TOY_KEY, failures: int = 0, **options: Any
    ) -> PassOutcome:
        """One pass of a controller with these further options."""

        def noted(toy: Obj, facts: Facts, now: datetime) -> Decision:
            self.decided.append((toy, now))
            return decide(toy, facts)

        controller: Controller[Obj] = Controller(
            name="toys",
            watches=(Watch(TOY, lambda obj, caches: [key_of(obj)]),),
            observe=lambda caches, key: caches[TOY].get(key),
            decide=noted,
            primary=lambda toy: toy,
            **options,
        )
        return await reconcile(controller, self.caches, StepExecutor(self.api), key, NOW, failures)

    @property
    def toy(self) -> dict[str, Any]:
        return self.server.get(TOY, TOY_KEY)

    def refuse(self, verb: str, error: KubeError, *, times: int = 1) -> None:
        left = [error] * times
        self.server.refusals.append(lambda seen, *_: left.pop() if seen == verb and left else None)


def always(decision: Decision) -> Deciding:
    return lambda toy, facts: decision


def with_failure(first: tuple[Step, ...], then: Decision, seen: list[Facts]) -> Deciding:
    def decide(toy: Obj, facts: Facts) -> Decision:
        seen.append(facts)
        return then if facts.failure is not None else Decision(steps=first, status={"phase": "Running"})

    return decide
