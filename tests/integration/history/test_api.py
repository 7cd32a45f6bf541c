"""The API as it is shipped: through the API server with a kubeconfig, and from the pod of a run."""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
import yaml

from devcluster import manifests
from fournos.api.kinds import PIPELINE_RUN, TASK_RUN
from fournos.client.errors import FournosError, MissingError, NotAllowedError
from fournos.client.history import AsyncHistory
from fournos.engine.kube.auth import FixedIdentity, Proof
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import load
from fournos.engine.kube.resource import POD, uid_of
from fournos.history.records import Document
from tests.integration.conftest import PLURALS, Server
from tests.integration.history import test_recorder
from tests.integration.history.test_recorder import HOME, ROOT, a_task, recorder
from tests.integration.jobs.stage import JobStage
from tests.waiting import free_port, until

account, cluster, kubeconfig, stage = (
    test_recorder.account,
    test_recorder.cluster,
    test_recorder.kubeconfig,
    test_recorder.stage,
)
PATHS = {
    **PLURALS,
    "Service": "/api/v1/namespaces/{namespace}/services",
    "Secret": "/api/v1/namespaces/{namespace}/secrets",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies",
    "APIService": "/apis/apiregistration.k8s.io/v1/apiservices",
}
SLICE = f"/apis/discovery.k8s.io/v1/namespaces/{HOME}/endpointslices/fournos-history-here"
RESULTS = """\
tests:
  - labels: {model: llama}
    kpis:
      - {kpi_id: throughput, value: 12.5, unit: tok/s, higher_is_better: true}
"""


@dataclass
class Reached:
    """The API, and how it is reached."""

    stage: JobStage
    server: Server
    kubeconfig: Path
    direct: str
    """Its own address."""

    def as_token(self, token: str) -> Client:
        """A client of the API server with a token instead of the kubeconfig's certificate."""
        credentials = load(self.kubeconfig)
        credentials._identity = FixedIdentity(Proof(token=token))
        return Client(credentials)

    async def token(self, account: str, *, pod: Any = None) -> str:
        """A real token, of a pod if one is given."""
        spec: dict[str, Any] = {"expirationSeconds": 3600}
        if pod is not None:
            name = pod["metadata"]["name"]
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid_of(pod)}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = f"/api/v1/namespaces/{self.stage.namespace}/serviceaccounts/{account}/token"
        status, answer = await self.server("POST", path, body)
        assert status == 201, answer
        return str(answer["status"]["token"])


@pytest.fixture
async def published(server: Server, kubeconfig: Path, account: str) -> AsyncIterator[tuple[str, int]]:
    """The shipped manifests; the Service leads to this address and port of this machine."""
    port, made = free_port(), []
    for obj in manifests.parse((ROOT / "deploy" / "history" / "api.yaml").read_text()):
        namespace = obj["metadata"].get("namespace", "")
        path = f"{PATHS[obj['kind']].format(namespace=namespace)}/{obj['metadata']['name']}"
        if obj["kind"] == "Service":
            del obj["spec"]["selector"]
            obj["spec"]["ports"][0]["targetPort"] = port
        await server.apply(path, obj)
        made.append(path)
    host = str(urlsplit(load(kubeconfig).server).hostname).rpartition(".")[0] + ".1"
    body = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": "fournos-history-here",
            "labels": {"kubernetes.io/service-name": "fournos-history"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [host], "conditions": {"ready": True}}],
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    }
    await server.apply(SLICE, body)
    yield host, port
    for path in (SLICE, *made):
        await server("DELETE", path)


@pytest.fixture
async def reached(
    stage: JobStage,
    server: Server,
    kubeconfig: Path,
    account: str,
    published: tuple[str, int],
    tmp_path: Path,
) -> Reached:
    host, port = published
    await stage.leading(settings={"HISTORY_ENABLED": "true"})
    process = recorder(
        kubeconfig,
        account,
        tmp_path,
        stage.namespace,
        settings={
            "HISTORY_PORT": str(port),
            "HISTORY_DIRECTORY": str(tmp_path),
        },
    )
    stage.operators.append(process)
    await process.ready()
    return Reached(stage, server, kubeconfig, f"https://{host}:{port}")


async def delete_namespace(server: Server, name: str) -> None:
    """Makes an empty namespace, and asks for its deletion."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await server.apply(f"/api/v1/namespaces/{name}", body)
    status, _ = await server("DELETE", f"/api/v1/namespaces/{name}")
    assert status == 200


async def namespace_gone(server: Server, name: str) -> None:
    async def gone() -> bool:
        return (await server("GET", f"/api/v1/namespaces/{name}"))[0] == 404

    await until(gone, f"namespace {name} cannot be deleted")


async def test_a_run_is_read_with_a_kubeconfig_and_sends_its_own_results(
    reached: Reached, tmp_path: Path
) -> None:
    stage = reached.stage
    stage.executors.held.add("job")
    await stage.submit("job", owner="perf")
    await stage.phase("job", "Running")
    run = await stage.get(PIPELINE_RUN, "job")
    await a_task(stage, run)
    task = await stage.get(TASK_RUN, "job-run")
    child = {
        "apiVersion": TASK_RUN.api_version,
        "kind": "TaskRun",
        "name": "job-run",
        "pipelineTaskName": "run",
    }
    plan = {"tasks": [{"name": "run", "taskSpec": task["spec"]["taskSpec"]}]}
    status = {"childReferences": [child], "pipelineSpec": plan}
    await stage.patch(PIPELINE_RUN, "job", {"status": status}, subresource="status")
    pod = await a_pod(stage)
    history = AsyncHistory(stage.client, stage.namespace)

    last: Any = None

    async def recorded() -> Any:
        nonlocal last
        try:
            last = found = await history.run("job")
        except FournosError as error:
            last = error
            return None
        return found if found.run.phase == "Running" else None

    detail = await until(recorded, lambda: f"not in the history: {last!r}")
    assert (detail.run.owner, detail.run.kind) == ("perf", "FournosJob")
    # Times have whole seconds: a job that started within one has not waited.
    assert (await history.document(detail.run, Document.OBJECT))["spec"]["owner"] == "perf"
    assert [one.name async for one in history.runs(owner="perf")] == ["job"]

    await _through_the_api_server(reached, history, pod, tmp_path)
    await _directly(reached, history, pod)
    await _without_rights(reached)
    await delete_namespace(reached.server, f"{stage.namespace}-up")
    await namespace_gone(reached.server, f"{stage.namespace}-up")

    shown = await fournos(reached.kubeconfig, "results", "list", "job", "-n", stage.namespace)
    assert "model=llama  throughput  12.5   tok/s" in shown
    stage.executors.finish("job")
    await stage.phase("job", "Succeeded")
    assert (await history.usage()).runs == 1
    assert (await history.usage(everywhere=True)).owners[0].name == "perf"
    await history.delete(detail.run)
    with pytest.raises(MissingError):
        await history.run(detail.run.identity.uid)


async def fournos(kubeconfig: Path, *words: object) -> str:
    """Returns what the command prints; it must succeed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "fournos",
        *map(str, words),
        "--kubeconfig",
        str(kubeconfig),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )
    out, problems = await process.communicate()
    assert process.returncode == 0, problems.decode()
    return out.decode()


async def a_pod(stage: JobStage) -> Any:
    task = await stage.get(TASK_RUN, "job-run")
    owner = {
        "apiVersion": TASK_RUN.api_version,
        "kind": "TaskRun",
        "name": "job-run",
        "uid": uid_of(task),
        "controller": True,
    }
    return await stage.client.create(
        POD,
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "job-run-pod", "namespace": stage.namespace, "ownerReferences": [owner]},
            "spec": {"containers": [{"name": "main", "image": "bench"}]},
        },
    )


async def _through_the_api_server(reached: Reached, history: AsyncHistory, pod: Any, tmp_path: Path) -> None:
    """With the token that every pod has."""
    token = await reached.token("default", pod=pod)
    async with reached.as_token(token) as own, aiohttp.ClientSession() as session:
        tls = (await own._transport._credentials.proof())[1]
        url = f"{load(reached.kubeconfig).server}/apis/history.fournos.dev/v1/own/run"
        headers = {"Authorization": f"Bearer {token}"}
        for expected in ((1, 0), (0, 1)):
            async with session.post(
                f"{url}/results?name=r.yaml", data=RESULTS, headers=headers, ssl=tls
            ) as response:
                answer = await response.json()
                assert response.status == 200, answer
                assert (answer["added"], answer["unchanged"]) == expected
        async with session.post(f"{url}/results", data="nonsense: [", headers=headers, ssl=tls) as response:
            assert response.status == 422
    own_kubeconfig = tmp_path / "own.kubeconfig"
    config = yaml.safe_load(reached.kubeconfig.read_text())
    config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token}}]
    own_kubeconfig.write_text(yaml.safe_dump(config))
    (tmp_path / "r.yaml").write_text(RESULTS)
    (tmp_path / "out" / "deep").mkdir(parents=True)
    (tmp_path / "out" / "deep" / "a.log").write_text("text")
    assert await fournos(own_kubeconfig, "results", "push", tmp_path / "r.yaml") == (
        f"{tmp_path / 'r.yaml'}: 1 unchanged\n"
    )
    pushed = await fournos(own_kubeconfig, "artifacts", "push", tmp_path / "out")
    assert pushed == "deep/a.log: 4 bytes\n"
    (record,) = await history.results("job")
    assert (record.kpis[0].kpi_id, record.kpis[0].value) == ("throughput", 12.5)


async def _directly(reached: Reached, history: AsyncHistory, pod: Any) -> None:
    """Only the API server may ask; a token without a pod has no run of its own."""
    content = b"a plot"
    digest = {"X-Content-SHA256": hashlib.sha256(content).hexdigest()}
    bound, unbound = await reached.token("default", pod=pod), await reached.token("default")
    through = f"{load(reached.kubeconfig).server}/apis"
    async with aiohttp.ClientSession() as session:
        for base, token, status in (
            (through, bound, 200),
            (through, unbound, 403),
            (f"{reached.direct}/apis", bound, 401),
        ):
            async with session.put(
                f"{base}/history.fournos.dev/v1/own/run/artifacts/plots/a.svg",
                data=content,
                headers={"Authorization": f"Bearer {token}", **digest},
                ssl=False,
            ) as response:
                assert response.status == status, await response.text()
    assert [one.path for one in await history.artifacts("job")] == ["deep/a.log", "plots/a.svg"]
    assert b"".join([piece async for piece in history.artifact("job", "plots/a.svg")]) == content


async def _without_rights(reached: Reached) -> None:
    token = await reached.token("default")
    async with reached.as_token(token) as stranger:
        history = AsyncHistory(stranger, reached.stage.namespace)
        for name in ("job", "missing"):
            with pytest.raises(NotAllowedError):
                await history.run(name)
        with pytest.raises(NotAllowedError):
            await history.usage()
    async with aiohttp.ClientSession() as session:
        for shown in (token, "wrong", ""):
            url = f"{reached.direct}/apis/history.fournos.dev/v1/namespaces/{reached.stage.namespace}/runs"
            headers = {"Authorization": f"Bearer {shown}", "X-Remote-User": "system:admin"}
            async with session.get(url, headers=headers, ssl=False) as response:
                assert response.status == 401
