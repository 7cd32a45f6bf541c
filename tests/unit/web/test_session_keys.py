"""The keys of sessions: one Secret, a new key each week, no session lost by it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.fernet import Fernet

from fournos.engine.kube.api import WatchEvent
from fournos.engine.kube.errors import ConflictError, ForbiddenError
from fournos.engine.kube.resource import SECRET, Key, Obj, Resource
from fournos.web.errors import PageError
from fournos.web.identity.session_keys import (
    LOOK,
    MOST_ENDED,
    NEW_KEY,
    SETTLE,
    Keys,
    SessionKeys,
    data,
    ended_sessions,
    outdated,
    read,
    rotated,
)
from fournos.web.identity.sessions import Sealer, Session
from tests.unit.engine.runtime.loop import LoopClock
from tests.world.connection import Connection
from tests.world.server import Server

NOW = datetime(2026, 3, 1, tzinfo=UTC)
LIFETIME = timedelta(hours=8)
KEY = Key("web", "session")


def keys(*ages: timedelta) -> Keys:
    return Keys(tuple((NOW - age, f"key-{number}".encode()) for number, age in enumerate(ages)))


def names(found: Keys) -> list[bytes]:
    return [key for _, key in found.entries]


SECOND, DAY = timedelta(seconds=1), timedelta(days=1)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (keys(), [b"new"]),
        (keys(DAY), [b"key-0"]),
        (keys(NEW_KEY - SECOND), [b"key-0"]),
        (keys(NEW_KEY), [b"new", b"key-0"]),
        # The one before goes when no session of it can live.
        (keys(SETTLE + LIFETIME - SECOND, 8 * DAY), [b"key-0", b"key-1"]),
        (keys(SETTLE + LIFETIME, 8 * DAY), [b"key-0"]),
    ],
)
def test_when_a_key_comes_and_goes(before: Keys, after: list[bytes]) -> None:
    assert names(rotated(before, NOW, LIFETIME, lambda: b"new")) == after


@pytest.mark.parametrize(
    ("found", "order"),
    [
        (keys(SECOND), [b"key-0"]),
        (keys(SETTLE - SECOND, DAY), [b"key-1", b"key-0"]),
        (keys(SETTLE, DAY), [b"key-0", b"key-1"]),
    ],
)
def test_a_new_key_encrypts_when_all_replicas_know_it(found: Keys, order: list[bytes]) -> None:
    assert found.in_order(NOW) == order


def test_the_secret_is_read_as_it_is_written_and_other_data_is_no_key() -> None:
    found = Keys(((NOW, Fernet.generate_key()), (NOW - DAY, Fernet.generate_key())))
    given = data(found)
    assert read({"data": given}) == found
    odd = {"key-20260303T000000Z": "bm8=", "other": "x", "key-2026": "", "key-20260302T000000Z": "%"}
    assert read({"data": {**given, **odd}}) == found
    assert read(None) == read({}) == Keys()
    assert str(found).count("object at") == 1  # no key in a log


@pytest.mark.looptime
async def test_replicas_agree_when_the_key_changes_and_no_session_is_lost() -> None:
    server = Server()
    replicas = [
        SessionKeys(Connection(server), KEY, lifetime=LIFETIME, clock=LoopClock())  # type: ignore[arg-type]
        for _ in range(3)
    ]
    with pytest.raises(PageError) as early:
        replicas[0].sealer()
    assert early.value.status == 503
    tasks = [asyncio.create_task(one.run()) for one in replicas]
    await asyncio.sleep(60)
    first = server.get(SECRET, KEY)["data"]
    for _ in range(8 * 3):  # a day more than a key lasts
        sealed = replicas[0].sealer().seal("session", {"a": 1})
        for _ in range(4):
            await asyncio.sleep(LIFETIME.total_seconds() / 4)
            assert all(one.sealer().open("session", sealed) == {"a": 1} for one in replicas)
    kept = server.get(SECRET, KEY)["data"]
    assert 1 <= len(kept) <= 2
    assert not first.keys() & kept.keys(), "the first key is gone"
    assert all(name.startswith("key-2") for name in kept)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_of_two_replicas_that_make_a_key_one_wins() -> None:
    server = Server()
    first, second = (
        SessionKeys(Connection(server), KEY, lifetime=LIFETIME, clock=LoopClock())  # type: ignore[arg-type]
        for _ in range(2)
    )
    await first.look()
    with pytest.raises(ConflictError):
        await second._store(None, Keys(), keys(SECOND), ())
    await second.look()
    sealed = first.sealer().seal("session", {})
    assert second.sealer().open("session", sealed) == {}


@pytest.mark.looptime
async def test_a_session_that_ends_on_one_replica_ends_on_all_and_is_forgotten_at_its_own_end() -> None:
    server, clock = Server(), LoopClock()
    replicas = [
        SessionKeys(Connection(server), KEY, lifetime=LIFETIME, clock=clock)  # type: ignore[arg-type]
        for _ in range(2)
    ]
    tasks = [asyncio.create_task(one.run()) for one in replicas]
    await asyncio.sleep(60)
    session = Session("t", "csrf", clock.now().timestamp() + LIFETIME.total_seconds(), "token")
    other = replace(session, csrf="other")
    await replicas[0].end(session)
    await asyncio.sleep(2)
    assert [one.ended(session) for one in replicas] == [True, True]
    assert [one.ended(other) for one in replicas] == [False, False]
    assert "csrf" not in str(server.get(SECRET, KEY)), "what is stored opens nothing"
    later = SessionKeys(Connection(server), KEY, lifetime=LIFETIME, clock=clock)  # type: ignore[arg-type]
    await later.look()
    assert later.ended(session), "a restart forgets none"
    await asyncio.sleep(LIFETIME.total_seconds() + 2 * LOOK.total_seconds())
    assert [name for name in server.get(SECRET, KEY)["data"] if not name.startswith("key-")] == []
    assert not replicas[0].ended(session)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@pytest.mark.looptime
async def test_without_the_right_to_watch_its_secret_it_is_read_less_and_less_often() -> None:
    """As after an update of the image alone: a log-out then ends a session elsewhere with the next read."""
    reads: list[Key] = []

    class Unwatched(Connection):
        async def get(self, resource: Resource, key: Key) -> Obj:
            reads.append(key)
            return await super().get(resource, key)

        async def watch(self, resource: Resource, **how: Any) -> AsyncIterator[WatchEvent]:
            raise ForbiddenError("secrets is forbidden", status=403)
            yield  # an iterator

    api: Any = Unwatched(Server())
    task = asyncio.create_task(SessionKeys(api, KEY, lifetime=LIFETIME, clock=LoopClock()).run())
    await asyncio.sleep(3600)
    assert len(reads) < 3600 / 5
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_ended_sessions_are_bounded() -> None:
    ended = {f"mark-{number}": float(number) for number in range(MOST_ENDED + 3)}
    assert outdated(ended, -1.0) == ["mark-0", "mark-1", "mark-2"]
    assert outdated({"past": 1.0, "lasting": 3.0}, 2.0) == ["past"]
    odd = {"ended-a": "%", "ended-b": "eA==", "ended-c": "MS41", "key-x": "MQ=="}
    assert ended_sessions({"data": odd}) == {"c": 1.5} and ended_sessions(None) == {}


def test_what_is_sealed_for_one_purpose_is_not_opened_for_another() -> None:
    sealer = Sealer([Fernet.generate_key()])
    sealed = sealer.seal("attempt", {"a": 1})
    assert sealer.open("session", sealed) is None
    assert sealer.open("attempt", sealed) == {"a": 1}
    assert Sealer([Fernet.generate_key()]).open("attempt", sealed) is None
    assert sealer.mark("a") != sealer.mark("b") != Sealer([Fernet.generate_key()]).mark("b")


def test_the_keys_are_read_often_enough_for_a_new_one() -> None:
    assert SETTLE >= 2 * LOOK
