"""/metrics of a running operator, scraped as Prometheus does, with tokens that a real API server reviews.

The operator runs as the ServiceAccount of deploy/appwrapper, with the rights that are shipped and no others.
"""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from fournos.engine.kube.client import Client
from fournos.engine.kube.kinds import SECRET
from fournos.engine.kube.resource import Key
from fournos.engine.runtime.webhook.secret import BUNDLE
from tests.integration.appwrappers.test_rbac import NAMESPACE, apply
from tests.integration.conftest import Server
from tests.unit.deploy.monitoring import exported, metrics_in, queries
from tests.waiting import LIMIT, free_port, until

ROOT = Path(__file__).resolve().parents[3]
ACCOUNTS = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
SERVICE = "appwrapper-controller-manager-metrics-service"
SCRAPER = "test-scraper"


async def token(server: Server, account: str) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    status, answer = await server("POST", f"{ACCOUNTS}/{account}/token", body)
    assert status == 201, answer
    return str(answer["status"]["token"])


def kubeconfig_of(like: Path, bearer: str) -> dict[str, Any]:
    """Returns a kubeconfig of the same cluster with the token."""
    credentials = yaml.safe_load(like.read_text())
    return {**credentials, "users": [{**one, "user": {"token": bearer}} for one in credentials["users"]]}


def start(own: Path, port: int, health: int, log: Path) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FOURNOS_")}
    environment |= {
        "PYTHONPATH": str(ROOT / "src"),
        "KUBECONFIG": str(own),
        "FOURNOS_APPWRAPPER_NAMESPACE": NAMESPACE,
        "FOURNOS_METRICS_PORT": str(port),
        "FOURNOS_METRICS_SERVICE": SERVICE,
        "FOURNOS_METRICS_SECRET": "appwrapper-metrics-cert",
        "FOURNOS_METRICS_REVIEW_LIFETIME": "0s",
    }
    words = [sys.executable, "-m", "fournos", "run", "--enable", "appwrappers", "--health-port", str(health)]
    with log.open("ab") as out:
        return subprocess.Popen(words, cwd=ROOT, env=environment, stdout=out, stderr=out)


class Scraped:
    """An operator and a Prometheus that trusts the bundle in its Secret."""

    def __init__(self, port: int, health: int, trusted: str) -> None:
        self._url = f"https://127.0.0.1:{port}/metrics"
        self._tls = ssl.create_default_context(cadata=trusted)
        self.health = health

    async def get(self, bearer: str = "") -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
        name = f"{SERVICE}.{NAMESPACE}.svc"
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.get(self._url, ssl=self._tls, server_hostname=name) as answer,
        ):
            return answer.status, await answer.text()


@pytest.fixture
async def scraped(
    crds: None, server: Server, client: Client, kubeconfig: Path, tmp_path: Path
) -> AsyncIterator[Scraped]:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    await server.apply(f"/api/v1/namespaces/{NAMESPACE}", namespace)
    paths = await apply(server, "deploy/appwrapper")
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "appwrapper-metrics-cert"}}
    path = f"/api/v1/namespaces/{NAMESPACE}/secrets/appwrapper-metrics-cert"
    await server.apply(path, secret)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": SCRAPER}}
    await server.apply(f"{ACCOUNTS}/{SCRAPER}", account)
    paths += [path, f"{ACCOUNTS}/{SCRAPER}", f"{BINDINGS}/{SCRAPER}"]
    own = tmp_path / "kubeconfig"
    own.write_text(
        yaml.safe_dump(kubeconfig_of(kubeconfig, await token(server, "appwrapper-controller-manager")))
    )
    port, health = free_port(), free_port()
    log = tmp_path / "log"
    process = start(own, port, health, log)
    try:
        async with asyncio.timeout(LIMIT):
            while True:
                assert process.poll() is None, log.read_text()
                data = (await client.get(SECRET, Key(NAMESPACE, "appwrapper-metrics-cert"))).get("data") or {}
                if BUNDLE in data:
                    found = Scraped(port, health, base64.b64decode(data[BUNDLE]).decode())
                    try:
                        await found.get()
                        break
                    except aiohttp.ClientConnectorError:
                        pass  # does not listen yet
                await asyncio.sleep(0.1)
        yield found
    finally:
        process.kill()
        process.wait()
        for path in paths:
            await server("DELETE", path)


async def test_metrics_are_for_those_with_the_right_alone(server: Server, scraped: Scraped) -> None:
    assert (await scraped.get())[0] == 401
    assert (await scraped.get("no.such.token"))[0] == 401
    bearer = await token(server, SCRAPER)
    status, text = await scraped.get(bearer)
    assert status == 403 and "nonResourceURL /metrics" in text
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": SCRAPER},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "appwrapper-metrics-reader",
        },
        "subjects": [{"kind": "ServiceAccount", "name": SCRAPER, "namespace": NAMESPACE}],
    }
    await server.apply(f"{BINDINGS}/{SCRAPER}", binding)

    async def read() -> str:
        status, text = await scraped.get(bearer)
        return text if status == 200 else ""

    text = await until(read, "the authorizer reads bindings by watch", pause=0.1)
    # What the published operator's own acceptance test looks for.
    assert "controller_runtime_reconcile_total{" in text
    assert "appwrapper_phase_total" in text
    # What the dashboard and the alerts ask for is there.
    assert set().union(*(metrics_in(query) for _, query in queries())) - exported(text) == set()
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{scraped.health}/metrics") as answer,
    ):
        assert answer.status == 404
