"""Steps of one system only, and objects that are owned by a label."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from fournos.engine.kube.api import Api
from fournos.engine.kube.errors import InvalidError, ServerError
from fournos.engine.kube.resource import CONFIG_MAP, Key
from fournos.engine.kube.store import Store
from fournos.engine.runtime.act import Acted, CacheChange, StepExecutor
from fournos.engine.runtime.controller import Caches
from fournos.engine.runtime.decision import Create, Custom, Patch, StepFailure
from tests.world.connection import Connection
from tests.world.server import Server


@dataclass(frozen=True, slots=True)
class Ring(Custom):
    bell: str


async def carry_out(steps: Any, error: Exception | None = None) -> tuple[Acted, list[str], Connection]:
    rung: list[str] = []
    api = Connection(Server())

    async def ring(step: Ring, through: Api) -> None:
        assert through is api
        if error is not None:
            raise error
        rung.append(step.bell)

    acted = await StepExecutor(api).act(steps, Caches({CONFIG_MAP: Store()}), executors={Ring: ring})
    return acted, rung, api


async def test_a_step_of_ones_own_is_carried_out_in_order() -> None:
    acted, rung, _ = await carry_out([Ring("door"), Ring("church")])
    assert rung == ["door", "church"] and acted.stopped is None and len(acted.done) == 2


async def test_its_failure_is_a_fact_like_any_other() -> None:
    patch = Patch(CONFIG_MAP, Key("ns", "never"), {})
    for error, transient in ((InvalidError("cracked"), False), (ServerError("busy"), True)):
        acted, _, api = await carry_out([Ring("door"), patch], error)
        assert acted.stopped == StepFailure(Ring("door"), type(error).__name__, str(error), transient, 1)
        assert api.writes == []


async def test_a_label_makes_an_object_ours_that_can_have_no_controller() -> None:
    server = Server()
    body = {"metadata": {"namespace": "ns", "name": "lock", "labels": {"lock-of": "c1"}}}
    own = Create(CONFIG_MAP, body, own_label="lock-of")
    server.create(CONFIG_MAP, body)
    caches = Caches({CONFIG_MAP: Store()})
    executor = StepExecutor(Connection(server))
    acted = await executor.act([own], caches)
    assert acted.stopped is None and acted.cache_change is not CacheChange.NONE
    assert caches[CONFIG_MAP].get(Key("ns", "lock")) is not None
    other = {"metadata": {**body["metadata"], "labels": {"lock-of": "c2"}}}  # type: ignore[dict-item]
    for foreign in (replace(own, body=other), replace(own, own_label="")):
        acted = await executor.act([foreign], caches)
        assert isinstance(acted.stopped, StepFailure) and acted.stopped.error == "ForeignObject"
