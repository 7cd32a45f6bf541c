"""What an open page watches with the credentials of its person."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from fournos.api.kinds import PIPELINE_RUN, TASK_RUN
from fournos.engine.kube.errors import TransientError
from fournos.engine.kube.resource import Key
from fournos.web.live.following import DELAY, MOST, PageWatches, Watched
from tests.unit.client.world import NS, Api

pytestmark = pytest.mark.looptime

TASKS = Watched(TASK_RUN, NS, "job=one")
RUNS = Watched(PIPELINE_RUN, NS, "job=one")


class Room:
    def __init__(self) -> None:
        self.api = Api()
        self.pokes = 0
        self.open: set[asyncio.Task[None]] = set()
        self.following = PageWatches(self.poke, self.open)

    def poke(self) -> None:
        self.pokes += 1

    async def task(self, name: str, job: str = "one") -> None:
        meta = {"name": name, "namespace": NS, "labels": {"job": job}}
        await self.api.create(TASK_RUN, {"metadata": meta})

    async def pass_time(self) -> None:
        await asyncio.sleep(2 * DELAY)


@pytest.fixture
def room() -> Iterator[Room]:
    found = Room()
    yield found
    found.following.close()


async def test_a_burst_of_changes_of_the_page_s_own_objects_counts_once(room: Room) -> None:
    room.following.want(room.api, [TASKS, RUNS])
    await room.pass_time()
    assert room.pokes == 0, "there is nothing yet"
    for name in "abc":
        await room.task(name)
    await room.task("d", job="other")
    await room.pass_time()
    assert (room.pokes, room.following.changes) == (1, 1)
    await room.task("e", job="other")
    await room.pass_time()
    assert room.pokes == 1
    await room.api.delete(TASK_RUN, Key(NS, "a"))
    await room.pass_time()
    assert room.pokes == 2


async def test_what_is_watched_already_costs_no_request(room: Room) -> None:
    room.following.want(room.api, [TASKS])
    await room.pass_time()
    before = room.api.calls.total()
    for _ in range(3):
        room.following.want(room.api, [TASKS])
        await room.pass_time()
    assert room.api.calls.total() == before


@pytest.mark.parametrize("close", [False, True])
async def test_what_is_not_wanted_any_more_is_not_watched(room: Room, close: bool) -> None:
    room.following.want(room.api, [TASKS, RUNS])
    await room.pass_time()
    assert room.api.open == {TASK_RUN: 1, PIPELINE_RUN: 1}
    await room.task("a")
    await asyncio.sleep(DELAY / 2)
    if close:
        room.following.close()
        room.following.want(room.api, [TASKS])
    else:
        room.following.want(room.api, [RUNS])
    await room.pass_time()
    assert room.api.open == {TASK_RUN: 0, PIPELINE_RUN: 0 if close else 1}
    assert room.pokes == (0 if close else 1)
    await room.task("b")
    await room.pass_time()
    assert room.pokes == (0 if close else 1)


async def test_a_watch_that_breaks_goes_on(room: Room) -> None:
    def broken(number: int) -> None:
        if number == 1:
            raise TransientError("the connection was closed")

    room.api.on_watch = broken
    room.following.want(room.api, [TASKS])
    await asyncio.sleep(60)
    await room.task("a")
    await room.pass_time()
    assert room.pokes == 1


async def test_one_replica_has_a_bounded_number_of_watches(room: Room) -> None:
    others = [PageWatches(room.poke, room.open) for _ in range(MOST)]
    for one in others:
        one.want(room.api, [TASKS])
    room.following.want(room.api, [TASKS])
    await room.pass_time()
    assert room.api.open[TASK_RUN] == MOST
    others[0].want(room.api, [])
    await room.pass_time()
    room.following.want(room.api, [TASKS])
    await room.pass_time()
    assert room.api.open[TASK_RUN] == MOST and not others[0].changes
    for one in others:
        one.close()
    await room.pass_time()
    assert room.api.open[TASK_RUN] == len(room.open) == 1
