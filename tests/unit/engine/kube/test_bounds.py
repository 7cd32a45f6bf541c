"""Limits on the memory that another cluster can use, and on the time that a name server can take."""

from __future__ import annotations

import asyncio
import gzip
import socket
import threading
from typing import Any

import pytest
from aiohttp import web

from fournos.engine.kube.errors import (
    ConnectionLostError,
    ForbiddenError,
    ServerError,
    TooLongError,
)
from fournos.engine.kube.fleet import LoneResolver
from tests.unit.engine.kube.server import JOBS, ScriptedServer, event, ok, status, stream, text

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


def thing(name: str, version: int) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "a", "uid": name, "resourceVersion": str(version)}}


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
