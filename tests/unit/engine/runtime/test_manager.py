"""Controllers with real reflectors on the in-memory API server, in virtual time."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from fournos.engine.kube.errors import ServerError
from fournos.engine.kube.resource import Key, Obj, key_of, owner_uids
from fournos.engine.runtime import informers
from fournos.engine.runtime.controller import Caches, Controller, Watch
from fournos.engine.runtime.decision import Custom, Decision, EventRecord, Facts
from tests.unit.engine.runtime.controlled import Bench, Counting, play, toys, until, watching
from tests.unit.engine.runtime.toy import (
    THING,
    TOY,
    TOY_KEY,
    controller,
    make_config,
    make_toy,
    wakes_owner,
)

pytestmark = pytest.mark.looptime


@dataclass(frozen=True, slots=True)
class Ring(Custom):
    """A step that writes nothing to the API server."""

    bell: str


async def test_a_toy_goes_all_the_way_and_then_all_is_quiet(bench: Bench) -> None:
    manager = bench.manager(controller())
    bench.start(play(bench.server))
    await bench.lead(manager)
    make_config(bench.server)
    make_toy(bench.server)
    await until(lambda: bench.server.get(TOY, TOY_KEY).get("status", {}).get("phase") == "Done")
    writes, lists = len(bench.api.writes), len(bench.api.lists)
    assert writes == 7
    await asyncio.sleep(3600)
    assert (len(bench.api.writes), len(bench.api.lists)) == (writes, lists)
    assert bench.metrics.value("fournos_reconciles_total", "toys", "bug") == 0


async def test_a_change_outside_a_projection_triggers_no_reconcile(bench: Bench) -> None:
    seen: list[int] = []

    def decide(toy: Obj, facts: Facts) -> Decision:
        seen.append(toy["spec"].get("shown", 0))
        return Decision()

    def shown(toy: Obj) -> Obj:
        meta = {name: toy["metadata"][name] for name in ("namespace", "name", "uid", "resourceVersion")}
        return {"metadata": meta, "spec": {"shown": toy["spec"].get("shown", 0)}}

    toys(bench.server, "a")
    await bench.lead(bench.manager(watching("t", decide, project=shown)))
    for spec in ({"hidden": 1}, {"hidden": 2}, {"shown": 5}):
        bench.server.patch(TOY, Key("ns", "a"), {"spec": spec})
        await asyncio.sleep(1)
    assert seen == [0, 5]


async def test_what_was_there_before_is_worked_on(bench: Bench) -> None:
    toys(bench.server, "a", "b")
    await bench.lead(bench.manager(watching("t", lambda toy, facts: Decision(status={"seen": True}))))
    await until(lambda: all(toy.get("status") for toy in bench.server.list(TOY)))


async def test_a_new_leader_begins_with_what_changed_last(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not with what was there before: a leader that was killed has handled almost all of it."""
    monkeypatch.setattr(informers, "RECENT", 2)
    seen: list[str] = []

    def observe(caches: Caches, key: Key) -> Any:
        seen.append(key.name)
        return caches[TOY].get(key)

    controller = replace(watching("t", lambda toy, facts: Decision()), observe=observe)
    manager = bench.manager(controller, workers=1)
    toys(bench.server, *"abcde")
    bench.start(manager.informers.watch())
    await manager.informers.synced()
    for number, name in enumerate("edcd"):
        bench.server.patch(TOY, Key("ns", name), {"spec": {"number": number}})
        await asyncio.sleep(1)
    bench.start(manager.work())
    await until(lambda: len(seen) == 5)
    assert seen == ["d", "a", "c", "b", "e"]


async def test_systems_that_watch_the_same_share_one_cache(bench: Bench) -> None:
    def child(name: str, **options: Any) -> Controller[Any]:
        watch = Watch(THING, wakes_owner, **options)
        return replace(
            watching(name, lambda toy, facts: Decision()),
            watches=(Watch(TOY, lambda obj, caches: [key_of(obj)]), watch),
        )

    names: Callable[[Obj], Iterable[str]] = lambda obj: [obj["metadata"]["name"]]  # noqa: E731
    one = child("one", indexes={"owner": owner_uids})
    two = child("two", indexes={"name": names})
    other = child("other", selector="a=b")
    clash = child("clash", indexes={"name": owner_uids})
    manager = bench.manager(one, two, other, clash)
    bench.start(manager.informers.watch())
    await manager.informers.synced()
    assert sorted(bench.api.lists) == ["things.test.dev"] * 3 + ["toys.test.dev"]
    assert manager.caches("one")[THING] is manager.caches("two")[THING]
    assert manager.caches("one")[THING] is not manager.caches("other")[THING]
    assert manager.caches("two")[THING] is not manager.caches("clash")[THING]


def test_one_system_cannot_watch_a_type_twice() -> None:
    watch = Watch(TOY, lambda obj, caches: [])
    controller = watching("t", lambda toy, facts: Decision())
    with pytest.raises(ValueError, match="t watches a resource type twice"):
        replace(controller, watches=(watch, watch))


async def test_a_write_wakes_the_other_system_that_shares_the_cache(bench: Bench) -> None:
    seen: list[str] = []

    later = bench.clock.now() + timedelta(seconds=60)

    def writes(toy: Obj, facts: Facts) -> Decision:
        early = bench.clock.now() < later
        return Decision(wake_at=later) if early else Decision(status={"phase": "Done"})

    def reads(toy: Obj, facts: Facts) -> Decision:
        seen.append((toy.get("status") or {}).get("phase") or "none")
        return Decision()

    manager = bench.manager(watching("writer", writes), watching("reader", reads))
    await bench.lead(manager)
    assert manager.caches("writer")[TOY] is manager.caches("reader")[TOY]
    toys(bench.server, "a")
    await until(lambda: "Done" in seen)
    assert seen == ["none", "Done"]


async def test_a_poisonous_object_does_not_hold_up_the_others(bench: Bench) -> None:
    def decide(toy: Obj, facts: Facts) -> Decision:
        if toy["metadata"]["name"] == "poison":
            raise RuntimeError("boom")
        return Decision(status={"phase": "Fine"})

    toys(bench.server, "poison", "sound")
    await bench.lead(bench.manager(watching("t", decide), workers=1))
    await until(lambda: bench.server.get(TOY, Key("ns", "sound")).get("status"))
    await asyncio.sleep(600)
    bugs = bench.metrics.value("fournos_reconciles_total", "t", "bug")
    assert 15 <= bugs <= 30  # backoff: not thousands, and not given up


async def test_after_an_outage_of_ten_minutes_all_is_done_within_a_minute(bench: Bench) -> None:
    down = ServerError("down", status=503)
    toys(bench.server, *map(str, range(20)))
    bench.server.refusals.append(lambda verb, resource, obj: down)
    await bench.lead(bench.manager(watching("t", lambda toy, facts: Decision(status={"seen": True}))))
    await asyncio.sleep(600)
    tried = len(bench.api.writes)
    assert 300 <= tried <= 600  # at the backoff's limit: each key about every 45 s
    bench.server.refusals.clear()
    await asyncio.sleep(60)
    assert all(toy.get("status") for toy in bench.server.list(TOY))
    assert len(bench.api.writes) == tried + 20


async def test_a_watch_survives_an_object_that_cannot_be_mapped(bench: Bench) -> None:
    def wakes(obj: Obj, caches: Caches) -> Iterable[Key]:
        if obj["metadata"]["name"] == "odd":
            raise KeyError("label")
        return [key_of(obj)]

    mapped = replace(
        watching("t", lambda toy, facts: Decision(status={"ok": True})), watches=(Watch(TOY, wakes),)
    )
    await bench.lead(bench.manager(mapped))
    toys(bench.server, "odd", "even")
    await until(lambda: bench.server.get(TOY, Key("ns", "even")).get("status"))


async def test_a_type_that_is_not_served_is_waited_for_only_if_it_is_required(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    def with_things(*, required: bool) -> Controller[Obj]:
        watches = (
            Watch(TOY, lambda obj, caches: [key_of(obj)]),
            Watch(THING, wakes_owner, required=required),
        )
        return replace(watching("t", lambda toy, facts: Decision()), watches=watches)

    bench.server.unserved.add(THING)
    optional = bench.manager(with_things(required=False))
    bench.start(optional.informers.watch())
    await optional.informers.synced()
    assert not optional.caches("t").served(THING)
    strict = bench.manager(with_things(required=True))
    bench.start(strict.informers.watch())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(strict.informers.synced(), 60)
    assert "waiting for caches: things.test.dev: things.test.dev is not served" in caplog.text
    assert strict.informers.unsynced() == ["things.test.dev: things.test.dev is not served"]
    bench.server.unserved.clear()
    await asyncio.wait_for(strict.informers.synced(), 120)


async def test_a_watch_that_is_throttled_is_named(bench: Bench) -> None:
    bench.server.unserved.add(TOY)
    manager = bench.manager(watching("t", lambda toy, facts: Decision()))
    bench.start(manager.informers.watch())
    await asyncio.sleep(1)
    (line,) = manager.informers.failing()
    assert re.fullmatch(r"watch of toys.test.dev: toys.test.dev is not served; next try in \d+ s", line)
    bench.server.unserved.clear()
    await asyncio.wait_for(manager.informers.synced(), 120)
    assert manager.informers.failing() == []


async def test_garbage_is_collected_at_start_and_from_time_to_time(bench: Bench) -> None:
    rounds: list[float] = []

    def collect(caches: Caches) -> Iterable[Key]:
        rounds.append(bench.clock.monotonic())
        if len(rounds) == 2:
            raise RuntimeError("boom")
        return [Key("ns", "orphan")]

    await bench.lead(
        bench.manager(
            replace(watching("t", lambda toy, facts: Decision()), collect=collect), collect_interval=100
        )
    )
    await asyncio.sleep(250)
    assert len(rounds) == 3
    assert bench.metrics.value("fournos_reconciles_total", "t", "gone") == 2


async def test_all_keys_of_a_system_are_woken_at_once(bench: Bench) -> None:
    """Those of its garbage collection, too; of another system none; and none before it works."""
    toys(bench.server, "a", "b")
    seen: dict[str, list[Key]] = {"t": [], "other": []}

    def noting(name: str) -> Controller[Any]:
        controller = watching(name, lambda toy, facts: Decision())
        good = controller.observe

        def observe(caches: Caches, key: Key) -> Any:
            seen[name].append(key)
            return good(caches, key)

        return replace(controller, observe=observe, collect=lambda caches: [Key("ns", "orphan")])

    manager = bench.manager(noting("t"), noting("other"), collect_interval=1000)
    manager.wake("t")
    await bench.lead(manager)
    await asyncio.sleep(1)
    for keys in seen.values():
        keys.clear()
    manager.wake("t")
    await asyncio.sleep(1)
    assert sorted(seen["t"]) == [Key("ns", name) for name in ("a", "b", "orphan")]
    assert seen["other"] == []
    manager.wake("t", Key("ns", "b"))
    await asyncio.sleep(1)
    assert seen["t"][3:] == [Key("ns", "b")]


async def test_many_passes_leave_room_for_others(bench: Bench) -> None:
    toys(bench.server, *map(str, range(1000)))
    turns: list[float] = []

    async def other() -> None:
        while bench.metrics.value("fournos_reconciles_total", "t", "done") < 1000:
            turns.append(bench.metrics.value("fournos_reconciles_total", "t", "done"))
            await asyncio.sleep(0)

    await bench.lead(bench.manager(watching("t", lambda toy, facts: Decision()), workers=4))
    await other()
    assert max(after - before for before, after in itertools.pairwise(turns)) <= 4


async def test_a_deadline_in_the_past_is_no_hot_loop(bench: Bench) -> None:
    toys(bench.server, "a")
    past = bench.clock.now() - timedelta(hours=1)
    await bench.lead(bench.manager(watching("t", lambda toy, facts: Decision(wake_at=past))))
    await asyncio.sleep(10)
    assert 90 <= bench.metrics.value("fournos_reconciles_total", "t", "done") <= 102


async def test_events_are_recorded_after_the_write(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    note = EventRecord("Normal", "Seen", "seen")

    def decide(toy: Obj, facts: Facts) -> Decision:
        return Decision() if toy.get("status") else Decision(status={"seen": True}, events=(note,))

    toys(bench.server, "a")
    await bench.lead(bench.manager(watching("t", decide)))
    await until(lambda: bench.recorded)
    await asyncio.sleep(10)
    assert bench.recorded == [(Key("ns", "a"), note)]
    logged = [(r.levelname, r.key) for r in caplog.records if r.message == "Seen: seen"]  # type: ignore[attr-defined]
    assert logged == [("INFO", Key("ns", "a"))]


async def test_a_note_may_be_about_another_object(bench: Bench) -> None:
    (other,) = toys(bench.server, "b") or bench.server.list(TOY)
    note = EventRecord("Warning", "Seen", "seen", about=(TOY, other))

    def decide(toy: Obj, facts: Facts) -> Decision:
        return Decision(events=(note,) if toy["metadata"]["name"] == "a" else ())

    toys(bench.server, "a")
    await bench.lead(bench.manager(watching("t", decide)))
    await until(lambda: bench.recorded)
    assert bench.recorded == [(Key("ns", "b"), note)]


async def test_draining_lets_passes_end_and_starts_none(bench: Bench) -> None:
    class Slow(Counting):
        async def patch(self, *args: Any, **options: Any) -> Obj:
            await asyncio.sleep(5)
            return await super().patch(*args, **options)

    bench.api = Slow(bench.server)
    toys(bench.server, "a", "b")
    manager = bench.manager(watching("t", lambda toy, facts: Decision(status={"seen": True})), workers=1)
    working = await bench.lead(manager)
    await asyncio.sleep(1)
    before = bench.clock.monotonic()
    await manager.drain()
    assert bench.clock.monotonic() - before == pytest.approx(4, abs=0.2)
    await working
    assert [bool(toy.get("status")) for toy in bench.server.list(TOY)] == [True, False]


async def test_gauges_are_refreshed(bench: Bench) -> None:
    toys(bench.server, "a", "b")
    manager = bench.manager(watching("t", lambda toy, facts: Decision(retry=True)))
    await bench.lead(manager)
    await asyncio.sleep(20)
    manager.refresh_metrics()
    assert bench.metrics.value("fournos_cache_objects", "toys.test.dev", "", "") == 2
    assert bench.metrics.value("fournos_queue_retrying", "t") == 2
    assert bench.metrics.value("fournos_watch_age_seconds", "toys.test.dev", "", "") == pytest.approx(
        20, abs=1
    )
    assert manager.informers.stuck() == []
