"""Watches that come and go with the objects that need them, with real reflectors in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from fournos.engine.kube.api import Listing
from fournos.engine.kube.errors import ForbiddenError
from fournos.engine.kube.reflector import SLOW_RETRY
from fournos.engine.kube.resource import Key, Obj, Resource
from fournos.engine.runtime.controller import Caches, Controller, Watch, matcher
from fournos.engine.runtime.decision import Decision
from tests.unit.engine.runtime.controlled import Bench, until, watching
from tests.unit.engine.runtime.toy import THING, TOY

pytestmark = pytest.mark.looptime
SOON = 1.0
GAUGE = b'fournos_cache_objects{namespace="",resource="things.test.dev",selector=""}'


def things_of(toy: Obj) -> Iterable[Watch]:
    """Returns the resource types that the Toy's spec names."""
    if "odd" in toy["spec"]:
        raise KeyError("odd")
    if not toy["spec"].get("things"):
        return ()
    return (Watch(THING, lambda thing, caches: [Key("ns", thing["spec"]["toy"])], required=False),)


class Seen:
    """How many Things each pass has found: None where no cache would show any."""

    def __init__(self) -> None:
        self.found: list[tuple[str, int | None]] = []

    def controller(self) -> Controller[Any]:
        def observe(caches: Caches, key: Key) -> Obj | None:
            there = THING in caches and caches[THING].synced
            self.found.append((key.name, len(caches[THING]) if there else None))
            return caches[TOY].get(key)

        plain = watching("t", lambda toy, facts: Decision())
        return replace(plain, observe=observe, follow=things_of)


def toy(bench: Bench, name: str, **spec: Any) -> None:
    bench.server.create(TOY, {"metadata": {"namespace": "ns", "name": name}, "spec": spec})


def thing(bench: Bench, name: str, of: str) -> None:
    bench.server.create(THING, {"metadata": {"namespace": "ns", "name": name}, "spec": {"toy": of}})


async def test_it_is_open_as_long_as_an_object_needs_it(bench: Bench) -> None:
    seen = Seen()
    manager = bench.manager(seen.controller())
    await bench.lead(manager)
    toy(bench, "plain")
    await asyncio.sleep(SOON)
    assert THING not in manager.caches("t")
    toy(bench, "a", things=True)
    toy(bench, "b", things=True)
    thing(bench, "one", "a")
    await asyncio.sleep(SOON)
    assert ("a", 1) in seen.found
    bench.server.delete(THING, Key("ns", "one"))
    await asyncio.sleep(SOON)
    assert seen.found[-1] == ("a", 0), "its deletion has woken who it concerns"
    manager.refresh_metrics()
    assert GAUGE in bench.metrics.render()
    bench.server.delete(TOY, Key("ns", "a"))
    await asyncio.sleep(SOON)
    assert THING in manager.caches("t")
    bench.server.patch(TOY, Key("ns", "b"), {"spec": {"things": False}})
    await asyncio.sleep(SOON)
    assert THING not in manager.caches("t")
    assert GAUGE not in bench.metrics.render()
    passes, lists = len(seen.found), len(bench.api.lists)
    thing(bench, "two", "b")
    await asyncio.sleep(3600)
    assert (len(seen.found), len(bench.api.lists)) == (passes, lists), "nobody listens any more"
    bench.server.patch(TOY, Key("ns", "plain"), {"spec": {"things": True}})
    await asyncio.sleep(SOON)
    assert len(manager.caches("t")[THING]) == 1, "and anew"


async def test_one_that_a_pass_has_opened_wakes_the_key_of_that_pass(bench: Bench) -> None:
    seen = Seen()

    def follow(toy: Obj) -> Iterable[Watch]:
        return things_of({"spec": toy.get("status") or {}})

    claims = replace(
        seen.controller(), decide=lambda toy, facts, now: Decision(status={"things": True}), follow=follow
    )
    manager = bench.manager(claims)
    await bench.lead(manager)
    toy(bench, "a")
    await until(lambda: THING in manager.caches("t"))
    thing(bench, "one", "a")
    await asyncio.sleep(SOON)
    assert seen.found[-1] == ("a", 1)


async def test_a_standby_keeps_it_too(bench: Bench) -> None:
    manager = bench.manager(Seen().controller())
    toy(bench, "a", things=True)
    thing(bench, "one", "a")
    bench.start(manager.informers.watch())
    await manager.informers.synced()
    await asyncio.sleep(SOON)
    assert len(manager.caches("t")[THING]) == 1


@pytest.mark.parametrize("failure", ["not served", "no right"])
async def test_what_cannot_be_watched_blocks_nothing_else(
    bench: Bench, failure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And once it can be, who needs it looks again: what had gone by then makes no event."""
    refused = {THING} if failure == "no right" else set()
    allowed = bench.api.list

    async def listed(resource: Resource, **options: Any) -> Listing:
        if resource in refused:
            raise ForbiddenError("things are forbidden", status=403)
        return await allowed(resource, **options)

    monkeypatch.setattr(bench.api, "list", listed)
    if failure == "not served":
        bench.server.unserved.add(THING)
    seen = Seen()
    manager = bench.manager(seen.controller())
    toy(bench, "a", things=True)
    await asyncio.wait_for(bench.lead(manager), SOON)
    await asyncio.sleep(600)
    assert manager.informers.unsynced() == [] and manager.informers.stuck() == []
    assert seen.found[-1] == ("a", None)
    toy(bench, "b")
    await until(lambda: ("b", None) in seen.found)
    bench.server.unserved.clear()
    refused.clear()
    await asyncio.sleep(2 * SLOW_RETRY)
    assert seen.found[-1] == ("a", 0)


async def test_an_odd_object_does_not_end_its_watch(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    seen = Seen()
    await bench.lead(bench.manager(seen.controller()))
    toy(bench, "odd", odd=True)
    toy(bench, "a", things=True)
    await asyncio.sleep(SOON)
    assert seen.found[-1] == ("a", 0)
    assert "what it needs to have watched is unknown" in caplog.text


# --- Label selectors of watches ----------------------------------------------------------------------

LABELS = {"a": "1", "b.io/c": "x", "empty": ""}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", True),
        ("a=1", True),
        ("a==1", True),
        ("a = 1 , b.io/c=x", True),
        ("a=2", False),
        ("a!=2", True),
        ("a!=1", False),
        ("missing!=1", True),
        ("a", True),
        ("missing", False),
        ("!missing", True),
        ("! a", False),
        ("empty=", True),
        ("a in (1, 2)", True),
        ("a in (2)", False),
        ("a notin (2,3)", True),
        ("a notin (1)", False),
        ("missing notin (1)", True),
        ("a in (1),b.io/c,!z", True),
    ],
)
def test_matches(selector: str, expected: bool) -> None:
    assert matcher(selector)(LABELS) is expected


@pytest.mark.parametrize("selector", ["a in 1", "=1", "a b", ",", "a in (1"])
def test_what_is_no_selector_is_refused(selector: str) -> None:
    with pytest.raises(ValueError, match="not a label selector"):
        matcher(selector)
