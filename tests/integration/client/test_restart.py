"""The API server restarts while the client waits: nothing is lost, and no handle is confused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import devcluster
from fournos.api.kinds import APPWRAPPER, FOURNOS_JOB
from fournos.client import AsyncClient, UnreachableError
from fournos.engine.kube.resource import Key, Resource
from tests.integration.client.test_jobs import SPEC
from tests.integration.conftest import CLUSTER
from tests.integration.killing import revived

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "one"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


@pytest.fixture
async def fournos(kubeconfig: Path, crds: None, namespace: str) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(kubeconfig=kubeconfig, namespace=namespace, owner="perf") as found:
        yield found


async def set_phase(client: AsyncClient, resource: Resource, name: str, phase: str) -> None:
    body = {"status": {"phase": phase}}
    await client.api.patch(resource, Key(client.namespace, name), body, subresource="status")


async def test_the_api_server_restarts_while_handles_wait(fournos: AsyncClient, kubeconfig: Path) -> None:
    cluster = devcluster.ensure(CLUSTER, profile="control-plane")
    if cluster.kubeconfig_path != kubeconfig:
        pytest.skip("FOURNOS_TEST_KUBECONFIG names a cluster whose API server is not ours to stop")
    job = await fournos.submit(SPEC, name="one")
    wrapper = await fournos.submit_appwrapper([POD])
    waiting = [asyncio.create_task(one.wait(timeout=120)) for one in (job, wrapper)]
    await asyncio.sleep(0.5)
    cluster.stop_component("kube-apiserver")
    try:
        with pytest.raises(UnreachableError) as refusal:
            await fournos.jobs()
        assert refusal.value.fix
    finally:
        cluster.start_component("kube-apiserver")
    await revived(cluster)
    assert not any(task.done() for task in waiting)
    await set_phase(fournos, FOURNOS_JOB, "one", "Succeeded")
    await set_phase(fournos, APPWRAPPER, "one", "Succeeded")
    await asyncio.gather(*waiting)
    assert (job.phase, wrapper.phase) == ("Succeeded", "Succeeded")
