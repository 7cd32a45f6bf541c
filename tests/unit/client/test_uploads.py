"""Uploads to the history: what fails for now is sent again, whole."""

from __future__ import annotations

import io
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from fournos.client import AsyncClient, RefusedError, UnreachableError
from fournos.client import history_requests as uploads
from fournos.engine.kube.auth import Identity, TokenFile
from tests.unit.client.world import NS
from tests.unit.engine.kube.server import Answer, ScriptedServer, Seen, ok, status

Push = Callable[[AsyncClient], Awaitable[object]]
FILE = b"a plot"


async def _artifact(client: AsyncClient) -> object:
    return await client.history.push_artifact(io.BufferedReader(io.BytesIO(FILE)), "plot.png")


async def _results(client: AsyncClient) -> object:
    return await client.history.push_results(FILE, filename="results.yaml")


PUSHES = pytest.mark.parametrize(
    ("push", "answer"),
    [
        (
            _artifact,
            {"path": "plot.png", "size": len(FILE), "sha256": "0" * 64, "storedAt": "2026-01-01T00:00:00Z"},
        ),
        (_results, {"added": 1}),
    ],
)


async def pushed(push: Push, *answers: Answer, identity: Identity | None = None) -> list[Seen]:
    """Returns the requests."""
    async with ScriptedServer([*answers]) as server, server.client(identity) as api:
        await push(AsyncClient(api=api, namespace=NS))
        return server.seen


@PUSHES
async def test_a_file_that_cannot_be_stored_for_now_is_sent_again_from_its_beginning(
    push: Push, answer: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "_PAUSE", 0.0)
    unavailable, busy = status(503, "ServiceUnavailable"), status(429, "TooManyRequests", retry_after=0)
    seen = await pushed(push, unavailable, busy, ok(answer))
    assert [one.body for one in seen] == [FILE] * 3
    assert len({(one.method, one.path, one.headers.get("X-Content-SHA256")) for one in seen}) == 1


@PUSHES
async def test_a_token_that_has_expired_meanwhile(
    push: Push, answer: dict[str, object], tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("first")

    async def expired(request: web.Request) -> web.StreamResponse:
        file.write_text("second")
        return await status(401, "Unauthorized")(request)

    seen = await pushed(push, expired, ok(answer), identity=TokenFile(file))
    assert [one.body for one in seen] == [FILE] * 2


@PUSHES
async def test_a_file_that_is_refused_is_not_sent_again(push: Push, answer: dict[str, object]) -> None:
    with pytest.raises(RefusedError):
        await pushed(push, status(422, "Invalid"), ok(answer))


@PUSHES
async def test_the_patience_ends(
    push: Push, answer: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "_PATIENCE_IN_TASK", 0.0)
    with pytest.raises(UnreachableError):
        await pushed(push, status(503, "ServiceUnavailable"), ok(answer))
