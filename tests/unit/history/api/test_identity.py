"""Who calls, and who may read what: rights before any lookup, namespaces by UID, caches that end."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from multidict import CIMultiDict

from fournos.engine.kube.errors import ServerError
from fournos.engine.kube.resource import SUBJECT_ACCESS_REVIEW
from fournos.engine.runtime.certificates import Pair as Serving
from fournos.history.api.identity import FrontProxy, HistoryAuthorizer, correction, front_proxy
from fournos.history.api.runs import ROUTES
from fournos.history.api.server import HistoryServer
from fournos.history.store.database import StoreUnavailableError
from tests.fakes.clusters import AUTHORITY
from tests.fakes.pki import Authority, Pair
from tests.unit.history.api.service import MemoryStore, Reviews, Service, Stage, run, stage

PROXY = Authority("front-proxy-ca")
HEADERS = {"X-Remote-User": "ann", "X-Remote-Group": "team", "X-Remote-Extra-Example.org%2fscopes": "all"}


def config_map(**data: str) -> dict[str, Any]:
    return {
        "data": {
            "requestheader-client-ca-file": PROXY.certificate.decode(),
            "requestheader-allowed-names": '["front-proxy-client"]',
            "requestheader-username-headers": '["X-Remote-User"]',
            "requestheader-group-headers": '["X-Remote-Group"]',
            "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
            **data,
        }
    }


def test_the_config_map_of_an_api_server() -> None:
    found = front_proxy(config_map())
    assert found == (PROXY.certificate, FrontProxy(names=("front-proxy-client",)))
    with pytest.raises(ValueError, match="forwards no requests"):
        front_proxy({"data": {}})
    for text in ("{", '"x"'):
        with pytest.raises(ValueError):
            front_proxy(config_map(**{"requestheader-allowed-names": text}))


def client(pair: Pair | None, tmp_path: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=AUTHORITY.certificate.decode())
    if pair is not None:
        file = tmp_path / "client.pem"
        file.write_bytes(pair.certificate + pair.key)
        context.load_cert_chain(file)
    return context


@pytest.mark.parametrize(
    ("pair", "status"),
    [
        (PROXY.issue("front-proxy-client"), 200),
        (PROXY.issue("somebody"), 401),
        (None, 401),
    ],
    ids=["the API server", "another name", "no certificate"],
)
async def test_headers_count_only_with_the_certificate_of_the_api_server(
    pair: Pair | None, status: int, tmp_path: Path
) -> None:
    service, reviews = Service(MemoryStore([run("a")])), Reviews()
    reviews.may("ann", "list")
    authority, proxy = front_proxy(config_map())
    server = HistoryServer(
        ROUTES,
        service,
        reviews,  # type: ignore[arg-type]
        proxy,
        HistoryAuthorizer(reviews, service.store, cluster="here", monotonic=lambda: 0.0),  # type: ignore[arg-type]
    )
    serving = AUTHORITY.issue("server")
    server.certificate.show(Serving(serving.certificate, serving.key))
    server.trust(authority, proxy)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    task = asyncio.create_task(server.run(port=port, host="127.0.0.1"))
    url = f"https://127.0.0.1:{port}/apis/history.fournos.dev/v1/runs"
    async with aiohttp.ClientSession() as session:
        for _ in range(100):
            try:
                async with session.get(url, headers=HEADERS, ssl=client(pair, tmp_path)) as response:
                    assert response.status == status
                    break
            except aiohttp.ClientConnectorError:
                await asyncio.sleep(0.05)
        else:
            pytest.fail("the server does not answer")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    users = [obj["spec"] for _, obj in reviews.asked]
    assert bool(users) == (status == 200), "the rights of a user that only a header names"
    assert all(
        spec["groups"] == ["team"] and spec["extra"] == {"example.org/scopes": ["all"]} for spec in users
    )


@pytest.mark.parametrize(
    ("named", "uid"), [({}, ""), ({"requestheader-uid-headers": '["X-Remote-Uid"]'}, "7")]
)
def test_a_uid_counts_only_in_a_header_that_the_api_server_names(named: dict[str, str], uid: str) -> None:
    """An API server that does not know the header passes on what its caller has written there."""
    certificate = {"subject": ((("commonName", "front-proxy-client"),),)}
    request: Any = SimpleNamespace(
        headers=CIMultiDict({**HEADERS, "X-Remote-Uid": "7"}),
        transport=SimpleNamespace(get_extra_info=lambda _: certificate),
    )
    _, proxy = front_proxy(config_map(**named))
    user = proxy.user(request)
    assert (user.name, user.uid) == ("ann", uid)


async def test_discovery_offers_nothing_to_list_or_delete_and_needs_no_store() -> None:
    """The namespace controller and the garbage collector enumerate by these verbs."""
    async with stage() as here:
        here.store.error = StoreUnavailableError("the database is away")
        status, found = await here.get("/apis/history.fournos.dev/v1", "")
    assert (status, found["kind"]) == (200, "APIResourceList")
    offered = {verb for one in found["resources"] for verb in one["verbs"]}
    assert offered.isdisjoint({"list", "watch", "delete", "deletecollection"})


def test_only_our_own_api_service_gets_our_authorities() -> None:
    def found(namespace: str, bundle: bytes) -> dict[str, Any]:
        return {
            "metadata": {"resourceVersion": "7"},
            "spec": {
                "service": {"namespace": namespace, "name": "fournos-history"},
                "caBundle": base64.b64encode(bundle).decode(),
            },
        }

    patch = correction(found("fournos", b"old"), b"new", namespace="fournos")
    assert patch == {
        "metadata": {"resourceVersion": "7"},
        "spec": {"caBundle": base64.b64encode(b"new").decode()},
    }
    assert correction(found("fournos", b"new"), b"new", namespace="fournos") is None
    assert correction(found("other", b"old"), b"new", namespace="fournos") is None
    assert correction({"metadata": {}, "spec": {}}, b"new", namespace="fournos") is None


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
