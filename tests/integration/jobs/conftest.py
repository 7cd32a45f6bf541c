"""A cluster that these tests may break: a control plane of its own with real Kueue, executors played."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import devcluster
from devcluster import Cluster
from fournos.engine.kube.client import Client
from fournos.engine.kube.resource import Key
from fournos.engine.queueing.kinds import CLUSTER_QUEUE
from fournos.systems.jobs import names
from tests.faults.proxy import FaultProxy
from tests.integration.conftest import Server, take_down
from tests.integration.jobs.executors import Executors
from tests.integration.jobs.stage import CLUSTERS, GPU, OTHER_GPU, PIPELINE_NAME, JobStage
from tests.queues import cluster_queue, local_queue

NAME = "fournos-test-faults"
CONTROLLERS = "*,-job-controller,-node-lifecycle-controller"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    return devcluster.ensure(NAME, profile="control-plane", controllers=CONTROLLERS)


@pytest.fixture(scope="package", autouse=True)
def _taken_down() -> Iterator[None]:
    yield
    take_down([NAME])


@pytest.fixture(scope="session")
def kubeconfig(cluster: Cluster) -> Path:
    return cluster.kubeconfig_path


@pytest.fixture
async def stage(
    server: Server, client: Client, crds: None, namespace: str, kubeconfig: Path, tmp_path: Path
) -> AsyncIterator[JobStage]:
    await _set_up(server, namespace)
    executors = Executors(client, namespace)
    async with FaultProxy(kubeconfig) as proxy, executors.working():
        stage = JobStage(namespace, client, proxy, executors, tmp_path)
        await stage.until(stage.queue_active, "the queue is not active")
        yield stage
        for operator in stage.operators:
            operator.kill()
    await client.delete(CLUSTER_QUEUE, Key("", namespace))
    await server("DELETE", f"/api/v1/namespaces/{namespace}-secrets")


async def _set_up(server: Server, namespace: str) -> None:
    """A ClusterQueue of the test's own, so that its usage is this test's alone."""
    secrets = f"{namespace}-secrets"
    await server.apply(f"/api/v1/namespaces/{secrets}", _body("v1", "Namespace", secrets))
    for cluster in CLUSTERS:
        flavor = _body("kueue.x-k8s.io/v1beta2", "ResourceFlavor", cluster)
        flavor["spec"] = {"nodeLabels": {names.CLUSTER_NODE_LABEL: cluster}}
        await server.apply(f"{KUEUE}/resourceflavors/{cluster}", flavor)
        secret = _body("v1", "Secret", f"kubeconfig-{cluster}")
        secret["stringData"] = {"kubeconfig": f"# of {cluster}"}
        await server.apply(f"/api/v1/namespaces/{secrets}/secrets/kubeconfig-{cluster}", secret)
    gpus = {f"fournos/gpu-{GPU}": "100", f"fournos/gpu-{OTHER_GPU}": "4"}
    quotas = {**gpus, names.SLOT_RESOURCE: str(names.SLOTS_PER_CLUSTER)}
    queue = cluster_queue(namespace, dict.fromkeys(CLUSTERS, quotas))
    await server.apply(f"{KUEUE}/clusterqueues/{namespace}", queue)
    high = _body("kueue.x-k8s.io/v1beta2", "WorkloadPriorityClass", "faults-high") | {"value": 100}
    await server.apply(f"{KUEUE}/workloadpriorityclasses/faults-high", high)
    local = local_queue("fournos-queue", namespace)
    await server.apply(f"{KUEUE}/namespaces/{namespace}/localqueues/fournos-queue", local)
    pipeline = _body("tekton.dev/v1", "Pipeline", PIPELINE_NAME)
    pipeline["metadata"]["annotations"] = {names.RESOLVE_IMAGE_ANNOTATION: "resolver:1"}
    step = {"name": "run", "image": "busybox", "script": "true"}
    pipeline["spec"] = {"tasks": [{"name": "run", "taskSpec": {"steps": [step]}}]}
    path = f"/apis/tekton.dev/v1/namespaces/{namespace}/pipelines/{PIPELINE_NAME}"
    await server.apply(path, pipeline)


def _body(version: str, kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}
