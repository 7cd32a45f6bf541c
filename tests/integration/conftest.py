"""A real API server for the integration tests.

`FOURNOS_TEST_KUBECONFIG` names one (its tests make and delete their own namespaces and apply our CRDs);
without it a control plane of our own is started, or found running.
"""

from __future__ import annotations

import base64
import os
import ssl
import uuid
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

import devcluster
from fournos.api.crd import crd
from fournos.app.parts import KINDS
from fournos.kube.client import Client
from fournos.kube.credentials import load
from tests.waiting import until

CLUSTER = "fournos-test-cp"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Server:
    """An API server without any of our own client code: status and JSON, as they come."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = url

    async def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
        **query: str,
    ) -> tuple[int, dict[str, Any]]:
        headers = {"Content-Type": content_type, **(headers or {})}
        async with self._session.request(
            method, self._url + path, json=body, params=query, headers=headers
        ) as answer:
            return answer.status, await answer.json(content_type=None)

    async def post(self, path: str, body: bytes) -> int:
        """The status alone: for a body that no parser of ours could read back."""
        headers = {"Content-Type": "application/json"}
        async with self._session.post(self._url + path, data=body, headers=headers) as answer:
            return answer.status

    async def patch(self, path: str, body: Mapping[str, Any], **query: str) -> tuple[int, dict[str, Any]]:
        """JSON merge patch."""
        return await self("PATCH", path, body, content_type="application/merge-patch+json", **query)

    async def apply(self, path: str, body: Mapping[str, Any]) -> None:
        """Forced server-side apply."""
        status, answer = await self(
            "PATCH",
            path,
            body,
            content_type="application/apply-patch+yaml",
            fieldManager="tests",
            force="true",
        )
        assert status in (200, 201), answer.get("message")


@pytest.fixture(scope="session")
def kubeconfig() -> Path:
    """Of a cluster with a control plane at least."""
    given = os.environ.get("FOURNOS_TEST_KUBECONFIG")
    if given:
        return Path(given)
    return Path(devcluster.ensure(CLUSTER, profile="control-plane").kubeconfig_path)


def _connection(kubeconfig: Path, directory: Path) -> tuple[str, ssl.SSLContext, dict[str, str]]:
    """Address, TLS and headers of the current context; inline data or files, certificate or token."""
    config = yaml.safe_load(kubeconfig.read_text())

    def named(kind: str, name: str) -> dict[str, Any]:
        entry: dict[str, Any] = next(entry for entry in config[f"{kind}s"] if entry["name"] == name)
        return entry[kind]  # type: ignore[no-any-return]

    def file(section: Mapping[str, Any], field: str) -> str | None:
        if f"{field}-data" in section:
            path = directory / field
            path.write_bytes(base64.b64decode(section[f"{field}-data"]))
            return str(path)
        found: str | None = section.get(field)
        return found

    context = named("context", config["current-context"])
    cluster, user = named("cluster", context["cluster"]), named("user", context["user"])
    tls = ssl.create_default_context(cafile=file(cluster, "certificate-authority"))
    certificate = file(user, "client-certificate")
    if certificate:
        tls.load_cert_chain(certificate, file(user, "client-key"))
    headers = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
    return cluster["server"], tls, headers


@pytest.fixture
async def server(kubeconfig: Path, tmp_path: Path) -> AsyncIterator[Server]:
    url, tls, headers = _connection(kubeconfig, tmp_path)
    connector = aiohttp.TCPConnector(ssl=tls)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        yield Server(session, url)


@pytest.fixture
async def client(kubeconfig: Path) -> AsyncIterator[Client]:
    """Our own client."""
    async with Client(load(kubeconfig)) as found:
        yield found


async def install(server: Server, resource: Mapping[str, Any]) -> None:
    """Apply a CRD and wait until the API server serves exactly this version of it."""
    path = f"{CRDS}/{resource['metadata']['name']}"
    await server.apply(path, resource)

    async def established() -> bool:
        _, answer = await server("GET", path)
        conditions = {c["type"]: c for c in answer.get("status", {}).get("conditions") or ()}
        assert conditions.get("NonStructuralSchema", {}).get("status") != "True", conditions
        return bool(conditions.get("Established", {}).get("status") == "True")

    await until(established, f"{path} is not established", pause=0.1)


@pytest.fixture
async def crds(server: Server) -> None:
    """Our CRDs, as generated from this checkout."""
    for definition, rules in KINDS:
        await install(server, crd(definition, rules=rules))


@pytest.fixture
async def namespace(server: Server) -> AsyncIterator[str]:
    """A namespace of the test's own, with access to the queues."""
    name = f"test-{uuid.uuid4().hex[:8]}"
    metadata = {"name": name, "labels": {"fournos.dev/queue-access": "true"}}
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
    status, answer = await server("POST", "/api/v1/namespaces", body)
    assert status == 201, answer
    yield name
    await server("DELETE", f"/api/v1/namespaces/{name}")
