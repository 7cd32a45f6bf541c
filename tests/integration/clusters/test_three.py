"""Three target clusters, each an API server of its own: NVIDIA, AMD, and one without feature discovery."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

import devcluster
from devcluster import Cluster
from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import load
from fournos.engine.kube.resource import NODE, Key
from tests.integration.clusters.conftest import SLOT, ClusterStage
from tests.integration.conftest import take_down
from tests.integration.jobs.conftest import CONTROLLERS, NAME

TARGET = "fournos-test-target"
READY = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}


@asynccontextmanager
async def gpus(kubeconfig: Path, name: str, labels: dict[str, str], resource: str) -> AsyncIterator[None]:
    """A Node with four GPUs there."""
    async with Client(load(kubeconfig)) as client:
        meta = {"name": name, "labels": labels}
        await client.create(NODE, {"apiVersion": "v1", "kind": "Node", "metadata": meta})
        status = {"capacity": {resource: "4"}, "allocatable": {resource: "4"}, "conditions": [READY]}
        await client.patch(NODE, Key("", name), {"status": status}, subresource="status")
        try:
            yield
        finally:
            await client.delete(NODE, Key("", name))


@pytest.fixture
def third() -> Iterator[Cluster]:
    yield devcluster.ensure(TARGET, profile="control-plane", without=("tekton", "kueue"))
    take_down([TARGET])


async def test_three_clusters(hub: ClusterStage, kubeconfig: Path, third: Cluster) -> None:
    second = devcluster.ensure(NAME, profile="control-plane", controllers=CONTROLLERS)
    targets = {
        "nvidia": (kubeconfig, {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}, "nvidia.com/gpu"),
        "amd": (second.kubeconfig_path, {"amd.com/gpu.product-name": "AMD_Instinct_MI210"}, "amd.com/gpu"),
        "plain": (third.kubeconfig_path, {}, "nvidia.com/gpu"),
    }
    short = {"nvidia": "h100", "amd": "mi210", "plain": "nvidia"}
    summary = {"nvidia": "4x NVIDIA-H100-80GB-HBM3", "amd": "4x AMD_Instinct_MI210", "plain": "4x NVIDIA"}
    async with AsyncExitStack() as stack:
        hub.start(enable="clusters")
        for name, (path, labels, resource) in targets.items():
            await stack.enter_async_context(gpus(path, f"{hub.name}-node", labels, resource))
            await hub.add(f"{hub.name}-{name}", path)

        async def complete() -> bool:
            found = await hub.quotas()
            return all(
                found.get(f"{hub.name}-{name}", {}).get(f"fournos/gpu-{model}") == 4
                and found[f"{hub.name}-{name}"][SLOT] == 100
                for name, model in short.items()
            )

        await hub.until(complete, "not all three have their quotas")
        for name, text in summary.items():
            # The hub is one of the targets, so Nodes of other tests may count, too.
            assert text in (await hub.status(f"{hub.name}-{name}"))["gpuSummary"]
        await hub.client.delete(FOURNOS_CLUSTER, Key(hub.name, f"{hub.name}-amd"))
        await hub.until(lambda: hub.gone(f"{hub.name}-amd"), "it is not decommissioned")
        left = await hub.quotas()
        assert set(left) == {f"{hub.name}-nvidia", f"{hub.name}-plain"}
        assert all("fournos/gpu-mi210" not in quotas for quotas in left.values())
