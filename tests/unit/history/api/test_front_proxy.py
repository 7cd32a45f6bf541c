"""Requests that an API server forwards: over TLS, with its client certificate and without."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest
from multidict import CIMultiDict

from fournos.engine.runtime.certificates import Pair as Serving
from fournos.history.api.identity import FrontProxy, HistoryAuthorizer, correction, front_proxy
from fournos.history.api.runs import ROUTES
from fournos.history.api.server import HistoryServer
from fournos.history.store.errors import StoreUnavailableError
from tests.fakes.clusters import AUTHORITY
from tests.fakes.pki import Authority, Pair
from tests.unit.history.api.service import MemoryStore, Reviews, Service, run, stage

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
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    task = asyncio.create_task(server.run(port=port, host="127.0.0.1", authority=authority))
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
