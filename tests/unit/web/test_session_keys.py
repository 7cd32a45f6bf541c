"""The keys of sessions: one Secret, a new key each week, no session lost by it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.fernet import Fernet

from fournos.kube.errors import ConflictError
from fournos.kube.kinds import SECRET
from fournos.kube.resource import Key
from fournos.web.errors import PageError
from fournos.web.identity.session_keys import LOOK, NEW_KEY, SETTLE, Keys, SessionKeys, data, read, rotated
from fournos.web.identity.sessions import Sealer
from tests.unit.runtime.loop import LoopClock
from tests.world.server import Connection, Server

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
async def test_replicas_agree_over_weeks_and_no_session_is_lost() -> None:
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
    for _ in range(15 * 3):
        sealed = replicas[0].sealer().seal("session", {"a": 1})
        for _ in range(4):
            await asyncio.sleep(LIFETIME.total_seconds() / 4)
            assert all(one.sealer().open("session", sealed) == {"a": 1} for one in replicas)
    kept = server.get(SECRET, KEY)["data"]
    assert 1 <= len(kept) <= 2
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
        await second._store(None, Keys(), keys(SECOND))
    await second.look()
    sealed = first.sealer().seal("session", {})
    assert second.sealer().open("session", sealed) == {}


def test_what_is_sealed_for_one_purpose_is_not_opened_for_another() -> None:
    sealer = Sealer([Fernet.generate_key()])
    sealed = sealer.seal("attempt", {"a": 1})
    assert sealer.open("session", sealed) is None
    assert sealer.open("attempt", sealed) == {"a": 1}
    assert Sealer([Fernet.generate_key()]).open("attempt", sealed) is None
    assert sealer.mark("a") != sealer.mark("b") != Sealer([Fernet.generate_key()]).mark("b")


def test_the_keys_are_read_often_enough_for_a_new_one() -> None:
    assert SETTLE >= 2 * LOOK
