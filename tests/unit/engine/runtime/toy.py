"""A small system with the difficulties of large ones, and with switches that introduce bugs.

A Toy creates one Thing; another controller readies it, holds it and does its work; the Toy holds it, too, and
saves the result, releases the Thing and only then declares its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fournos.engine.kube.resource import (
    CONFIG_MAP,
    Key,
    Obj,
    Resource,
    controller_of,
    key_of,
    owner_uids,
    uid_of,
)
from fournos.engine.runtime.controller import Caches, Controller, Watch
from fournos.engine.runtime.decision import Absent, Create, Decision, Delete, Facts, LiveGet, Patch, Present
from tests.world.harness import Scenario
from tests.world.server import Server

TOY = Resource("test.dev", "v1", "Toy", "toys")
THING = Resource("test.dev", "v1", "Thing", "things")
TOY_KEY = Key("ns", "toy")
CONFIG_KEY = Key("ns", "config")


@dataclass(frozen=True)
class Seen:
    toy: Obj
    thing: Obj | None
    config: Obj | None


def observe(caches: Caches, key: Key) -> Seen | None:
    toy = caches[TOY].get(key)
    if toy is None:
        return None
    things = caches[THING].by("owner", uid_of(toy))
    return Seen(toy, things[0] if things else None, caches[CONFIG_MAP].get(CONFIG_KEY))


def thing_of(toy: Obj, *, name: str | None = None) -> dict[str, Any]:
    owner = {"apiVersion": "test.dev/v1", "kind": "Toy", "name": toy["metadata"]["name"], "controller": True}
    return {
        "apiVersion": "test.dev/v1",
        "kind": "Thing",
        "metadata": {
            "namespace": toy["metadata"]["namespace"],
            "name": name or toy["metadata"]["name"],
            "ownerReferences": [owner | {"uid": uid_of(toy)}],
        },
        "spec": {"holders": []},
    }


class Decider:
    def __init__(self, *bugs: str) -> None:
        self.bugs = bugs
        self.made = 0

    def __call__(self, seen: Seen, facts: Facts, now: datetime) -> Decision:
        failure = facts.failure
        if failure is not None and "ignores failures" not in self.bugs:
            if failure.transient:
                return Decision()
            return self.status(seen, phase="Failed", message=failure.message)
        phase = (seen.toy.get("status") or {}).get("phase")
        if phase in ("Done", "Failed"):
            return Decision()
        if seen.config is None:
            if "trusts absence" in self.bugs:
                return self.status(seen, phase="Failed", message="no config")
            if isinstance(facts.require(LiveGet(CONFIG_MAP, CONFIG_KEY)), Absent):
                return self.status(seen, phase="Failed", message="no config")
        if phase is None:
            return self.status(seen, phase="Claimed")
        if phase == "Claimed":
            return self.start(seen)
        return self.follow(seen, facts, str(phase))

    def status(self, seen: Seen, *steps: Any, **changes: Any) -> Decision:
        return Decision(steps=steps, status={**(seen.toy.get("status") or {}), **changes})

    def start(self, seen: Seen) -> Decision:
        name = None
        if "remembers" in self.bugs:  # state in the process: gone after a crash
            self.made += 1
            name = f"toy-{self.made}"
        return self.status(seen, Create(THING, thing_of(seen.toy, name=name)), phase="Running")

    def follow(self, seen: Seen, facts: Facts, phase: str) -> Decision:
        thing = seen.thing
        if thing is None:
            found = facts.require(LiveGet(THING, key_of(seen.toy)))
            if isinstance(found, Absent):
                if phase == "Finishing":
                    return self.status(seen, phase="Done")
                return self.status(seen, phase="Failed", message="the thing vanished")
            if not isinstance(found, Present):
                return Decision(retry=True)
            thing = found.value
        delete = Delete(THING, key_of(thing), uid_of(thing))
        state = thing.get("status") or {}
        if phase == "Finishing":
            return self.status(seen, delete, phase="Done")
        if state.get("done"):
            if "lets go before it records" in self.bugs:
                return self.status(seen, delete, phase="Done", result=state["result"])
            return self.status(seen, phase="Finishing", result=state["result"])
        holders = thing["spec"]["holders"]
        if state.get("ready") and "toy" not in holders:
            body: dict[str, Any] = {"spec": {"holders": [*holders, "toy"]}}
            if "overwrites" not in self.bugs:
                body["metadata"] = {"resourceVersion": thing["metadata"]["resourceVersion"]}
            return Decision(steps=(Patch(THING, key_of(thing), body),))
        return Decision()


def wakes_owner(obj: Obj, caches: Caches) -> Iterable[Key]:
    owner = controller_of(obj)
    return [Key(obj["metadata"]["namespace"], owner["name"])] if owner is not None else []


def controller(*bugs: str) -> Controller[Seen]:
    return Controller(
        name="toys",
        watches=(
            Watch(TOY, lambda obj, caches: [key_of(obj)]),
            Watch(THING, wakes_owner, indexes={"owner": owner_uids}),
            Watch(CONFIG_MAP, lambda obj, caches: [key_of(toy) for toy in caches[TOY]]),
        ),
        observe=observe,
        decide=Decider(*bugs),
        primary=lambda seen: seen.toy,
    )


def worker(server: Server) -> None:
    """Readies and holds each Thing; once the Toy holds it too, its work is done."""
    for thing in server.list(THING):
        state, holders = thing.get("status") or {}, thing["spec"]["holders"]
        if not state.get("ready"):
            server.patch(THING, key_of(thing), {"status": {"ready": True}}, subresource="status")
            server.patch(THING, key_of(thing), {"spec": {"holders": [*holders, "worker"]}})
        elif "toy" in holders and not state.get("done"):
            done = {"status": {"done": True, "result": sorted(holders)}}
            server.patch(THING, key_of(thing), done, subresource="status")


def one_thing(server: Server) -> None:
    assert len(server.list(THING)) <= 1, "a Toy has two Things"


def make_config(server: Server) -> None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "ns", "name": "config"}}
    server.create(CONFIG_MAP, config)


def make_toy(server: Server) -> None:
    metadata = {"namespace": "ns", "name": "toy"}
    server.create(TOY, {"apiVersion": "test.dev/v1", "kind": "Toy", "metadata": metadata, "spec": {}})


def scenario(*bugs: str, **options: Any) -> Scenario:
    return Scenario(
        controller=controller(*bugs),
        setup=lambda server: None,
        script=(make_config, make_toy),
        actors=(worker,),
        invariants=(one_thing,),
        **options,
    )
