"""One poisoned object among good ones, in each loop of the engine: the good ones are served."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import Any

import pytest

from fournos.engine.kube.api import Api
from fournos.engine.kube.resource import Key, Obj, key_of
from fournos.engine.runtime.controller import Caches, Controller, Watch, of_each
from fournos.engine.runtime.decision import Custom, Decision, Facts
from fournos.engine.runtime.informers import TaskFailedError, supervise
from tests.unit.engine.runtime.controlled import Bench, toys, until
from tests.unit.engine.runtime.toy import THING, TOY

pytestmark = pytest.mark.looptime

GOOD = ("a", "b", "z")
FAULTS = (
    KeyError("x"),
    ValueError("1e1000"),
    TypeError("x"),
    OverflowError("x"),
    RecursionError(),
    RuntimeError("x"),
)
HOOKS = (
    "project",
    "index",
    "wakes",
    "follow",
    "observe",
    "decide",
    "primary",
    "written",
    "executor",
    "collect",
)


@dataclass(frozen=True, slots=True)
class Ring(Custom):
    toy: str


def poisoned(hook: str, fault: Exception) -> Controller[Any]:
    """A controller one of whose functions fails for the object "poison"."""

    def at(place: str, obj: Obj) -> None:
        if place == hook and obj["metadata"]["name"] == "poison":
            raise fault

    def project(obj: Obj) -> Obj:
        at("project", obj)
        return obj

    def index(obj: Obj) -> Iterable[str]:
        at("index", obj)
        return (obj["metadata"]["name"],)

    def wakes(obj: Obj, caches: Caches) -> Iterable[Key]:
        at("wakes", obj)
        return (key_of(obj),)

    def follow(obj: Obj) -> Iterable[Watch]:
        at("follow", obj)
        return (Watch(THING, lambda thing, caches: (), required=False),)

    def observe(caches: Caches, key: Key) -> Obj | None:
        found = caches[TOY].get(key)
        if found is not None:
            at("observe", found)
        return found

    def decide(obj: Obj, facts: Facts, now: Any) -> Decision:
        at("decide", obj)
        if (obj.get("status") or {}).get("phase") == "Fine":
            return Decision()
        return Decision((Ring(obj["metadata"]["name"]),), status={"phase": "Fine"})

    def primary(obj: Obj) -> Obj:
        at("primary", obj)
        return obj

    def written(before: Obj, after: Obj) -> None:
        at("written", after)

    async def ring(step: Ring, api: Api) -> None:
        at("executor", {"metadata": {"name": step.toy}})

    def collect(caches: Caches) -> Iterator[Key]:
        for obj in caches[TOY]:
            at("collect", obj)
            yield key_of(obj)

    return Controller(
        name="t",
        watches=(Watch(TOY, wakes, project=project, indexes={"name": index}),),
        observe=observe,
        decide=decide,
        primary=primary,
        follow=follow,
        written=written,
        collect=collect,
        executors={Ring: ring},
    )


@pytest.mark.parametrize(("hook", "fault"), [*zip(HOOKS, cycle(FAULTS), strict=False)])
async def test_a_controller_serves_the_good_ones(bench: Bench, hook: str, fault: Exception) -> None:
    """Those of before and those that come later, at each change."""
    toys(bench.server, "a", "poison", "b")
    manager = bench.manager(poisoned(hook, fault), workers=1, collect_interval=10)
    await bench.lead(manager)
    toys(bench.server, "z")
    for number in range(3):
        for name in (*GOOD, "poison"):
            bench.server.patch(TOY, Key("ns", name), {"spec": {"round": number}, "status": None})
        await asyncio.sleep(120)
        for name in GOOD:
            assert (bench.server.get(TOY, Key("ns", name)).get("status") or {}).get("phase") == "Fine", name
    assert not [task for task in bench.tasks if task.done()]


async def test_a_loop_leaves_out_what_it_cannot_read_and_says_it_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    objects = [
        {"metadata": {"name": name, "uid": name, "resourceVersion": "1"}} for name in ("a", "bad", "b")
    ]

    def read(obj: Obj) -> str:
        if obj["metadata"]["name"] == "bad":
            raise ValueError("1e1000")
        return str(obj["metadata"]["name"])

    for _ in range(3):
        assert list(of_each(objects, read, "a sum")) == ["a", "b"]
    assert [record.getMessage() for record in caplog.records] == [
        "a sum: /bad is left out: ValueError: 1e1000"
    ]


@pytest.mark.parametrize(("fault", "grouped"), [(KeyError("x"), False), (OverflowError(), True)])
async def test_a_task_that_an_object_ends_is_never_given_up(
    bench: Bench, fault: Exception, grouped: bool
) -> None:
    objects, served = ["poison"], list[int]()

    async def task() -> None:
        if "poison" in objects:
            raise ExceptionGroup("tasks", [fault]) if grouped else fault
        served.append(1)
        await asyncio.Event().wait()

    bench.start(supervise("t", task, clock=bench.clock, metrics=bench.metrics))
    await asyncio.sleep(900)
    objects.clear()
    await until(lambda: served)
    assert bench.metrics.value("fournos_task_restarts_total", "t") > 20


async def test_a_task_that_fails_by_itself_is_given_up(bench: Bench) -> None:
    async def task() -> None:
        raise ExceptionGroup("tasks", [ValueError("x"), OSError("port is taken")])

    with pytest.raises(TaskFailedError):
        await supervise("t", task, clock=bench.clock, metrics=bench.metrics)
