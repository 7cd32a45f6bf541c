"""What a cluster that is not ours can make us hold, and what a dead name server can make us wait for."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest

from fournos.kube.api import EventType, WatchEvent
from fournos.kube.bounded import Bounded, TooManyObjectsError
from fournos.kube.errors import ConnectionLostError, ForbiddenError, GoneError
from fournos.kube.resolver import LoneResolver
from fournos.kube.store import Store
from tests.unit.kube.server import JOBS, ScriptedServer, event, ok, page, status, stream, text

KIB = 1024


# --- bytes -------------------------------------------------------------------------------------------


async def test_an_answer_that_is_too_long_is_given_up() -> None:
    async with ScriptedServer([ok({"gitVersion": "v1", "more": "x" * 20 * KIB})]) as server:
        async with server.client(max_bytes=40 * KIB) as client:
            assert await client.server_version() == "v1"
        async with server.client(max_bytes=10 * KIB) as client:
            with pytest.raises(ConnectionLostError, match="longer"):
                await client.server_version()


async def test_a_refusal_that_is_too_long_is_still_a_refusal() -> None:
    answer = status(401, message="x" * 20 * KIB)
    async with ScriptedServer([answer]) as server, server.client(max_bytes=KIB) as client:
        with pytest.raises(ForbiddenError, match="HTTP 401"):
            await client.server_version()


async def test_an_event_without_an_end_is_given_up() -> None:
    endless = stream(event("ADDED"), *[b"x" * 4 * KIB] * 10)
    async with ScriptedServer([endless]) as server, server.client(max_bytes=16 * KIB) as client:
        seen = []
        with pytest.raises(ConnectionLostError, match="longer"):
            async for found in client.watch(JOBS, resource_version="1"):
                seen.append(found.type)
        assert seen == ["BOOKMARK", "ADDED"]


async def test_many_short_events_are_not_one_long_one() -> None:
    many = stream(*[event("ADDED", "x" * KIB)] * 50)
    async with ScriptedServer([many]) as server, server.client(max_bytes=8 * KIB) as client:
        seen = [found.type async for found in client.watch(JOBS, resource_version="1")]
        assert seen.count("ADDED") == 50


async def test_a_closed_client_opens_nothing_again() -> None:
    async with ScriptedServer([text("ok")]) as server:
        client = server.client()
        await client.raw_get("/readyz")
        await client.close()
        with pytest.raises(ConnectionLostError, match="closed"):
            await client.raw_get("/readyz")


@pytest.mark.parametrize("answer", [ok({}), ok({"gitVersion": 3}), ok([]), text("<html>")])
async def test_what_is_no_version_is_not_taken_for_one(answer: Any) -> None:
    async with ScriptedServer([answer]) as server, server.client() as client:
        with pytest.raises(ConnectionLostError, match="not an API server's"):
            await client.server_version()


# --- objects -----------------------------------------------------------------------------------------


def thing(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "a", "resourceVersion": str(version)}}


class Events:
    def __init__(self, *events: WatchEvent) -> None:
        self._events = events
        self.closed = False

    async def watch(self, *_: Any, **__: Any) -> Any:
        try:
            for found in self._events:
                yield found
        finally:
            self.closed = True


def added(kind: EventType, name: str, version: int) -> WatchEvent:
    return WatchEvent(kind, thing(name, version))


async def test_a_list_is_given_up_at_the_first_object_too_many() -> None:
    async with ScriptedServer([page("x", "y", version="5")]) as server, server.client() as client:
        store = Store()
        listing = await Bounded(client, store, limit=2).list(JOBS, keep=store.slim)
        assert len(listing.items) == 2
    more = [page("x", "y", version="5", token="t"), page("z", version="5")]
    async with ScriptedServer(more) as server, server.client() as client:
        with pytest.raises(TooManyObjectsError, match="more than 2 fournosjobs"):
            await Bounded(client, Store(), limit=2).list(JOBS)


async def test_a_full_store_takes_changes_and_no_more_objects() -> None:
    store = Store()
    store.replace([thing("x", 1), thing("y", 2)], "2")
    events: Any = Events(added("MODIFIED", "x", 3), added("ADDED", "y", 4), added("ADDED", "z", 5))
    seen = []
    with pytest.raises(GoneError, match="more than 2"):
        async for found in Bounded(events, store, limit=2).watch(JOBS):
            seen.append(found.object["metadata"]["name"])
    assert seen == ["x", "y"]
    assert events.closed


# --- names -------------------------------------------------------------------------------------------


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What names resolve to: addresses, an error, or an event to wait for first."""
    table: dict[str, Any] = {"calls": []}

    def getaddrinfo(host: str, port: int, **_: Any) -> Any:
        table["calls"].append(host)
        answer = table[host]
        if isinstance(answer, threading.Event):
            answer.wait(10)
            answer = "10.0.0.9"
        if isinstance(answer, Exception):
            raise answer
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (answer, port))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return table


async def test_a_name_is_resolved_or_an_oserror(names: dict[str, Any]) -> None:
    names.update(good="10.0.0.1", bad=socket.gaierror(-2, "unknown"), odd=UnicodeError("label too long"))
    resolver = LoneResolver()
    [found] = await resolver.resolve("good", 6443)
    assert (found["host"], found["port"], found["hostname"]) == ("10.0.0.1", 6443, "good")
    for name in ("bad", "odd"):
        with pytest.raises(OSError):
            await resolver.resolve(name)


async def test_a_lookup_that_hangs_holds_one_thread_and_nobody_else(names: dict[str, Any]) -> None:
    names["hangs"] = release = threading.Event()
    names["good"] = "10.0.0.1"
    resolver = LoneResolver()
    for _ in range(5):  # five time-outs in a row
        asking = asyncio.create_task(resolver.resolve("hangs"))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    assert [thread.name for thread in threading.enumerate()].count("look up hangs") == 1
    assert (await LoneResolver().resolve("good"))[0]["host"] == "10.0.0.1"
    last = asyncio.create_task(resolver.resolve("hangs"))
    await asyncio.sleep(0)
    release.set()
    assert (await last)[0]["host"] == "10.0.0.9"
    assert names["calls"] == ["hangs", "good"]
