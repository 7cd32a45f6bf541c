"""The client's view of the history, on the served API itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from fournos.client import AsyncClient
from fournos.client import connection as retries
from fournos.client.errors import (
    HistoryUnavailableError,
    MissingError,
    NoHistoryError,
    NotAllowedError,
    UnreachableError,
)
from fournos.client.history import AsyncHistory
from fournos.engine.kube.auth import FixedIdentity, Proof
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import Credentials
from fournos.engine.kube.errors import TimedOutError
from fournos.history.records import Document
from tests.unit.engine.kube.server import Answer, ScriptedServer, ok, status, text
from tests.unit.history.api.service import Stage, run, stage


@asynccontextmanager
async def history(here: Stage, token: str = "t-ann") -> AsyncIterator[AsyncHistory]:
    url = str(here.client.make_url("")).rstrip("/")
    async with Client(Credentials(url, FixedIdentity(Proof(token=token)))) as api:
        yield AsyncHistory(api, "perf")


async def test_runs_come_page_by_page_with_their_types() -> None:
    async with stage() as here, history(here) as found:
        here.reviews.may("ann", "list")
        here.store.runs = [run(f"job-{n}", number=n) for n in range(1, 4)]
        names = [
            one.name
            async for one in found.runs(
                phase=["Failed", "Stopped"],
                owner="a&b=c",
                labels={"team": "x"},
                text="job",
                since=datetime(2026, 1, 1, tzinfo=UTC),
                limit=2,
            )
        ]
        assert names == ["job-3", "job-2"]
        (query,) = here.store.queries
        assert (query.filters.phase, query.filters.owner, query.filters.label) == (
            ("Failed", "Stopped"),
            ("a&b=c",),
            ("team=x",),
        )
        assert query.filters.since == datetime(2026, 1, 1, tzinfo=UTC)


async def test_one_run_its_documents_and_marks() -> None:
    async with stage() as here, history(here) as found:
        here.reviews.may("ann", "get", "delete")
        here.reviews.may("ann", "get", resource="runs/documents")
        here.reviews.may("ann", "update", "delete", resource="runs/keep")
        here.store.runs = [run("job a/b")]
        uid = here.store.runs[0].identity.uid
        here.store.documents[uid, Document.OBJECT] = {"spec": {}}
        detail = await found.run("job a/b")
        assert detail.run == here.store.runs[0]
        assert await found.document(detail.run, Document.OBJECT) == {"spec": {}}
        await found.keep(detail.run, reason="base")
        assert here.store.kept == {uid: ("ann", "base")}
        await found.release(detail.run)
        assert not here.store.kept
        await found.delete(detail.run)
        with pytest.raises(MissingError, match="not found"):
            await found.run("job a/b")


async def test_the_client_has_it() -> None:
    async with stage() as here:
        here.reviews.may("ann", "list")
        here.store.runs = [run("a")]
        url = str(here.client.make_url("")).rstrip("/")
        credentials = Credentials(url, FixedIdentity(Proof(token="t-ann")))
        async with AsyncClient(credentials=credentials, namespace="perf") as client:
            assert [one.name async for one in client.history.runs()] == ["a"]


async def test_no_right_is_an_error_of_its_own() -> None:
    async with stage() as here, history(here) as found:
        with pytest.raises(NotAllowedError, match="cannot get resource"):
            await found.run("a")


async def test_a_cluster_without_a_history_says_so() -> None:
    from aiohttp import web

    async def nothing(_: web.Request) -> web.Response:
        return web.Response(status=404, text="404 page not found\n")

    async with ScriptedServer([nothing]) as server, server.client() as api:
        with pytest.raises(NoHistoryError, match="no history") as error:
            await AsyncHistory(api, "perf").run("a")
        assert "deploy/history" in error.value.fix


async def test_a_run_that_is_missing_is_no_missing_history() -> None:
    async with stage() as here, history(here) as found:
        here.reviews.may("ann", "get")
        with pytest.raises(MissingError, match="gone"):
            await found.run("gone")
    unnamed = status(404, "NotFound", "no such run")
    async with ScriptedServer([unnamed]) as server, server.client() as api:
        with pytest.raises(MissingError, match="no such run"):
            await AsyncHistory(api, "perf").results("a")


@pytest.mark.parametrize("kind", ["fournosjob.fournos.dev", "fournosjob", "minicluster.flux-framework.org"])
async def test_a_name_may_have_its_kind_before_it(kind: str) -> None:
    """As `list -o name` prints it."""
    async with stage() as here, history(here) as found:
        here.reviews.may("ann", "get")
        here.store.runs = [run("job-1")]
        assert (await found.run(f"{kind}/job-1")).run.name == "job-1"
        assert [one.name for one in await found.select(f"{kind}/job-1")] == ["job-1"]


@pytest.mark.parametrize(
    "answer",
    [
        status(500, "InternalError", "the history has failed"),
        status(504, "Timeout", "the server could not return a response in the time"),
        text("bad gateway", 502),
    ],
)
async def test_a_history_that_fails_is_not_an_api_server_that_does(answer: Any) -> None:
    async with ScriptedServer([answer]) as server, server.client() as api:
        with pytest.raises(UnreachableError) as error:
            await AsyncHistory(api, "perf", patience=0).run("a")
    assert isinstance(error.value.cause, HistoryUnavailableError)
    assert "fournos doctor" in error.value.fix


async def test_a_history_that_hangs_is_not_an_api_server_that_does() -> None:
    class Hanging:
        async def raw(self, *_: object, **__: object) -> bytes:
            raise TimedOutError("GET runs/a: no answer in time")

    with pytest.raises(UnreachableError, match="the API of the history does not answer") as error:
        await AsyncHistory(Hanging(), "perf", patience=0).run("a")  # type: ignore[arg-type]
    assert isinstance(error.value.cause, HistoryUnavailableError)


OPENING = status(503, "ServiceUnavailable", "its store is opening", headers={"Retry-After": "1"})
FORWARDED = text("service unavailable", 503)
"""Of the API server, where the history's pod does not answer."""


BUSY = status(429, "TooManyRequests", "too much is being sent for this run now")
FULL = status(507, "InsufficientStorage", "its volume has 3 MB free", headers={"Retry-After": "60"})


class Soon:
    """A backoff whose pauses end at once, unless the history asks for longer ones."""

    def __init__(self, base: float) -> None: ...

    def next(self) -> float:
        return 0.0


async def baselines(*answers: Answer, patience: float) -> int:
    """Reads the baselines; returns the number of requests.  Raises what the client raises."""
    async with ScriptedServer([*answers]) as server, server.client() as api:
        try:
            assert await AsyncClient(api=api, namespace="perf", patience=patience).history.baselines() == []
        except UnreachableError as error:
            error.add_note(f"{len(server.seen)} requests")
            raise
        return len(server.seen)


async def test_a_read_is_repeated_while_the_store_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "Backoff", Soon)
    assert await baselines(OPENING, OPENING, ok([]), patience=15) == 3


@pytest.mark.parametrize(
    ("answer", "patience", "message", "fix"),
    [
        (OPENING, 0.5, "its store is opening", "fournos doctor"),
        (FORWARDED, 15, "the API of the history does not answer: service unavailable", "fournos doctor"),
        (status(500, "InternalError"), 15, "no", "fournos doctor"),
        (BUSY, 0.5, "too much is being sent for this run now", "what has arrived is not stored twice"),
        (FULL, 15, "its volume has 3 MB free", "then send it again"),
    ],
    ids=["until the patience ends", "not without Retry-After", "no other error", "busy", "full"],
)
async def test_what_is_not_repeated(answer: Answer, patience: float, message: str, fix: str) -> None:
    with pytest.raises(UnreachableError, match=message) as error:
        await baselines(answer, patience=patience)
    assert error.value.__notes__ == ["1 requests"]
    assert error.value.message == message
    assert error.value.fix.endswith(fix)


async def test_nothing_but_a_read_is_repeated() -> None:
    async with ScriptedServer([OPENING, ok({})]) as server, server.client() as api:
        with pytest.raises(UnreachableError):
            await AsyncClient(api=api, namespace="perf").history.release(run("1"))
        assert len(server.seen) == 1
