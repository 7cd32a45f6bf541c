"""The client against a scripted API server: lists, watches, writes, logs, and the log of requests."""

from __future__ import annotations

import asyncio
import gzip
import logging
import socket
import threading
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
    ForbiddenError,
    GoneError,
    InvalidError,
    NotFoundError,
    NotLeaderError,
    ServerError,
    TooLongError,
)
from fournos.engine.kube.fleet import LoneResolver
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


# --- limits -----------------------------------------------------------------------------------------
# Limits on the memory that another cluster can use, and on the time that a name server can take.

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


LISTED = {"resourceVersion": "1"}


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        *(
            (Client.server_version, found)
            for found in (ok({}), ok({"gitVersion": 3}), ok([]), text("<html>"))
        ),
        *((lambda client: client.get(JOBS, X), text(body)) for body in ("<html>log in</html>", "[]", "")),
        (lambda client: client.list(JOBS), ok({"items": {"a": 1}, "metadata": LISTED})),
        (lambda client: client.list(JOBS), ok({"items": ["x"], "metadata": LISTED})),
        (lambda client: client.list(JOBS), ok({"items": [], "metadata": {**LISTED, "continue": "again"}})),
        (lambda client: client.list(JOBS), ok({"items": [{}], "metadata": {**LISTED, "continue": ["x"]}})),
    ],
)
async def test_what_no_api_server_answers_is_a_lost_connection(ask: Any, answer: Any) -> None:
    """As the page of a login, or a page of a list that never ends."""
    async with ScriptedServer([answer]) as server, server.client() as client:
        with pytest.raises(ConnectionLostError, match="not an API server's"):
            await ask(client)


async def test_a_closed_client_opens_nothing_again() -> None:
    async with ScriptedServer([text("ok")]) as server:
        client = server.client()
        await client.raw_get("/readyz")
        await client.close()
        with pytest.raises(ConnectionLostError, match="closed"):
            await client.raw_get("/readyz")


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


# --- faults -----------------------------------------------------------------------------------------
# The client against a scripted API server that fails, refuses its token, or does not answer.


async def test_429_holds_back_the_next_request_for_as_long_as_asked() -> None:
    answers = [status(429, "TooManyRequests", headers={"Retry-After": "0.2"}), ok(OBJ)]
    async with ScriptedServer(answers) as server, server.client() as client:
        with pytest.raises(ServerError) as caught:
            await client.get(JOBS, X)
        assert caught.value.retry_after == 0.2
        started = asyncio.get_running_loop().time()
        await client.get(JOBS, X)
        assert asyncio.get_running_loop().time() - started >= 0.15


async def test_no_answer_in_time_is_a_lost_connection() -> None:
    async def never(_: web.Request) -> web.StreamResponse:
        await asyncio.Event().wait()
        raise AssertionError

    async with ScriptedServer([never]) as server, server.client(timeout=0.05) as client:
        with pytest.raises(ConnectionLostError, match="no answer in time"):
            await client.get(JOBS, X)
        with pytest.raises(ConnectionLostError, match="no answer in time"):
            await anext(client.watch(JOBS, resource_version="1"))


async def test_an_answer_that_is_cut_is_a_lost_connection() -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"{")
        assert request.transport is not None
        request.transport.abort()
        return response

    async with ScriptedServer([cut]) as server, server.client() as client:
        with pytest.raises(ConnectionLostError):
            await client.patch(JOBS, X, {})


async def test_redirects_are_not_followed() -> None:
    async def away(_: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": "http://elsewhere.invalid/"})

    async with ScriptedServer([away]) as server, server.client() as client:
        with pytest.raises(Exception, match="302"):
            await client.get(JOBS, X)
    assert len(server.seen) == 1


# --- identity ----------------------------------------------------------------------------------------


class Renewing:
    """Has a new token each time the old one is reported as refused."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)

    async def proof(self) -> Proof:
        return Proof(self.tokens[0])

    def invalidate(self) -> None:
        if len(self.tokens) > 1:
            self.tokens.pop(0)


async def test_401_is_tried_once_more_with_a_new_token() -> None:
    answers = [status(401, "Unauthorized"), ok(OBJ)]
    async with ScriptedServer(answers) as server, server.client(Renewing("old", "new")) as client:
        await client.create(JOBS, OBJ)
    assert [seen.headers["Authorization"] for seen in server.seen] == ["Bearer old", "Bearer new"]
    assert server.seen[1].json == OBJ


async def test_401_without_a_new_token_is_final() -> None:
    answers = [status(401, "Unauthorized")]
    async with ScriptedServer(answers) as server, server.client(Renewing("old")) as client:
        with pytest.raises(ForbiddenError):
            await client.get(JOBS, X)
    assert len(server.seen) == 1
