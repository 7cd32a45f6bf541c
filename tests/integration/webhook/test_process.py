"""`fournos run --webhook-url`: the process serves webhooks, reports readiness, and shuts down in order."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from fournos.engine.kube.client import Client
from fournos.engine.kube.resource import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Key
from fournos.engine.runtime.webhook.registration import LABEL
from tests.integration.appwrappers.test_rules import path, unqueued
from tests.integration.conftest import Server
from tests.integration.webhook.conftest import address_for
from tests.waiting import LIMIT, free_port, until

ROOT = Path(__file__).resolve().parents[3]
SERVICE = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {}}


class Process:
    def __init__(self, kubeconfig: Path, namespace: str, log: Path) -> None:
        self.log = log
        self.health, self.port = free_port(), free_port()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FOURNOS_")}
        environment |= {
            "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
            "FOURNOS_CONTROLLER_NAMESPACE": namespace,
            "KUBECONFIG": str(kubeconfig),
        }
        address = f"https://{address_for(kubeconfig)}:{self.port}"
        words = ["--enable", "appwrappers", "--health-port", str(self.health), "--webhook-url", address]
        with log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "fournos", "run", *words],
                cwd=ROOT, env=environment, stdout=out, stderr=out,
            )  # fmt: skip

    async def get(self, where: str) -> tuple[int, str]:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self.health}/{where}") as answer,
        ):
            return answer.status, await answer.text()

    async def ready(self) -> None:
        async with asyncio.timeout(LIMIT):
            while True:
                assert self.process.poll() is None, self.log.read_text()
                try:
                    if (await self.get("readyz"))[0] == 200:
                        return
                except aiohttp.ClientError:
                    pass  # does not listen yet
                await asyncio.sleep(0.1)


@pytest.fixture
async def process(
    crds: None, kubeconfig: Path, client: Client, namespace: str, tmp_path: Path
) -> AsyncIterator[Process]:
    found = Process(kubeconfig, namespace, tmp_path / "log")
    try:
        await found.ready()
        yield found
    finally:
        found.process.kill()
        found.process.wait()
        for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS):
            for one in (await client.list(resource, selector=f"{LABEL}={namespace}")).items:
                await client.delete(resource, Key("", one["metadata"]["name"]))


async def test_a_process_serves_counts_and_ends(server: Server, namespace: str, process: Process) -> None:

    async def refused() -> bool:
        status, answer = await server(
            "POST", path(namespace), unqueued(components=[{"template": SERVICE}]), dryRun="All"
        )
        return status == 422 and "components contain no podspecs" in answer["message"]

    await until(refused, "the API server reads the configurations by watch", pause=0.1)
    status, made = await server("POST", path(namespace), unqueued())
    assert status == 201, made
    assert "workload.codeflare.dev/user" in made["metadata"]["labels"]
    _, metrics = await process.get("metrics")
    assert 'fournos_webhook_reviews_total{verdict="changed",webhook="mappwrapper.kb.io"}' in metrics
    process.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(process.process.wait, LIMIT) == 0
    output = process.log.read_text()
    assert "Traceback" not in output and "PRIVATE KEY" not in output
