"""The client against a scripted API server: lists, watches, writes, logs, and the log of requests."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any

import pytest
from aiohttp import web

from fournos.engine.kube.auth import FixedIdentity, Proof
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import Credentials
from fournos.engine.kube.errors import (
    ConflictError,
    ConnectionLostError,
    GoneError,
    InvalidError,
    NotFoundError,
    NotLeaderError,
)
from fournos.engine.kube.resource import Key, Resource
from fournos.engine.kube.transport import Connector
from tests.unit.engine.kube.server import (
    JOBS,
    OBJ,
    PATH,
    ScriptedServer,
    X,
    event,
    ok,
    page,
    status,
    stream,
    text,
)

# --- lists -------------------------------------------------------------------------------------------


async def test_list_collects_all_pages_and_asks_for_500_a_page() -> None:
    pages = [page("a", version="7", token="t"), page("b", version="7")]
    async with ScriptedServer(pages) as server, server.client() as client:
        listing = await client.list(JOBS, namespace="a", selector="x=y")
    assert [item["metadata"]["name"] for item in listing.items] == ["a", "b"]
    assert listing.resource_version == "7"
    assert listing.items[0]["kind"] == "FournosJob"
    assert listing.items[0]["apiVersion"] == "fournos.dev/v1"
    assert server.seen[0].path == "/apis/fournos.dev/v1/namespaces/a/fournosjobs"
    assert server.seen[0].query == {"limit": "500", "labelSelector": "x=y"}
    assert server.seen[1].query["continue"] == "t"


async def test_list_keeps_the_projection() -> None:
    async with ScriptedServer([page("a", "b", version="7")]) as server, server.client() as client:
        listing = await client.list(JOBS, keep=lambda obj: {"metadata": {"name": obj["metadata"]["name"]}})
    assert listing.items == [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]


async def test_an_expired_continue_token_starts_over_in_one_piece() -> None:
    answers = [page("a", version="7", token="t"), status(410, "Expired"), page("a", "b", version="9")]
    async with ScriptedServer(answers) as server, server.client() as client:
        listing = await client.list(JOBS, selector="x=y")
    assert [item["metadata"]["name"] for item in listing.items] == ["a", "b"]
    assert listing.resource_version == "9"
    assert server.seen[2].query == {"labelSelector": "x=y"}


async def test_410_on_the_first_page_is_an_error() -> None:
    async with ScriptedServer([status(410, "Expired")]) as server, server.client() as client:
        with pytest.raises(GoneError):
            await client.list(JOBS)
    assert len(server.seen) == 1


# --- watches -----------------------------------------------------------------------------------------


async def test_watch_yields_events_however_the_bytes_are_cut() -> None:
    raw = event("ADDED", "x", "8") + event("MODIFIED", "x", "9")
    async with ScriptedServer([stream(raw[:10], raw[10:70], raw[70:])]) as server, server.client() as client:
        events = [event async for event in client.watch(JOBS, resource_version="7")]
    assert [(event.type, event.object["metadata"]["resourceVersion"]) for event in events] == [
        ("BOOKMARK", "7"),
        ("ADDED", "8"),
        ("MODIFIED", "9"),
    ]
    query = server.seen[0].query
    assert query["allowWatchBookmarks"] == "true"
    assert query["resourceVersion"] == "7"
    assert 300 <= int(query["timeoutSeconds"]) <= 600


async def test_a_line_may_be_longer_than_any_buffer() -> None:
    big = event("ADDED", "x" * 3_000_000, "8")
    pieces = [big[start : start + 100_000] for start in range(0, len(big), 100_000)]
    async with ScriptedServer([stream(*pieces)]) as server, server.client() as client:
        events = [event async for event in client.watch(JOBS, resource_version="7")]
    assert len(events[1].object["metadata"]["name"]) == 3_000_000


async def test_a_missing_server_is_reported_without_inner_details() -> None:
    async with ScriptedServer([]) as server:
        port = server.url.rpartition(":")[2]
    async with server.client() as client:
        with pytest.raises(ConnectionLostError) as caught:
            await client.get(JOBS, X)
    assert caught.value.message.endswith(f"cannot connect to 127.0.0.1:{port}: Connection refused")


async def test_a_cut_watch_is_a_lost_connection() -> None:
    answers = [stream(event("ADDED"), b'{"type":"MODI', cut=True)]
    seen = []
    async with ScriptedServer(answers) as server, server.client() as client:
        with pytest.raises(ConnectionLostError):
            async for item in client.watch(JOBS, resource_version="7"):
                seen.append(item.type)
    assert seen == ["BOOKMARK", "ADDED"]


@pytest.mark.parametrize("garbage", [b"not json\n", b"{}\n", b"[1]\n", b'{"type":"MODI'])
async def test_garbage_in_a_watch_is_a_lost_connection(garbage: bytes) -> None:
    async with ScriptedServer([stream(garbage)]) as server, server.client() as client:
        with pytest.raises(ConnectionLostError, match="garbled"):
            async for _ in client.watch(JOBS, resource_version="7"):
                pass


async def test_a_refused_watch_has_a_reason() -> None:
    async with ScriptedServer([status(410, "Expired")]) as server, server.client() as client:
        with pytest.raises(GoneError):
            await anext(client.watch(JOBS, resource_version="7"))


# --- writes ------------------------------------------------------------------------------------------


async def test_what_writes_send() -> None:
    async with ScriptedServer([ok(OBJ)]) as server, server.client() as client:
        await client.create(JOBS, OBJ)
        await client.patch(JOBS, X, {"status": {"phase": "A"}}, subresource="status")
        await client.delete(JOBS, X, uid="u1", grace_seconds=0)
    sent = [(seen.method, seen.path, seen.headers["Content-Type"]) for seen in server.seen]
    assert sent == [
        ("POST", "/apis/fournos.dev/v1/namespaces/ns/fournosjobs", "application/json"),
        ("PATCH", PATH + "/status", "application/merge-patch+json"),
        ("DELETE", PATH, "application/json"),
    ]
    options = server.seen[2].json
    assert options["preconditions"] == {"uid": "u1"}
    assert options["propagationPolicy"] == "Background"
    assert options["gracePeriodSeconds"] == 0


async def test_what_is_nested_too_deep_to_be_written_is_refused_as_content() -> None:
    """Another try would not help, so it is not a transient error."""
    nested: Any = 1
    for _ in range(300):
        nested = {"a": nested}
    async with ScriptedServer([ok(OBJ)]) as server, server.client() as client:
        with pytest.raises(InvalidError, match="nested too deeply"):
            await client.patch(JOBS, X, {"spec": nested})
    assert server.seen == []


async def test_cluster_scoped_objects_have_no_namespace_in_their_path() -> None:
    nodes = Resource("", "v1", "Node", "nodes", namespaced=False)
    async with ScriptedServer([ok({"metadata": {"name": "n"}})]) as server, server.client() as client:
        await client.create(nodes, {"metadata": {"name": "n"}})
        await client.get(nodes, Key("", "n"))
    assert [seen.path for seen in server.seen] == ["/api/v1/nodes", "/api/v1/nodes/n"]


async def test_the_guard_stops_writes_before_they_are_sent_and_no_reads() -> None:
    def guard() -> None:
        raise NotLeaderError("lease lost")

    async with ScriptedServer([ok(OBJ)]) as server, server.client(guard=guard) as client:
        await client.get(JOBS, X)
        writes: list[Any] = [
            client.create(JOBS, OBJ),
            client.patch(JOBS, X, {}),
            client.delete(JOBS, X),
        ]
        for write in writes:
            with pytest.raises(NotLeaderError):
                await write
    assert [seen.method for seen in server.seen] == ["GET"]


async def test_the_guard_is_asked_after_the_wait_for_a_token() -> None:
    """A write that waited for its turn must not leave on the strength of a lease that ran out meanwhile."""
    leading = True

    def guard() -> None:
        if not leading:
            raise NotLeaderError("lease lost")

    async with ScriptedServer([ok(OBJ)]) as server, server.client(guard=guard, qps=20, burst=1) as client:
        await client.get(JOBS, X)
        write = asyncio.create_task(client.create(JOBS, OBJ))
        await asyncio.sleep(0)
        leading = False
        with pytest.raises(NotLeaderError):
            await write


async def test_the_guard_is_asked_again_before_a_write_is_sent_a_second_time() -> None:
    """aiohttp repeats a DELETE whose kept connection was closed; by then the lease may be another's."""
    requested = 0

    def guard() -> None:
        nonlocal requested
        requested += 1
        if server.seen and server.seen[-1].method == "DELETE":
            raise NotLeaderError("lease lost")

    async def drop(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with ScriptedServer([ok(OBJ), drop, ok(OBJ)]) as server, server.client(guard=guard) as client:
        await client.get(JOBS, X)
        with pytest.raises(NotLeaderError):
            await client.delete(JOBS, X)
    assert [seen.method for seen in server.seen] == ["GET", "DELETE"]
    assert requested == 3


async def test_a_write_refused_on_its_connection_leaves_the_connection_to_the_next_request() -> None:
    """The lease ends while the write waits for its connection: nothing is sent, and nothing is leaked."""
    asked = 0

    def guard() -> None:
        nonlocal asked
        asked += 1
        if asked == 2:
            raise NotLeaderError("lease lost")

    async with ScriptedServer([ok(OBJ)]) as server, server.client(guard=guard) as client:
        with pytest.raises(NotLeaderError):
            await client.create(JOBS, OBJ)
        connector = client._transport._connections.session().connector
        assert isinstance(connector, Connector)
        assert not connector._acquired
        await client.create(JOBS, OBJ)
    assert [seen.method for seen in server.seen] == ["POST"]
    assert asked == 4


# --- logs, raw, observation --------------------------------------------------------------------------


async def test_logs_come_by_line() -> None:
    answers = [text("one\ntwo\n"), stream(b"thr", b"ee\nfo", b"ur")]
    async with ScriptedServer(answers) as server, server.client() as client:
        tail = [line async for line in await client.logs(X, container="c", tail=2, limit_bytes=9)]
        followed = [line async for line in await client.logs(X, follow=True)]
    assert (tail, followed) == (["one", "two"], ["three", "four"])
    assert server.seen[0].path == "/api/v1/namespaces/ns/pods/x/log"
    assert server.seen[0].query == {"container": "c", "tailLines": "2", "limitBytes": "9"}
    assert server.seen[1].query == {"follow": "true"}


async def test_logs_of_a_missing_pod_fail_at_once() -> None:
    async with ScriptedServer([status(404, "NotFound", name="x")]) as server, server.client() as client:
        for follow in (False, True):
            with pytest.raises(NotFoundError):
                await client.logs(X, follow=follow)


async def test_version_and_raw_paths() -> None:
    answers = [ok({"gitVersion": "v1.34.4"}), text("ok")]
    async with ScriptedServer(answers) as server, server.client() as client:
        assert await client.server_version() == "v1.34.4"
        assert await client.raw_get("/readyz") == b"ok"
    assert [seen.path for seen in server.seen] == ["/version", "/readyz"]
    assert server.seen[0].headers["User-Agent"].startswith("fournos/")


async def test_the_observer_gets_every_request_and_those_without_answer() -> None:
    received: list[tuple[str, str, int]] = []

    def observer(verb: str, resource: str, code: int, seconds: float) -> None:
        assert seconds >= 0
        received.append((verb, resource, code))

    answers = [ok(OBJ), status(409, "Conflict"), stream()]
    async with ScriptedServer(answers) as server, server.client(observer=observer) as client:
        await client.get(JOBS, X)
        with pytest.raises(ConflictError):
            await client.patch(JOBS, X, {})
        async for _ in client.watch(JOBS, resource_version="1"):
            pass
    unreachable = Credentials("http://127.0.0.1:1", FixedIdentity(Proof()))
    async with Client(unreachable, observer=observer) as client:
        with suppress(ConnectionLostError):
            await client.raw_get("/readyz")
    jobs = "fournosjobs.fournos.dev"
    assert received == [("get", jobs, 200), ("patch", jobs, 409), ("watch", jobs, 200), ("get", "", 0)]


async def test_no_body_and_no_token_reaches_the_log(caplog: pytest.LogCaptureFixture) -> None:
    secret = {"metadata": {"name": "x", "namespace": "ns"}, "data": {"password": "aHVudGVyMg=="}}
    identity = FixedIdentity(Proof("t0ken"))
    caplog.set_level(logging.DEBUG)
    async with ScriptedServer([ok(secret)]) as server, server.client(identity) as client:
        await client.create(Resource("", "v1", "Secret", "secrets"), secret)
    assert "POST /api/v1/namespaces/ns/secrets" in caplog.text
    assert "aHVudGVyMg" not in caplog.text
    assert "t0ken" not in caplog.text
