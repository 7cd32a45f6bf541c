"""Limits on the memory that another cluster can use, and on the time that a name server can take."""

from __future__ import annotations

import asyncio
import gzip
import socket
import sys
import threading
from typing import Any

import orjson
import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from fournos.engine.kube.api import EventType, WatchEvent
from fournos.engine.kube.bounded_api import PAGE, Bounded, MemoryBudget, TooManyObjectsError
from fournos.engine.kube.dns import LoneResolver
from fournos.engine.kube.errors import (
    ConnectionLostError,
    ForbiddenError,
    GoneError,
    ServerError,
    TooLongError,
)
from fournos.engine.kube.resource import Resource
from fournos.engine.kube.store import Store
from fournos.engine.kube.weight import weight
from tests.unit.engine.kube.server import JOBS, ScriptedServer, event, ok, page, status, stream, text

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


async def test_packed_answers_are_not_unpacked() -> None:
    """A few KiB may be gigabytes."""
    bomb = gzip.compress(b"0" * 2**20)
    assert len(bomb) < 2 * KIB

    async def packed(_: web.Request) -> web.Response:
        headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
        return web.Response(body=bomb, headers=headers)

    async def refused(_: web.Request) -> web.Response:
        return web.Response(body=bomb, headers={"Content-Encoding": "gzip"}, status=500)

    async with ScriptedServer([packed]) as server, server.client(max_bytes=8 * KIB) as client:
        for ask in (client.server_version(), client.list(JOBS), client.raw_get("/readyz")):
            with pytest.raises(ConnectionLostError, match=r"compressed \(gzip\)"):
                await ask
        with pytest.raises(ConnectionLostError, match="compressed"):
            async for _ in client.watch(JOBS, resource_version="1"):
                pass
    async with ScriptedServer([refused]) as server, server.client(max_bytes=8 * KIB) as client:
        with pytest.raises(ServerError):
            await client.server_version()


@pytest.mark.parametrize("item", [b"{}", b"[]", b"0", b'{"a":{}}', b"[[],[],[]]", b'{"a":1}'])
async def test_what_is_short_and_becomes_large_is_not_parsed(item: bytes) -> None:
    body = b'{"metadata":{"resourceVersion":"1"},"items":[' + b",".join([item] * 60_000) + b"]}"

    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    line = b'{"type":"ADDED","object":' + body + b"}\n"
    limit = 64 * KIB * len(item)
    async with ScriptedServer([answer]) as server, server.client(max_bytes=limit) as client:
        with pytest.raises(TooLongError):
            await client.list(JOBS, page_size=1)
    async with ScriptedServer([stream(line)]) as server, server.client(max_bytes=limit) as client:
        with pytest.raises(TooLongError):
            async for _ in client.watch(JOBS, resource_version="1"):
                pass


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=50,
    )
)
def test_the_weight_covers_what_python_takes(value: Any) -> None:
    assert weight(orjson.dumps([value] * 3)) >= sum(map(size_of, orjson.loads(orjson.dumps([value] * 3))))


def size_of(value: Any) -> int:
    inner: list[Any] = []
    if isinstance(value, dict):
        inner = list(value.values())
    elif isinstance(value, list):
        inner = value
    keys = sum(sys.getsizeof(key) for key in value) if isinstance(value, dict) else 0
    return sys.getsizeof(value) + keys + sum(map(size_of, inner))


async def test_a_page_that_is_too_long_is_asked_for_again_with_fewer_objects() -> None:
    seen: list[int] = []

    async def answer(request: web.Request) -> web.Response:
        start, size = int(request.query.get("continue") or 0), int(request.query["limit"])
        seen.append(size)
        items = [{**thing(str(n), 1), "data": "x" * KIB} for n in range(start, min(start + size, 20))]
        token = str(start + size) if start + size < 20 else ""
        return web.json_response({"items": items, "metadata": {"resourceVersion": "7", "continue": token}})

    async with ScriptedServer([answer]) as server, server.client(max_bytes=8 * KIB) as client:
        found = await client.list(JOBS, page_size=100)
        assert [one["metadata"]["name"] for one in found.items] == [str(n) for n in range(20)]
    assert seen[:3] == [100, 25, 6] and set(seen[3:]) == {6}
    async with ScriptedServer([answer]) as server, server.client(max_bytes=KIB) as client:
        with pytest.raises(TooLongError):
            await client.list(JOBS, page_size=100)


@pytest.mark.parametrize(
    "body",
    [
        {"items": {"a": 1}, "metadata": {"resourceVersion": "1"}},
        {"items": ["x"], "metadata": {"resourceVersion": "1"}},
        {"items": [], "metadata": {"resourceVersion": "1", "continue": "again"}},
        {"items": [{}], "metadata": {"resourceVersion": "1", "continue": ["x"]}},
    ],
)
async def test_a_page_that_is_none_is_a_lost_connection(body: Any) -> None:
    async with ScriptedServer([ok(body)]) as server, server.client() as client:
        with pytest.raises(ConnectionLostError, match="not an API server's"):
            await client.list(JOBS)


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
    return {"metadata": {"name": name, "namespace": "a", "uid": name, "resourceVersion": str(version)}}


def odd(**metadata: Any) -> dict[str, Any]:
    return {"metadata": {**thing("x", 1)["metadata"], **metadata}}


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


ODD: list[Any] = [
    {},
    {"metadata": "x"},
    {"metadata": {"name": "x"}},
    odd(name=7),
    odd(name="x" * 1000),
    odd(uid=None),
    odd(resourceVersion={}),
    odd(namespace=[]),
    odd(deletionTimestamp=1),
    odd(labels={"a": {}}),
    odd(annotations=["a"]),
    odd(finalizers="x"),
    odd(ownerReferences=[{}]),
    odd(ownerReferences=["x"]),
    {**thing("x", 1), "spec": "x"},
    {**thing("x", 1), "status": ["x"]},
    {**thing("x", 1), "status": {"deep": nested(400)}},
]


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
        listing = await Bounded(client, store, limit=2, budget=MemoryBudget(KIB * KIB)).list(
            JOBS, keep=store.slim
        )
        assert len(listing.items) == 2
    more = [page("x", "y", version="5", token="t"), page("z", version="5")]
    async with ScriptedServer(more) as server, server.client() as client:
        with pytest.raises(TooManyObjectsError, match="more than 2 fournosjobs"):
            await Bounded(client, Store(), limit=2, budget=MemoryBudget(KIB * KIB)).list(JOBS)


async def test_a_full_store_takes_changes_and_no_more_objects() -> None:
    store = Store()
    store.replace([thing("x", 1), thing("y", 2)], "2")
    events: Any = Events(added("MODIFIED", "x", 3), added("ADDED", "y", 4), added("ADDED", "z", 5))
    seen = []
    with pytest.raises(GoneError, match="more than 2"):
        async for found in Bounded(events, store, limit=2, budget=MemoryBudget(KIB * KIB)).watch(JOBS):
            seen.append(found.object["metadata"]["name"])
    assert seen == ["x", "y"]
    assert events.closed


async def test_stores_of_one_cluster_share_their_memory() -> None:
    def large(name: str, size: int) -> dict[str, Any]:
        return {**thing(name, 1), "data": "x" * size}

    budget, other = MemoryBudget(64 * KIB), Resource("test.dev", "v1", "Other", "others")
    pages = [ok({"items": [large("x", size)], "metadata": {"resourceVersion": "1"}}) for size in (50_000, 9)]
    async with ScriptedServer([pages[0]]) as server, server.client() as client:
        await Bounded(client, Store(), limit=9, budget=budget).list(other)
        with pytest.raises(TooManyObjectsError, match="take more than 0 MiB"):
            await Bounded(client, Store(), limit=9, budget=budget).list(JOBS)
    async with ScriptedServer([pages[1]]) as server, server.client() as client:
        await Bounded(client, Store(), limit=9, budget=budget).list(JOBS)
        assert server.seen[0].query["limit"] == str(PAGE)
    events: Any = Events(
        added("DELETED", "x", 2),
        WatchEvent("ADDED", large("y", 5_000)),
        WatchEvent("MODIFIED", large("y", 6_000)),
        WatchEvent("MODIFIED", large("y", 60_000)),
    )
    seen = []
    with pytest.raises(GoneError, match="take more than"):
        async for found in Bounded(events, Store(), limit=9, budget=budget).watch(JOBS):
            seen.append(found.type)
    assert seen == ["DELETED", "ADDED", "MODIFIED"]


@pytest.mark.parametrize("odd", ODD)
async def test_what_is_no_object_is_a_lost_connection(odd: Any) -> None:
    budget = MemoryBudget(KIB * KIB)
    answer = ok({"items": [odd], "metadata": {"resourceVersion": "1"}})
    async with ScriptedServer([answer]) as server, server.client() as client:
        with pytest.raises(ConnectionLostError, match=r"not an API server's|nested too deeply"):
            await Bounded(client, Store(), limit=2, budget=budget).list(JOBS, keep=Store().slim)
    events: Any = Events(WatchEvent("ADDED", odd))
    with pytest.raises(ConnectionLostError):
        async for _ in Bounded(events, Store(), limit=2, budget=budget).watch(JOBS):
            pass


async def test_an_event_of_no_known_type_is_a_lost_connection() -> None:
    events: Any = Events(WatchEvent("EXPLODED", thing("x", 1)))  # type: ignore[arg-type]
    with pytest.raises(ConnectionLostError, match="no API server sends"):
        async for _ in Bounded(events, Store(), limit=2, budget=MemoryBudget(KIB)).watch(JOBS):
            pass
    events = Events(WatchEvent("BOOKMARK", thing("x", 1)), WatchEvent("BOOKMARK", {}))
    seen = []
    with pytest.raises(ConnectionLostError, match="no API server sends"):
        async for found in Bounded(events, Store(), limit=2, budget=MemoryBudget(KIB)).watch(JOBS):
            seen.append(found.type)
    assert seen == ["BOOKMARK"]


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


async def test_a_lookup_that_hangs_holds_one_thread_and_no_other_request(names: dict[str, Any]) -> None:
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
