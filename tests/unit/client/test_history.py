"""The client's view of the history, on the served API itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from fournos.client import AsyncClient
from fournos.client.errors import MissingError, NoHistoryError, NotAllowedError
from fournos.client.history import AsyncHistory
from fournos.history.records import Document, Page
from fournos.kube.auth import FixedIdentity, Proof
from fournos.kube.client import Client
from fournos.kube.credentials import Credentials
from tests.unit.history.api.service import Stage, run, stage
from tests.unit.kube.server import ScriptedServer


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
        assert (query.phases, query.owners, query.labels) == (
            ("Failed", "Stopped"),
            ("a&b=c",),
            {"team": "x"},
        )
        assert query.since == datetime(2026, 1, 1, tzinfo=UTC)


async def test_a_page_that_found_nothing_yet_is_not_the_last_one() -> None:
    async with stage() as here, history(here) as found:
        here.reviews.may("ann", "list")
        here.store.runs = [run("job-1")]
        here.store.searched = [Page((), "further", datetime(2026, 1, 1, tzinfo=UTC))]
        names = [one.name async for one in found.runs(text="job")]
        assert names == ["job-1"]
        assert [query.cursor for query in here.store.queries] == ["", "further"]


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
