"""Leadership in virtual time: two candidates, paused ones, lost answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from fournos.engine.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ConnectionLostError,
    KubeError,
    NotLeaderError,
    ServerError,
)
from fournos.engine.kube.resource import LEASE, Key, Obj, Resource
from fournos.engine.runtime.lease import Lease, micro_time
from tests.unit.engine.runtime.loop import START, LoopClock
from tests.world.connection import Connection
from tests.world.server import Server

pytestmark = pytest.mark.looptime

KEY = Key("fournos", "fournos")


class Unreliable(Connection):
    """`down`: no request gets through; `lose`: the next write is stored and its answer lost.

    `delay`: a write is stored at once, its answer takes so many seconds; `reads`: what happens to the next
    reads: an error, or a wait of so many seconds.
    """

    down = False
    lose = False
    delay = 0.0

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.reads: list[KubeError | float] = []

    async def get(self, resource: Resource, key: Key) -> Obj:
        if self.down:
            raise ServerError("down", status=503)
        match self.reads.pop(0) if self.reads else 0:
            case KubeError() as error:
                raise error
            case seconds:
                await asyncio.sleep(seconds)
        return await super().get(resource, key)

    async def patch(self, resource: Resource, key: Key, body: Obj, *, subresource: str | None = None) -> Obj:
        if self.down:
            await asyncio.sleep(3600)
        answer = await super().patch(resource, key, body, subresource=subresource)
        if self.lose:
            self.lose = False
            raise ConnectionLostError("reset")
        await asyncio.sleep(self.delay)
        return answer


class Candidate:
    def __init__(self, server: Server, name: str, clock: LoopClock) -> None:
        self.api = Unreliable(server)
        self.lease = Lease(self.api, KEY, name, clock, jitter=lambda: 0.5)


@pytest.fixture
async def server() -> Server:
    return Server()


@pytest.fixture
async def clock() -> LoopClock:
    return LoopClock()


@pytest.fixture
async def one(server: Server, clock: LoopClock) -> Candidate:
    return Candidate(server, "one", clock)


@pytest.fixture
async def two(server: Server, clock: LoopClock) -> Candidate:
    return Candidate(server, "two", clock)


@pytest.fixture
async def api(one: Candidate) -> Unreliable:
    return one.api


@pytest.fixture
async def lease(one: Candidate) -> Lease:
    return one.lease


def holder(server: Server) -> str | None:
    found: str | None = server.get(LEASE, KEY)["spec"].get("holderIdentity")
    return found


async def test_the_first_leads_and_the_second_waits(one: Candidate, two: Candidate, server: Server) -> None:
    await one.lease.acquire()
    one.lease.check()
    holding = asyncio.create_task(one.lease.hold())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(two.lease.acquire(), 300)
    with pytest.raises(NotLeaderError):
        two.lease.check()
    one.lease.check()
    assert holder(server) == "one"
    holding.cancel()


async def test_at_most_one_of_two_may_write_at_any_time(one: Candidate, two: Candidate) -> None:
    """The leader's connection breaks: it stops at its renew deadline, the other starts after the duration."""
    await one.lease.acquire()
    holding = asyncio.create_task(one.lease.hold())
    other = asyncio.create_task(two.lease.acquire())
    await asyncio.sleep(5)
    loop = asyncio.get_running_loop()
    one.api.down = True
    broken = loop.time()
    stopped = started = None
    while started is None:
        await asyncio.sleep(0.1)
        assert not (one.lease.is_leader and two.lease.is_leader)
        if stopped is None and not one.lease.is_leader:
            stopped = loop.time() - broken
        if two.lease.is_leader:
            started = loop.time() - broken
    assert stopped is not None
    assert 8 <= stopped <= 10.1
    assert 13 <= started <= 18
    with pytest.raises(NotLeaderError):
        await holding
    await other


async def test_a_paused_leader_may_not_write_when_it_resumes(one: Candidate, two: Candidate) -> None:
    await one.lease.acquire()  # and nobody renews: the process stands still
    await two.lease.acquire()
    with pytest.raises(NotLeaderError):
        one.lease.check()
    with pytest.raises(NotLeaderError):
        await one.lease.hold()
    two.lease.check()


async def test_an_expired_lease_is_taken_at_once(one: Candidate, two: Candidate, clock: LoopClock) -> None:
    """Not up to an interval later: so long nobody works."""
    await one.lease.acquire()
    seen = clock.monotonic()
    await two.lease.acquire()
    assert clock.monotonic() - seen == pytest.approx(15, abs=0.01)


async def test_timestamps_of_others_are_not_trusted(one: Candidate, server: Server, clock: LoopClock) -> None:
    """A lease whose renewTime is long past, by a clock that is wrong, is respected while it changes."""
    spec = {"holderIdentity": "three", "leaseDurationSeconds": 15, "renewTime": "2001-01-01T00:00:00.0Z"}
    server.create(LEASE, {"metadata": {"namespace": "fournos", "name": "fournos"}, "spec": spec})
    waiting = asyncio.create_task(one.lease.acquire())
    for second in range(60):
        await asyncio.sleep(1)
        if second % 5 == 0:
            server.patch(LEASE, KEY, {"spec": {"renewTime": f"2001-01-01T00:00:{second:02d}.0Z"}})
        assert not waiting.done()
    silent = clock.monotonic()
    await waiting
    assert 10 <= clock.monotonic() - silent <= 18
    assert server.get(LEASE, KEY)["spec"]["leaseTransitions"] == 1


async def test_a_lost_answer_does_not_cost_the_lease(one: Candidate) -> None:
    await one.lease.acquire()
    holding = asyncio.create_task(one.lease.hold())
    for _ in range(5):
        one.api.lose = True
        await asyncio.sleep(4)
        one.lease.check()
    assert not holding.done()
    holding.cancel()


async def test_leadership_counts_from_before_the_request(
    api: Unreliable, lease: Lease, clock: LoopClock
) -> None:
    """Another process may count from the moment the write is stored, which is before the answer comes."""
    await lease.acquire()
    holding = asyncio.create_task(lease.hold())
    api.delay = 5.0
    await asyncio.sleep(1.9)
    renewed = clock.monotonic() + 0.1  # it renews every 2 s
    await asyncio.sleep(5.2)  # the answer is here; no further renewal is
    api.delay = 3600.0
    await asyncio.sleep(renewed + 9.9 - clock.monotonic())
    assert lease.is_leader
    await asyncio.sleep(0.2)
    assert not lease.is_leader, "its time ends 10 s after the request was sent, not after the answer"
    with pytest.raises(NotLeaderError):
        await holding


async def test_a_taken_lease_ends_leadership_at_once(one: Candidate, server: Server) -> None:
    await one.lease.acquire()
    holding = asyncio.create_task(one.lease.hold())
    server.patch(LEASE, KEY, {"spec": {"holderIdentity": "thief"}})
    with pytest.raises(NotLeaderError, match="another process took the lease"):
        await holding
    with pytest.raises(NotLeaderError):
        one.lease.check()


async def test_a_deleted_lease_is_made_again(one: Candidate, server: Server) -> None:
    await one.lease.acquire()
    holding = asyncio.create_task(one.lease.hold())
    server.delete(LEASE, KEY)
    await asyncio.sleep(5)
    one.lease.check()
    assert holder(server) == "one"
    holding.cancel()


async def test_a_released_lease_is_free_at_once(
    one: Candidate, two: Candidate, server: Server, clock: LoopClock
) -> None:
    await one.lease.acquire()
    await one.lease.release()
    with pytest.raises(NotLeaderError):
        one.lease.check()
    assert holder(server) is None
    before = clock.monotonic()
    await two.lease.acquire()
    assert clock.monotonic() - before < 1


async def test_what_is_not_held_is_not_released(one: Candidate, two: Candidate, server: Server) -> None:
    await one.lease.acquire()
    await two.lease.acquire()
    await one.lease.release()
    assert holder(server) == "two"


# --- writes under a Lease ---------------------------------------------------------------------------
# What a candidate of the leader election writes into its Lease, and how long it waits for each answer.

FOREIGN = {"holderIdentity": "three", "leaseDurationSeconds": 30, "leaseTransitions": 3}


def spec(server: Server) -> dict[str, Any]:
    return dict(server.get(LEASE, KEY)["spec"])


def foreign(server: Server, **more: Any) -> None:
    meta = {"namespace": KEY.namespace, "name": KEY.name}
    server.create(LEASE, {"metadata": meta, "spec": {**FOREIGN, **more}})


def at(clock: LoopClock) -> str:
    return micro_time(clock.now())


def refuse(server: Server, verb: str, error: KubeError) -> None:
    """Refuses the next write of this verb."""
    left = [error]
    server.refusals.append(lambda seen, *_: left.pop() if seen == verb and left else None)


# --- what is written -------------------------------------------------------------------------------------


async def test_a_new_lease_says_who_leads_and_since_when(
    lease: Lease, server: Server, clock: LoopClock
) -> None:
    await lease.acquire()
    taken = at(clock)
    made = server.get(LEASE, KEY)
    assert (made["apiVersion"], made["kind"]) == (LEASE.api_version, "Lease")
    claim = {"holderIdentity": "one", "leaseDurationSeconds": 15}
    assert made["spec"] == {**claim, "renewTime": taken, "acquireTime": taken, "leaseTransitions": 0}
    holding = asyncio.create_task(lease.hold())
    await asyncio.sleep(2.5)
    assert spec(server) == {
        **claim,
        "renewTime": micro_time(START + timedelta(seconds=2)),
        "acquireTime": taken,
        "leaseTransitions": 0,
    }
    holding.cancel()
    released = at(clock)
    await lease.release()
    assert spec(server) == {
        "leaseDurationSeconds": 1,
        "renewTime": released,
        "acquireTime": taken,
        "leaseTransitions": 0,
    }


async def test_a_change_of_the_leader_is_counted(lease: Lease, server: Server, clock: LoopClock) -> None:
    foreign(server)
    await lease.acquire()
    taken = at(clock)
    assert spec(server) == {
        "holderIdentity": "one",
        "leaseDurationSeconds": 15,
        "renewTime": taken,
        "acquireTime": taken,
        "leaseTransitions": 4,
    }


async def test_its_own_lease_is_taken_at_once_and_counts_no_change(lease: Lease, server: Server) -> None:
    foreign(server, holderIdentity="one")
    async with asyncio.timeout(1):
        await lease.acquire()
    assert spec(server)["leaseTransitions"] == 3


# --- when ------------------------------------------------------------------------------------------------


async def test_the_duration_is_the_one_that_the_holder_declares(
    server: Server, api: Unreliable, clock: LoopClock
) -> None:
    """Not this process's own; at its very end the lease is free."""
    foreign(server, leaseDurationSeconds=30)
    await Lease(api, KEY, "one", clock, jitter=lambda: 0.0).acquire()
    assert clock.monotonic() == pytest.approx(30)


async def test_without_a_duration_the_own_one_counts(
    server: Server, api: Unreliable, clock: LoopClock
) -> None:
    foreign(server, leaseDurationSeconds=None)
    await Lease(api, KEY, "one", clock, jitter=lambda: 0.0, duration=16.0).acquire()
    assert clock.monotonic() == pytest.approx(16)


async def test_a_failed_attempt_is_repeated_after_the_interval_and_its_jitter(
    lease: Lease, api: Unreliable, clock: LoopClock
) -> None:
    api.reads = [ServerError("down", status=503)]
    await lease.acquire()
    assert clock.monotonic() == pytest.approx(2 * 1.1)


async def test_an_attempt_that_hangs_is_given_up(lease: Lease, api: Unreliable, clock: LoopClock) -> None:
    api.reads = [3600.0]
    await lease.acquire()
    assert clock.monotonic() == pytest.approx(10 + 2 * 1.1)


@pytest.mark.parametrize(
    ("verb", "error"),
    [
        ("create", AlreadyExistsError("exists", status=409)),
        ("patch", ConflictError("changed", status=409)),
    ],
)
async def test_who_comes_second_does_not_lead(
    verb: str, error: KubeError, lease: Lease, server: Server, clock: LoopClock
) -> None:
    if verb == "patch":
        foreign(server, holderIdentity=None)
    refuse(server, verb, error)
    await lease.acquire()
    assert lease.is_leader
    assert clock.monotonic() == pytest.approx(2 * 1.1), "the second attempt"


async def test_a_renewal_that_hangs_is_given_up_when_leadership_ends(
    lease: Lease, server: Server, api: Unreliable, clock: LoopClock
) -> None:
    await lease.acquire()
    refuse(server, "patch", ConflictError("changed", status=409))
    api.reads = [3600.0]
    with pytest.raises(NotLeaderError, match="does not hold the lease"):
        await lease.hold()
    assert clock.monotonic() == pytest.approx(10 + 2), "its end, and one interval"


async def test_a_release_that_hangs_is_given_up(lease: Lease, api: Unreliable, clock: LoopClock) -> None:
    await lease.acquire()
    api.reads = [3600.0]
    await lease.release()
    assert clock.monotonic() == pytest.approx(4)


# --- settings --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "accepted"),
    [
        ((15, 10, 4), True),
        ((15, 10, 5), False),
        ((15, 10, 6), False),
        ((10, 10, 2), False),
        ((9, 10, 2), False),
    ],
)
def test_a_leader_has_time_for_a_second_attempt(times: tuple[float, float, float], accepted: bool) -> None:
    duration, deadline, interval = times

    def make() -> Lease:
        return Lease(
            Connection(Server()),
            KEY,
            "x",
            LoopClock(),
            duration=duration,
            renew_deadline=deadline,
            interval=interval,
        )

    if accepted:
        assert not make().is_leader
    else:
        with pytest.raises(ValueError, match="2 x interval"):
            make()


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine's time zone is not UTC."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("elsewhere")
def test_times_are_written_in_utc() -> None:
    assert micro_time(datetime(2030, 1, 2, 3, 4, 5, 6, tzinfo=UTC)) == "2030-01-02T03:04:05.000006Z"
    moment = datetime(2030, 1, 2, 3, 0, tzinfo=timezone(timedelta(hours=2)))
    assert micro_time(moment) == "2030-01-02T01:00:00.000000Z"
