"""Who may read what: rights before any lookup, namespaces by UID, caches that end."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from fournos.engine.kube.errors import ServerError
from fournos.engine.kube.resource import SUBJECT_ACCESS_REVIEW
from fournos.history.api.identity import FrontProxy
from tests.unit.history.api.service import Stage, run, stage


@pytest.fixture
async def here() -> AsyncIterator[Stage]:
    async with stage() as found:
        found.store.runs = [run("a"), run("b", namespace="other", number=2)]
        yield found


async def test_whom_the_api_server_does_not_name(here: Stage) -> None:
    for token in ("", "wrong", "x" * 8000):
        status, body = await here.get("/apis/history.fournos.dev/v1/runs", token)
        assert (status, body["kind"], body["reason"]) == (401, "Status", "Unauthorized")
    assert not here.store.queries


async def test_forbidden_is_answered_before_anything_is_looked_up(here: Stage) -> None:
    answers = [
        await here.get(f"/apis/history.fournos.dev/v1/namespaces/perf/runs/{name}")
        for name in ("a", "missing")
    ]
    assert [status for status, _ in answers] == [403, 403]
    assert answers[0] == answers[1]
    assert '"ann" cannot get resource "runs"' in answers[0][1]["message"]
    assert not here.store.queries


async def test_a_right_in_a_namespace_reads_only_that_namespace(here: Stage) -> None:
    here.reviews.may("ann", "list", "get")
    status, body = await here.get("/apis/history.fournos.dev/v1/namespaces/perf/runs")
    assert status == 200
    assert [one["name"] for one in body["runs"]] == ["a"]
    assert (await here.get("/apis/history.fournos.dev/v1/namespaces/other/runs"))[0] == 403
    _, everywhere = await here.get("/apis/history.fournos.dev/v1/runs")
    assert [one["name"] for one in everywhere["runs"]] == ["a"]


async def test_a_right_in_all_namespaces_reads_what_is_gone(here: Stage) -> None:
    here.reviews.may("root", "list", namespace="")
    here.store.runs.append(run("old", namespace="gone", number=3))
    _, body = await here.get("/apis/history.fournos.dev/v1/runs", "t-root")
    assert [one["name"] for one in body["runs"]] == ["old", "b", "a"]
    _, body = await here.get("/apis/history.fournos.dev/v1/namespaces/gone/runs", "t-root")
    assert [one["name"] for one in body["runs"]] == ["old"]


@pytest.mark.parametrize("now", ["another", None])
async def test_a_namespace_that_is_gone_or_made_again_shows_nothing_of_the_old_one(
    here: Stage, now: str | None
) -> None:
    here.reviews.may("ann", "list", "get")
    if now is None:
        del here.reviews.namespaces["perf"]
    else:
        here.reviews.namespaces["perf"] = now
    assert (await here.get("/apis/history.fournos.dev/v1/namespaces/perf/runs"))[1]["runs"] == []
    assert (await here.get("/apis/history.fournos.dev/v1/runs"))[1]["runs"] == []
    assert (await here.get("/apis/history.fournos.dev/v1/namespaces/perf/runs/a"))[0] == 404


async def test_the_uid_of_another_namespaces_run_is_not_found(here: Stage) -> None:
    here.reviews.may("ann", "get")
    assert (
        await here.get(f"/apis/history.fournos.dev/v1/namespaces/perf/runs/{here.store.runs[1].identity.uid}")
    )[0] == 404
    assert (
        await here.get(f"/apis/history.fournos.dev/v1/namespaces/perf/runs/{here.store.runs[0].identity.uid}")
    )[0] == 200


async def test_rights_are_asked_once_and_again_after_their_time(here: Stage) -> None:
    here.reviews.may("ann", "list")
    for _ in range(5):
        await here.get("/apis/history.fournos.dev/v1/namespaces/perf/runs")
    asked = [resource for resource, _ in here.reviews.asked]
    assert asked.count(SUBJECT_ACCESS_REVIEW) == 2  # in all namespaces, and in this one
    here.reviews.rights.clear()
    here.now[0] = 31.0
    assert (await here.get("/apis/history.fournos.dev/v1/namespaces/perf/runs"))[0] == 403
    here.reviews.may("ann", "list")
    here.now[0] = 37.0
    assert (await here.get("/apis/history.fournos.dev/v1/namespaces/perf/runs"))[0] == 200


async def test_an_api_server_that_fails_admits_no_login(here: Stage) -> None:
    here.reviews.may("ann", "list")
    here.reviews.error = ServerError("down", status=500)
    status, body = await here.get("/apis/history.fournos.dev/v1/namespaces/perf/runs")
    assert (status, body["reason"]) == (503, "ServiceUnavailable")
    here.reviews.error = None
    assert (await here.get("/apis/history.fournos.dev/v1/namespaces/perf/runs"))[0] == 200


async def test_each_verb_is_a_right_of_its_own(here: Stage) -> None:
    here.reviews.may("ann", "get")
    for method, path in (("DELETE", ""), ("PUT", "/keep"), ("DELETE", "/keep")):
        status, _ = await here.send(method, f"/apis/history.fournos.dev/v1/namespaces/perf/runs/a{path}")
        assert status == 403
    assert len(here.store.runs) == 2
    assert not here.store.kept


async def test_headers_of_the_front_proxy_count_only_with_its_certificate() -> None:
    async with stage(front_proxy=FrontProxy(names=("front-proxy-client",))) as here:
        here.reviews.may("root", "list", namespace="")
        status, _ = await here.get("/apis/history.fournos.dev/v1/runs", "", **{"X-Remote-User": "root"})
        assert status == 401
        assert not here.reviews.asked
