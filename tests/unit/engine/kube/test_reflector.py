"""The reflector through every fault, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pytest

from fournos.engine.kube.api import Api, EventType, Listing, WatchEvent
from fournos.engine.kube.errors import (
    ConnectionLostError,
    ForbiddenError,
    GoneError,
    KubeError,
    NoSuchResourceError,
    ServerError,
)
from fournos.engine.kube.reflector import INACTIVITY, Reflector
from fournos.engine.kube.resource import Key, Obj
from fournos.engine.kube.store import Store
from tests.unit.engine.kube.server import JOBS

pytestmark = pytest.mark.looptime


class Open:
    """The watch stays open without data."""


Step: TypeAlias = WatchEvent | KubeError | Open | float
"""Of a watch: an event, a failure, silence for ever, seconds of silence."""


Names: TypeAlias = list[str]


def thing(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"namespace": "a", "name": name, "resourceVersion": str(version)}}


def ev(kind: EventType, name: str, version: int) -> WatchEvent:
    return WatchEvent(kind, thing(name, version))


def mark(version: int) -> WatchEvent:
    return WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


def error_event(code: int, reason: str = "") -> WatchEvent:
    status = {"kind": "Status", "code": code, "reason": reason, "message": f"code {code}"}
    return WatchEvent("ERROR", status)


def listing(version: int, **items: int) -> Listing:
    return Listing([thing(name, at) for name, at in items.items()], str(version))


@dataclass
class Script:
    """What `list` answers and what each watch does; the last one repeats.  Calls are kept with their time."""

    lists: list[Listing | KubeError]
    watches: list[list[Step]] = field(default_factory=lambda: [[Open()]])
    calls: list[tuple[float, str]] = field(default_factory=list)
    closed: int = 0

    async def list(self, *_: Any, keep: Callable[[Obj], Obj] | None = None, **__: Any) -> Listing:
        self._called("list")
        answer = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
        if isinstance(answer, KubeError):
            raise answer
        return Listing([keep(item) if keep else item for item in answer.items], answer.resource_version)

    async def watch(self, *_: Any, resource_version: str, **__: Any) -> AsyncIterator[WatchEvent]:
        self._called(f"watch {resource_version}")
        steps = self.watches.pop(0) if len(self.watches) > 1 else self.watches[0]
        try:
            for step in steps:
                if isinstance(step, KubeError):
                    raise step
                if isinstance(step, Open):
                    await asyncio.Event().wait()
                elif isinstance(step, float):
                    await asyncio.sleep(step)
                else:
                    yield step
        finally:
            self.closed += 1

    def _called(self, what: str) -> None:
        self.calls.append((asyncio.get_running_loop().time(), what))

    @property
    def order(self) -> Names:
        return [what for _, what in self.calls]


@dataclass
class Running:
    reflector: Reflector
    store: Store
    changes: list[tuple[str, str]]

    @property
    def names(self) -> list[str]:
        return sorted(obj["metadata"]["name"] for obj in self.store)


@contextlib.asynccontextmanager
async def reflecting(script: Script, *, seconds: float) -> AsyncIterator[Running]:
    """A reflector that has run for so long."""
    changes: list[tuple[str, str]] = []

    def on_change(kind: str, old: Obj | None, new: Obj | None) -> None:
        shown = new or old
        assert shown is not None
        changes.append((kind, shown["metadata"]["name"]))

    api: Api = script  # type: ignore[assignment]
    store = Store()
    reflector = Reflector(api, JOBS, store, on_change=on_change, rng=random.Random(3))
    task = asyncio.create_task(reflector.run())
    try:
        await asyncio.sleep(seconds)
        assert not task.done(), "a reflector never ends"
        yield Running(reflector, store, changes)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_list_then_watch_from_its_version() -> None:
    script = Script([listing(10, x=5)], [[ev("ADDED", "y", 11), ev("DELETED", "x", 12), Open()]])
    async with reflecting(script, seconds=1) as run:
        assert run.names == ["y"]
        assert run.changes == [("ADDED", "x"), ("ADDED", "y"), ("DELETED", "x")]
        assert run.store.synced
        assert run.reflector.error is None
        assert run.reflector.last_event_age == pytest.approx(1)
    assert script.order == ["list", "watch 10"]


async def test_nothing_is_synced_before_the_first_complete_list() -> None:
    async with reflecting(Script([ConnectionLostError("refused")]), seconds=60) as run:
        assert not run.store.synced
        assert run.reflector.last_event_age is None
        assert isinstance(run.reflector.error, ConnectionLostError)


async def test_a_watch_that_ends_by_its_time_goes_on_at_once_from_the_last_bookmark() -> None:
    script = Script([listing(10)], [[ev("ADDED", "x", 11), mark(40), 60.0], [Open()]])
    async with reflecting(script, seconds=61) as run:
        assert run.names == ["x"]
        assert run.reflector.restarts == 0
    assert script.order == ["list", "watch 10", "watch 40"]
    assert script.calls[2][0] == pytest.approx(60)


@pytest.mark.parametrize(
    ("watches", "seconds", "most"),
    [
        ([[]], 60, 40),
        ([[error_event(410)]], 300, 120),
        ([[ConnectionLostError("refused")], [ForbiddenError("no right", status=403)]], 600, 120),
    ],
    ids=["it ends at once", "410 for ever", "a right that stays away after an outage"],
)
async def test_a_watch_that_cannot_go_on_is_asked_for_in_no_tight_loop(
    watches: list[list[Step]], seconds: float, most: int
) -> None:
    script = Script([listing(10)], watches)
    async with reflecting(script, seconds=seconds):
        pass
    assert 3 <= len(script.calls) < most


@pytest.mark.parametrize("gone", [GoneError("too old", status=410), error_event(410, "Expired")])
async def test_410_lists_anew_and_finds_what_was_deleted_meanwhile(gone: Step) -> None:
    script = Script([listing(10, x=5, y=6), listing(50, y=6, z=45)], [[gone], [Open()]])
    async with reflecting(script, seconds=5) as run:
        assert run.names == ["y", "z"]
        assert run.changes[2:] == [("ADDED", "z"), ("DELETED", "x")]
        assert run.reflector.error is None
        assert run.reflector.relists == 2
    assert script.order == ["list", "watch 10", "list", "watch 50"]


@pytest.mark.parametrize("code", [429, 500, 503, 504])
async def test_an_error_event_resumes_where_the_watch_was(code: int) -> None:
    script = Script(
        [listing(10)], [[ev("ADDED", "x", 11), error_event(code)], [ev("ADDED", "y", 12), Open()]]
    )
    async with reflecting(script, seconds=5) as run:
        assert run.names == ["x", "y"]
        assert run.reflector.error is None
        assert run.reflector.restarts == 1
    assert script.order == ["list", "watch 10", "watch 11"]
    assert script.calls[2][0] >= 0.5


async def test_retry_after_is_the_least_wait() -> None:
    slow = ServerError("busy", status=429, retry_after=20)
    script = Script([slow, listing(10)])
    async with reflecting(script, seconds=60):
        pass
    assert script.calls[1][0] >= 20


async def test_the_time_of_the_next_try_is_known() -> None:
    script = Script([ServerError("busy", status=503, retry_after=60), listing(10)])
    async with reflecting(script, seconds=10) as run:
        assert 45 < run.reflector.retry_in <= 60


async def test_failures_back_off_with_jitter_up_to_half_a_minute() -> None:
    script = Script([ConnectionLostError("refused")])
    async with reflecting(script, seconds=600):
        pass
    times = [at for at, _ in script.calls]
    waits = [after - before for before, after in itertools.pairwise(times)]
    assert waits[0] <= 1.5
    assert max(waits) <= 30
    assert 20 <= len(waits) <= 120
    assert len(set(waits[:5])) == 5


@pytest.mark.parametrize(
    "first", [GoneError("too old", status=410), ForbiddenError("no roles yet", status=403)]
)
async def test_the_first_answer_after_an_outage_is_followed_by_a_list_within_seconds(first: Step) -> None:
    """A watch whose waits have grown to half a minute meanwhile must not keep an old cache for as long."""
    lost: list[list[Step]] = [[ConnectionLostError("refused")] for _ in range(4)]
    gone: list[list[Step]] = [] if isinstance(first, GoneError) else [[GoneError("too old", status=410)]]
    script = Script([listing(10, x=5), listing(50)], [*lost, [first], *gone, [Open()]])
    async with reflecting(script, seconds=200) as run:
        assert run.names == []
    answered = [at for at, what in script.calls if what == "watch 10"][len(lost)]
    listed = [at for at, what in script.calls if what == "list"][1]
    assert listed - answered <= 1.5 + 4.5


async def test_a_bookmark_before_a_410_does_not_hold_the_list_back() -> None:
    lost: list[list[Step]] = [[ConnectionLostError("refused")] for _ in range(4)]
    ends: list[Step] = [mark(10)]
    script = Script([listing(10), listing(50)], [*lost, ends, [GoneError("too old", status=410)], [Open()]])
    async with reflecting(script, seconds=200):
        pass
    place = script.order.index("list", 1)
    gone, listed = script.calls[place - 1][0], script.calls[place][0]
    assert script.order[place - 1 : place + 2] == ["watch 10", "list", "watch 50"]
    assert listed - gone <= 1.5


async def test_events_reset_the_backoff() -> None:
    watches: list[list[Step]] = [
        [ev("ADDED", f"x{at}", at), ConnectionLostError("cut")] for at in range(11, 31)
    ]
    script = Script([listing(10)], [*watches, [Open()]])
    async with reflecting(script, seconds=40) as run:
        assert len(run.names) == 20
    assert script.order.count("list") == 1


async def test_a_silent_watch_is_given_up_and_resumed() -> None:
    script = Script([listing(10)], [[ev("ADDED", "x", 11), Open()], [ev("DELETED", "x", 12), Open()]])
    async with reflecting(script, seconds=INACTIVITY - 1) as run:
        assert run.names == ["x"]
        await asyncio.sleep(3)
        assert run.names == []
    assert script.order == ["list", "watch 10", "watch 11"]
    assert script.closed == 2


async def test_bookmarks_keep_a_quiet_watch_alive() -> None:
    steps: list[Step] = [step for at in range(11, 31) for step in (60.0, mark(at))]
    script = Script([listing(10)], [[*steps, Open()]])
    async with reflecting(script, seconds=1200) as run:
        assert run.reflector.restarts == 0
    assert script.order == ["list", "watch 10"]


@pytest.mark.parametrize("how", [ForbiddenError("no right", status=403), error_event(401)])
async def test_a_lacking_right_is_shown_and_tried_slowly(how: Step) -> None:
    script = Script([listing(10, x=5)], [[how], [how], [how], [ev("ADDED", "y", 11), Open()]])
    async with reflecting(script, seconds=10) as run:
        assert isinstance(run.reflector.error, ForbiddenError)
        assert run.names == ["x"], "what is known stays"
        assert script.order == ["list", "watch 10"]
        await asyncio.sleep(120)
        assert run.reflector.error is None
        assert run.names == ["x", "y"]
    assert script.order.count("list") == 1


async def test_a_missing_resource_type_is_no_fault_and_is_found_when_it_comes() -> None:
    script = Script([NoSuchResourceError("404"), NoSuchResourceError("404"), listing(10, x=5)])
    async with reflecting(script, seconds=20) as run:
        assert not run.store.served
        assert not run.store.synced
        await asyncio.sleep(60)
        assert run.store.served
        assert run.store.synced
        assert run.names == ["x"]
        assert run.reflector.error is None
    assert script.order == ["list", "list", "list", "watch 10"]


async def test_a_resource_type_that_goes_takes_its_objects_with_it() -> None:
    script = Script([listing(10, x=5), NoSuchResourceError("404")], [[GoneError("x")]])
    async with reflecting(script, seconds=20) as run:
        assert not run.store.served
        assert run.changes == [("ADDED", "x"), ("DELETED", "x")]


async def test_after_five_failed_resumes_it_lists_anew() -> None:
    """An API server whose etcd was restored answers 504 to every version that it never had."""
    lost = ServerError("Too large resource version", status=504)
    watches: list[list[Step]] = [[lost] for _ in range(5)]
    script = Script([listing(1000), listing(7, x=5)], [*watches, [Open()]])
    async with reflecting(script, seconds=70) as run:
        assert run.names == ["x"]
    assert script.order == ["list", *["watch 1000"] * 5, "list", "watch 7"]


async def test_the_echo_of_an_assumed_write_is_no_change() -> None:
    script = Script([listing(10)], [[5.0, ev("ADDED", "x", 11), ev("MODIFIED", "x", 12), Open()]])
    async with reflecting(script, seconds=1) as run:
        run.store.assume(thing("x", 11))
        await asyncio.sleep(5)
        assert run.changes == [("MODIFIED", "x")]
        obj = run.store.get(Key("a", "x"))
        assert obj is not None
        assert obj["metadata"]["resourceVersion"] == "12"


async def test_a_fault_of_whoever_listens_costs_no_event(caplog: pytest.LogCaptureFixture) -> None:
    script = Script([listing(10, x=5)], [[ev("ADDED", "y", 11), Open()]])
    store = Store()
    received: list[str] = []

    def on_change(kind: str, _: Obj | None, __: Obj | None) -> None:
        received.append(kind)
        raise ZeroDivisionError

    api: Api = script  # type: ignore[assignment]
    task = asyncio.create_task(Reflector(api, JOBS, store, on_change=on_change).run())
    await asyncio.sleep(1)
    assert not task.done()
    task.cancel()
    assert received == ["ADDED", "ADDED"]
    assert len(store) == 2
    assert "could not be handed on" in caplog.text


async def test_an_unexpected_fault_is_shown_and_repaired_by_a_list() -> None:
    broken = WatchEvent("ADDED", {"metadata": {}})
    script = Script([listing(10), listing(20, x=15)], [[broken], [Open()]])
    async with reflecting(script, seconds=5) as run:
        assert run.names == ["x"]
    assert script.order == ["list", "watch 10", "list", "watch 20"]


async def test_a_large_list_lets_others_run() -> None:
    items = {f"n{number}": 5 for number in range(3500)}
    turns = 0
    turns_at_change: list[int] = []
    done = asyncio.Event()

    async def other() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            await asyncio.sleep(0)

    def on_change(*_: object) -> None:
        turns_at_change.append(turns)
        if len(turns_at_change) == len(items):
            done.set()

    api: Api = Script([listing(10, **items)])  # type: ignore[assignment]
    running = asyncio.create_task(Reflector(api, JOBS, Store(), on_change=on_change).run())
    await other()
    assert turns_at_change[-1] - turns_at_change[0] >= 3
    running.cancel()
