"""Faults between the client and the API server, over HTTP: resumed silently, or a typed error."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from fournos.client import AsyncClient, AsyncJob, MissingError, NotAllowedError, UnreachableError, WaitTimeout
from fournos.engine.kube.auth import FixedIdentity, Identity, Proof
from tests.unit.client.world import NS, SPEC
from tests.unit.engine.kube.server import ScriptedServer, ok, status

JOB: dict[str, Any] = {
    "apiVersion": "fournos.dev/v1",
    "kind": "FournosJob",
    "metadata": {"name": "one", "namespace": NS, "uid": "u", "resourceVersion": "1"},
    "spec": SPEC,
}
GONE = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old", "metadata": {}}


@dataclass
class World:
    """One job behind an API server that checks tokens; each watch does what `watches` says, in turn."""

    tokens: set[str] = field(default_factory=lambda: {"first"})
    job: dict[str, Any] = field(default_factory=lambda: dict(JOB))
    watches: list[Callable[[web.Request], Any]] = field(default_factory=list)
    watched: int = 0

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization", "").removeprefix("Bearer ") not in self.tokens:
            return await status(401, "Unauthorized", "the token has expired")(request)
        if request.query.get("watch"):
            self.watched += 1
            answer = self.watches.pop(0) if self.watches else self.endless
            return await answer(request)
        if request.path.endswith("/fournosjobs/one"):
            return await ok(self.job)(request)
        if request.path.endswith("/fournosjobs") and not request.query.get("labelSelector"):
            return await ok({"items": [self.job], "metadata": {"resourceVersion": "1"}})(request)
        return await ok({"items": [], "metadata": {"resourceVersion": "1"}})(request)

    def end(self) -> None:
        meta = {**JOB["metadata"], "resourceVersion": "9"}
        self.job = {**JOB, "metadata": meta, "status": {"phase": "Succeeded"}}

    async def endless(self, request: web.Request) -> web.StreamResponse:
        """A watch that shows the job as it is, and then nothing."""
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(json.dumps({"type": "MODIFIED", "object": self.job}).encode() + b"\n")
        await asyncio.sleep(30)
        return response

    def refused(self, code: int, **headers: str) -> Callable[[web.Request], Any]:
        """An answer without a watch; the job has ended when the next one begins."""

        async def answer(request: web.Request) -> web.StreamResponse:
            self.end()
            return await status(code, "X", "not now", headers=headers)(request)

        return answer

    def broken(self, *chunks: bytes, then: Callable[[], None] = lambda: None) -> Callable[[web.Request], Any]:
        """A watch that ends with its connection."""

        async def answer(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            for chunk in chunks:
                await response.write(chunk)
            then()
            self.end()
            assert request.transport is not None
            request.transport.abort()
            return response

        return answer


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
async def server(world: World, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ScriptedServer]:
    monkeypatch.setattr("fournos.engine.kube.transport.Backoff.next", lambda self: 0.0)
    async with ScriptedServer([world]) as found:
        yield found


async def waited(server: ScriptedServer, identity: Identity | None = None) -> AsyncJob:
    """A job whose end was waited for, with only reads."""
    async with server.client(identity or FixedIdentity(Proof("first"))) as api:
        job = await AsyncClient(api=api, namespace=NS).job("one")
        async with asyncio.timeout(60):
            await job.wait()
    assert {seen.method for seen in server.seen} == {"GET"}
    return job


@pytest.mark.parametrize("fault", ["cut", "half a line", "410 in the stream", "410", "429", "503"])
async def test_a_watch_that_breaks_is_resumed(world: World, server: ScriptedServer, fault: str) -> None:
    world.watches = {
        "cut": [world.broken()],
        "half a line": [world.broken(b'{"type": "MODIF')],
        "410 in the stream": [world.broken(json.dumps({"type": "ERROR", "object": GONE}).encode() + b"\n")],
        "410": [world.refused(410)],
        "429": [world.refused(429, **{"Retry-After": "0"})],
        "503": [world.refused(503)],
    }[fault]
    assert (await waited(server)).succeeded
    assert world.watched == 2


async def test_a_token_that_cannot_be_renewed_is_a_typed_error(world: World, server: ScriptedServer) -> None:
    def expire() -> None:
        world.tokens = set()

    world.watches = [world.broken(then=expire)]
    with pytest.raises(NotAllowedError, match="the token has expired") as refusal:
        await waited(server)
    assert refusal.value.fix


async def test_no_right_to_watch_is_a_typed_error(world: World, server: ScriptedServer) -> None:
    world.watches = [status(403, "Forbidden", "may not watch fournosjobs")] * 2
    with pytest.raises(NotAllowedError, match="may not watch"):
        await waited(server)


async def test_a_busy_server_refuses_a_submission_once() -> None:
    """Without a key it is not repeated, whatever the answer; the error is typed."""
    busy = [status(429, "TooManyRequests", "slow down")]
    async with ScriptedServer(busy) as server, server.client(FixedIdentity(Proof("first"))) as api:
        with pytest.raises(UnreachableError, match="slow down"):
            await AsyncClient(api=api, namespace=NS).submit(SPEC)
    assert [seen.method for seen in server.seen] == ["POST"]


async def test_a_server_that_is_away_leaves_a_timeout_and_the_handle(
    world: World, server: ScriptedServer
) -> None:
    world.watches = [status(503, "X", "starting")] * 100
    async with server.client(FixedIdentity(Proof("first"))) as api:
        job = await AsyncClient(api=api, namespace=NS).job("one")
        with pytest.raises(WaitTimeout, match="one has not ended within"):
            await job.wait(timeout=0.2)
        world.watches = []
        world.end()
        await job.wait(timeout=10)
    assert job.succeeded


async def test_another_job_of_the_name_after_a_restart(world: World, server: ScriptedServer) -> None:
    """The job was deleted and created again while no watch was open: the list shows another UID."""

    def again() -> None:
        world.end = lambda: None  # type: ignore[method-assign]
        world.job = {**JOB, "metadata": {**JOB["metadata"], "uid": "v", "resourceVersion": "8"}}

    world.watches = [world.broken(json.dumps({"type": "ERROR", "object": GONE}).encode() + b"\n", then=again)]
    with pytest.raises(MissingError, match=r"job one \(u\) was deleted"):
        await waited(server)
