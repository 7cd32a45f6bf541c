"""The routes of runs: filters, pages, documents, keep marks, deletion, errors in words."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from io import BytesIO
from types import SimpleNamespace
from typing import Any

import pytest

from fournos.engine.kube.errors import NotFoundError, error_from
from fournos.history.api.routes import RequestTimeoutError, TooManyRequestsError
from fournos.history.api.server import HistoryServer
from fournos.history.records import Document, RunFilter
from fournos.history.store.database import StoreQueryError, StoreUnavailableError
from tests.unit.history.api.service import Stage, Tokens, run, stage


@pytest.fixture
async def here() -> AsyncIterator[Stage]:
    async with stage() as found:
        found.store.runs = [run("a"), run("b", number=2), run("a", number=3)]
        found.reviews.may("ann", "get", "list", "delete")
        found.reviews.may("ann", "get", resource="runs/documents")
        found.reviews.may("ann", "update", "delete", resource="runs/keep")
        yield found


async def test_all_filters_reach_the_store(here: Stage) -> None:
    status, _ = await here.get(
        "/apis/history.fournos.dev/v1/namespaces/perf/runs?phase=Failed&phase=Stopped&owner=me&cluster=c1&pipeline=p&kind=FournosJob"
        "&label=team%3Dx&text=llama&since=2026-01-02&until=2026-02-03T04:05:06Z&limit=7&cursor=abc"
        "&fingerprint=f&name=n"
    )
    assert status == 200
    (query,) = here.store.queries
    assert query.scope.namespaces == ("uid-perf",)
    assert query.namespace == "perf"
    assert query.filters == RunFilter(
        name="n",
        text="llama",
        limit=7,
        cursor="abc",
        phase=("Failed", "Stopped"),
        owner=("me",),
        cluster=("c1",),
        pipeline=("p",),
        kind=("FournosJob",),
        fingerprint=("f",),
        label=("team=x",),
        since=datetime(2026, 1, 2, tzinfo=UTC),
        until=datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC),
    )


async def test_invalid_parameters_are_refused_all_at_once(here: Stage) -> None:
    status, body = await here.get("/apis/history.fournos.dev/v1/runs?limit=9999&since=yesterday&colour=red")
    assert (status, body["reason"]) == (400, "BadRequest")
    for part in ("limit: Input should be less than", "since: ", "colour: unknown parameter"):
        assert part in body["message"]
    for query in ("limit=1&limit=2", "label=x", "cursor=" + "x" * 2000):
        assert (await here.get(f"/apis/history.fournos.dev/v1/runs?{query}"))[0] == 400


async def test_a_run_by_its_name_is_the_newest_and_by_its_uid_exactly_that_one(here: Stage) -> None:
    _, newest = await here.get("/apis/history.fournos.dev/v1/namespaces/perf/runs/a")
    assert newest["run"]["identity"]["uid"].endswith("3")
    _, first = await here.get(
        f"/apis/history.fournos.dev/v1/namespaces/perf/runs/{here.store.runs[0].identity.uid}"
    )
    assert first["run"]["identity"]["uid"].endswith("1")
    status, body = await here.get("/apis/history.fournos.dev/v1/namespaces/perf/runs/a?kind=MiniCluster")
    assert (status, body["details"]) == (404, {"name": "a", "group": "history.fournos.dev"})


async def test_a_document(here: Stage) -> None:
    uid = here.store.runs[1].identity.uid
    here.store.documents[uid, Document.OBJECT] = {"spec": {"pipeline": "p"}}
    path = "/apis/history.fournos.dev/v1/namespaces/perf/runs/b/documents/object"
    assert await here.get(path) == (200, {"spec": {"pipeline": "p"}})
    for name in ("tasks", "secrets"):
        status, body = await here.get(f"/apis/history.fournos.dev/v1/namespaces/perf/runs/b/documents/{name}")
        assert status == 404
        assert "there are: object, tasks" in body["message"]


async def test_an_unchanged_list_is_not_sent_again(here: Stage) -> None:
    async with here.client.get(
        "/apis/history.fournos.dev/v1/runs", headers={"Authorization": "Bearer t-ann"}
    ) as first:
        tag = first.headers["ETag"]
    status, body = await here.get("/apis/history.fournos.dev/v1/runs", **{"If-None-Match": tag})
    assert (status, body) == (304, None)
    here.store.runs.append(run("new", number=9))
    assert (await here.get("/apis/history.fournos.dev/v1/runs", **{"If-None-Match": tag}))[0] == 200


async def test_keep_release_and_delete_leave_an_audit_line(
    here: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    uid = here.store.runs[1].identity.uid
    assert (
        await here.send(
            "PUT", "/apis/history.fournos.dev/v1/namespaces/perf/runs/b/keep", json={"reason": "base"}
        )
    )[0] == 204
    assert here.store.kept == {uid: ("ann", "base")}
    _, detail = await here.get("/apis/history.fournos.dev/v1/namespaces/perf/runs/b")
    assert (detail["kept"]["by"], detail["kept"]["reason"]) == ("ann", "base")
    assert (await here.send("DELETE", "/apis/history.fournos.dev/v1/namespaces/perf/runs/b/keep"))[0] == 204
    assert not here.store.kept
    _, detail = await here.get("/apis/history.fournos.dev/v1/namespaces/perf/runs/b")
    assert not detail.get("kept")
    assert (await here.send("DELETE", f"/apis/history.fournos.dev/v1/namespaces/perf/runs/{uid}"))[0] == 204
    assert uid not in {one.identity.uid for one in here.store.runs}
    lines = [record.getMessage() for record in caplog.records if record.name.endswith("audit")]
    assert [line.split(":")[0] for line in lines] == [
        "keepRun by 'ann'",
        "releaseRun by 'ann'",
        "deleteRun by 'ann'",
    ]
    assert all(line.endswith(": done") for line in lines)


async def test_what_is_refused_and_what_fails_leaves_an_audit_line(
    here: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    path = "/apis/history.fournos.dev/v1/namespaces/perf/runs/b/keep"
    assert (await here.send("PUT", path, "t-root", json={}))[0] == 403
    here.store.error = RuntimeError("bug")
    assert (await here.send("DELETE", path))[0] == 500
    lines = [record.getMessage() for record in caplog.records if record.name.endswith("audit")]
    assert lines == [
        f"keepRun by 'root': PUT {path!r}: 403 Forbidden",
        f"releaseRun by 'ann': DELETE {path!r}: failed",
    ]


async def test_a_body_of_nonsense_is_refused(here: Stage) -> None:
    path = "/apis/history.fournos.dev/v1/namespaces/perf/runs/b/keep"
    for given in ({"data": b"{"}, {"json": {"reason": 7}}, {"json": {"reason": "x" * 2000}}, {"json": []}):
        status, body = await here.send("PUT", path, **given)
        assert (status, body["reason"]) == (422, "Invalid")
    assert (await here.send("PUT", path, data=BytesIO(b"x" * (17 * 2**20))))[0] == 400


async def test_a_store_that_does_not_answer_is_503_without_its_address(here: Stage) -> None:
    here.store.error = StoreUnavailableError("postgresql://user:s3cret@db refused")
    status, body = await here.get("/apis/history.fournos.dev/v1/runs")
    assert (status, body["reason"]) == (503, "ServiceUnavailable")
    assert body["message"].startswith("the store of the history does not answer, its API does")
    assert "s3cret" not in str(body)
    assert (await here.get("/apis/history.fournos.dev/v1"))[0] == 200, "what needs no store is answered"


async def test_a_fault_of_ours_is_500_without_details(here: Stage, caplog: pytest.LogCaptureFixture) -> None:
    here.store.error = RuntimeError("s3cret")
    status, body = await here.get("/apis/history.fournos.dev/v1/runs")
    assert (status, body["message"]) == (500, "the request failed; see the log of the history")
    caplog.clear()


async def test_an_unknown_path(here: Stage) -> None:
    status, body = await here.get("/apis/history.fournos.dev/v1/nothing")
    assert status == 404
    assert body["reason"] == "NotFound"
    error = error_from(status, json.dumps(body).encode())
    assert isinstance(error, NotFoundError) and "no path /apis" in error.message, "there is a history"


async def test_the_path_of_a_write_cannot_forge_a_line_of_the_log(
    here: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    here.store.runs.append(run("x\ny", number=8))
    assert (await here.send("DELETE", "/apis/history.fournos.dev/v1/namespaces/perf/runs/x%0Ay"))[0] == 204
    (line,) = [record.getMessage() for record in caplog.records if record.name.endswith("audit")]
    assert "\n" not in line


async def test_a_cursor_of_nonsense_is_the_callers_fault(here: Stage) -> None:
    here.store.error = StoreQueryError("cursor: not one that a page of this history had")
    status, body = await here.get("/apis/history.fournos.dev/v1/runs?cursor=x")
    assert (status, body["message"]) == (400, "cursor: not one that a page of this history had")


async def test_only_so_many_bodies_are_received_at_once(here: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    here.reviews.may("ann", "update", resource="runs/keep")
    monkeypatch.setattr("fournos.history.api.server._WRITES", 0)
    status, body = await here.send("PUT", "/apis/history.fournos.dev/v1/namespaces/perf/runs/a/keep", json={})
    assert (status, body["reason"]) == (429, "TooManyRequests")


@pytest.mark.looptime
async def test_a_body_that_does_not_come_in_time_ends() -> None:
    server = HistoryServer((), None, None, Tokens(), None)  # type: ignore[arg-type]
    request: Any = SimpleNamespace(content_length=500_000)
    begin = asyncio.get_running_loop().time()
    with pytest.raises(RequestTimeoutError):
        async with server._write(request, "perf"):
            await asyncio.sleep(1000)
    assert asyncio.get_running_loop().time() - begin == pytest.approx(61)
    assert not server._writing


async def test_slow_bodies_of_one_namespace_leave_room_for_others() -> None:
    server = HistoryServer((), None, None, Tokens(), None)  # type: ignore[arg-type]
    request: Any = SimpleNamespace(content_length=1)
    async with AsyncExitStack() as slow:
        for _ in range(4):
            await slow.enter_async_context(server._write(request, "mine"))
        with pytest.raises(TooManyRequestsError):
            await slow.enter_async_context(server._write(request, "mine"))
        await slow.enter_async_context(server._write(request, "other"))
    assert not server._writing
