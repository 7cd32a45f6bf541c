"""A real API server for the integration tests.

`FOURNOS_TEST_KUBECONFIG` names one (its tests make and delete their own namespaces and apply our CRDs);
without it a control plane of our own is started, or found running.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import devcluster
from dev import resources
from fournos.app.parts import kinds
from fournos.engine.api.crd import crd
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import load
from tests.kubeconfigs import connection
from tests.waiting import until

CLUSTER = "fournos-test-cp"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
METADATA_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"

_installed: set[tuple[str, str, int]] = set()
"""Name, UID and generation of each CRD that this process has installed. The API server raises the generation
with each change of the spec. To apply one that has not changed costs a tenth of a CPU second."""


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
            # Where a newer version has a successor to what we write, we are told before it is gone.
            outdated = [text for text in answer.headers.getall("Warning", []) if "deprecated" in text]
            assert not outdated, (method, path, outdated)
            try:
                return answer.status, await answer.json(content_type=None)
            except ValueError:  # a kind that is not served yet is answered by a text
                return answer.status, {"message": await answer.text()}

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


def take_down(names: Iterable[str]) -> None:
    """Ends clusters that no later test uses: one that rests takes a twentieth of a processor."""
    if not os.environ.get("FOURNOS_KEEP_CLUSTERS"):
        for name in names:
            devcluster.down(name)


@contextmanager
def kueue_configured(config: dict[str, Any]) -> Iterator[Path]:
    """The kubeconfig of the tests' own control plane, whose Kueue has another configuration meanwhile.

    To start Kueue takes a tenth of what a control plane takes.
    """
    yield devcluster.ensure(CLUSTER, profile="control-plane", kueue_config=config).kubeconfig_path
    devcluster.ensure(CLUSTER, profile="control-plane")


@pytest.fixture
async def server(kubeconfig: Path) -> AsyncIterator[Server]:
    url, tls, headers = connection(kubeconfig)
    connector = aiohttp.TCPConnector(ssl=tls)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        yield Server(session, url)


@pytest.fixture
async def client(kubeconfig: Path) -> AsyncIterator[Client]:
    """Our own client."""
    async with Client(load(kubeconfig)) as found:
        yield found


async def install(server: Server, resource: Mapping[str, Any]) -> None:
    """Apply a CRD and wait until the API server serves it, which it does some time after the condition."""
    path, spec = f"{CRDS}/{resource['metadata']['name']}", resource["spec"]
    await server.apply(path, resource)

    async def established() -> bool:
        _, answer = await server("GET", path)
        conditions = {c["type"]: c for c in answer.get("status", {}).get("conditions") or ()}
        assert conditions.get("NonStructuralSchema", {}).get("status") != "True", conditions
        return bool(conditions.get("Established", {}).get("status") == "True") and await served()

    async def served() -> bool:
        versions = [version["name"] for version in spec["versions"] if version["served"]]
        lists = [f"/apis/{spec['group']}/{version}/{spec['names']['plural']}" for version in versions]
        return {(await server("GET", one, limit="1"))[0] for one in lists} <= {200}

    await until(established, f"{path} is not established", pause=0.1)


async def _generations(server: Server) -> dict[str, tuple[str, str, int]]:
    status, answer = await server("GET", CRDS, headers={"Accept": METADATA_ONLY})
    assert status == 200, answer
    found = [item["metadata"] for item in answer["items"]]
    return {one["name"]: (one["name"], one["uid"], one["generation"]) for one in found}


@cache
def _ours() -> dict[str, dict[str, Any]]:
    found = [crd(definition, rules=rules) for definition, rules in kinds()]
    return {one["metadata"]["name"]: one for one in found}


@pytest.fixture
async def crds(server: Server) -> None:
    """Our CRDs, as generated from this checkout."""
    there = await _generations(server)
    if missing := [name for name in _ours() if there.get(name) not in _installed]:
        for name in missing:
            await install(server, _ours()[name])
        there = await _generations(server)
        _installed.update(there[name] for name in missing)


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


# --- the shipped rights --------------------------------------------------------------------------------

RBAC = "/apis/rbac.authorization.k8s.io/v1"
POLICIES = "/apis/admissionregistration.k8s.io/v1"
PLURALS = {
    "ServiceAccount": "/api/v1/namespaces/{namespace}/serviceaccounts",
    "Role": RBAC + "/namespaces/{namespace}/roles",
    "RoleBinding": RBAC + "/namespaces/{namespace}/rolebindings",
    "ClusterRole": RBAC + "/clusterroles",
    "ClusterRoleBinding": RBAC + "/clusterrolebindings",
    "ValidatingAdmissionPolicy": POLICIES + "/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": POLICIES + "/validatingadmissionpolicybindings",
}


@pytest.fixture
async def secrets_namespace(server: Server, namespace: str) -> AsyncIterator[str]:
    name = f"{namespace}-secrets"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    status, answer = await server("POST", "/api/v1/namespaces", body)
    assert status == 201, answer
    yield name
    await server("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
async def rights(server: Server, namespace: str, secrets_namespace: str) -> AsyncIterator[None]:
    bindings = []
    for obj in resources.rbac(namespace, secrets_namespace):
        meta = obj["metadata"]
        path = PLURALS[obj["kind"]].format(namespace=meta.get("namespace", namespace))
        await server.apply(f"{path}/{meta['name']}", obj)
        if obj["kind"] != "ClusterRole" and "/namespaces/" not in path:
            bindings.append(f"{path}/{meta['name']}")
    yield
    for path in bindings:
        await server("DELETE", path)
