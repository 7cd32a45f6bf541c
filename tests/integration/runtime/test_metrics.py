"""/metrics of a running operator, as Prometheus reads them.

The operator runs as the ServiceAccount of deploy/appwrapper, with the rights that are shipped and no others.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from tests.integration.conftest import PLURALS, Server
from tests.integration.test_kustomize import rendered
from tests.unit.deploy.monitoring import exported, metrics_in, queries
from tests.waiting import free_port, until

ROOT = Path(__file__).resolve().parents[3]
NAMESPACE = "appwrapper-system"
ACCOUNTS = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"


async def apply(server: Server, folder: str) -> list[str]:
    """The roles and bindings of a folder; their paths."""
    paths = []
    for item in rendered(folder):
        meta = item["metadata"]
        if item["kind"] in PLURALS:
            where = PLURALS[item["kind"]].format(namespace=meta.get("namespace"))
            paths.append(f"{where}/{meta['name']}")
            await server.apply(paths[-1], item)
    return paths


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
        "FOURNOS_CONTROLLER_NAMESPACE": NAMESPACE,
        "FOURNOS_METRICS_PORT": str(port),
    }
    words = [sys.executable, "-m", "fournos", "run", "--enable", "appwrappers", "--health-port", str(health)]
    with log.open("ab") as out:
        return subprocess.Popen(words, cwd=ROOT, env=environment, stdout=out, stderr=out)


async def test_metrics_have_a_port_of_their_own(
    crds: None, server: Server, kubeconfig: Path, tmp_path: Path
) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    await server.apply(f"/api/v1/namespaces/{NAMESPACE}", namespace)
    paths = await apply(server, "deploy/appwrapper")
    own, log = tmp_path / "kubeconfig", tmp_path / "log"
    own.write_text(
        yaml.safe_dump(kubeconfig_of(kubeconfig, await token(server, "appwrapper-controller-manager")))
    )
    port, health = free_port(), free_port()
    process = start(own, port, health, log)

    async def scraped() -> str:
        assert process.poll() is None, log.read_text()
        with suppress(aiohttp.ClientConnectorError):
            status, text = await get(port)
            # A series of this kind is there once its controller works.
            return text if status == 200 and "appwrapper_phase_total" in text else ""
        return ""

    try:
        text = await until(scraped, "metrics are not served", pause=0.1)
        # What the published operator's own acceptance test looks for.
        assert "controller_runtime_reconcile_total{" in text
        # What the dashboard and the alerts ask for is there.
        assert set().union(*(metrics_in(query) for _, query in queries())) - exported(text) == set()
        assert (await get(health))[0] == 404
    finally:
        process.kill()
        process.wait()
        for path in paths:
            await server("DELETE", path)


async def get(port: int) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}/metrics") as answer,
    ):
        return answer.status, await answer.text()
