"""A hub with real Kueue, target clusters that are real API servers, and the operator as a process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.engine.kube.client import Client
from fournos.engine.kube.errors import NotFoundError
from fournos.engine.kube.resource import NAMESPACE, NODE, SECRET, Key, Obj
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR
from tests.integration.conftest import Server
from tests.integration.jobs.operator import Operator
from tests.integration.stage import Stage
from tests.waiting import LIMIT, Message

SLOT = "fournos/cluster-slot"


class ClusterStage(Stage):
    """Namespaces and a ClusterQueue of one test; names of clusters begin with the namespace's."""

    def __init__(self, client: Client, namespace: str, kubeconfig: Path, directory: Path) -> None:
        super().__init__(namespace, client)
        self.name = namespace
        self.secrets = f"{namespace}-secrets"
        self.kubeconfig = kubeconfig
        self.log = directory / "operator.log"
        self._process: Operator | None = None

    # --- the operator ---

    def start(self, *, enable: str = "jobs,clusters") -> None:
        variables = {
            "NAMESPACE": self.name,
            "SECRETS_NAMESPACE": self.secrets,
            "EXECUTION_NAMESPACE": self.name,
            "KUEUE_CLUSTER_QUEUE_NAME": self.name,
            "RECONCILE_INTERVAL_SEC": "2",
            "GPU_DISCOVERY_TIMEOUT_SEC": "3",
        }
        hearth = {f"HEARTH_{name}": value for name, value in variables.items()}
        self._process = Operator(self.kubeconfig, self.name, self.log, enable=enable, variables=hearth)

    def stop(self) -> None:
        if self._process is not None:
            self._process.stop()
            self._process = None

    # --- what people do ---

    async def add(self, cluster: str, kubeconfig: Path | bytes, *, label: bool = True) -> None:
        content = kubeconfig if isinstance(kubeconfig, bytes) else _content(kubeconfig)
        labels = {"fournos.dev/cluster-kubeconfig": "true"} if label else {}
        meta = {"name": f"kubeconfig-{cluster}", "namespace": self.secrets, "labels": labels}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": meta}
        await self.client.create(SECRET, {**body, "stringData": {"kubeconfig": content.decode()}})

    async def edit(self, cluster: str, **spec: Any) -> None:
        await self.client.patch(FOURNOS_CLUSTER, Key(self.name, cluster), {"spec": spec})

    # --- what is there ---

    async def cluster(self, cluster: str) -> Obj:
        return await self.client.get(FOURNOS_CLUSTER, Key(self.name, cluster))

    async def status(self, cluster: str) -> dict[str, Any]:
        try:
            return dict((await self.cluster(cluster)).get("status") or {})
        except NotFoundError:
            return {}

    async def quotas(self) -> dict[str, dict[str, int]]:
        queue = await self.client.get(CLUSTER_QUEUE, Key("", self.name))
        return {
            entry["name"]: {quota["name"]: int(quota["nominalQuota"]) for quota in entry["resources"]}
            for group in queue["spec"].get("resourceGroups") or ()
            for entry in group["flavors"]
        }

    async def until(self, look: Callable[[], Any], message: Message, *, limit: float = LIMIT) -> Any:
        return await super().until(look, message, limit=limit)

    def logs(self) -> str:
        """Returns the end of the operator's log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-25:]) if self.log.exists() else ""

    async def gone(self, cluster: str) -> bool:
        return await self.is_gone(FOURNOS_CLUSTER, cluster)


@pytest.fixture
async def hub(
    server: Server, client: Client, crds: None, namespace: str, kubeconfig: Path, tmp_path: Path
) -> AsyncIterator[ClusterStage]:
    hub = ClusterStage(client, namespace, kubeconfig, tmp_path)
    await client.create(NAMESPACE, {"metadata": {"name": hub.secrets}})
    queue = {
        "apiVersion": CLUSTER_QUEUE.api_version,
        "kind": "ClusterQueue",
        "metadata": {"name": namespace},
        "spec": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "preemption": {"withinClusterQueue": "LowerPriority"},
        },
    }
    await client.create(CLUSTER_QUEUE, queue)
    local = {
        "apiVersion": LOCAL_QUEUE.api_version,
        "kind": "LocalQueue",
        "metadata": {"name": "fournos-queue", "namespace": namespace},
        "spec": {"clusterQueue": namespace},
    }
    await client.create(LOCAL_QUEUE, local)
    yield hub
    hub.stop()
    for found in (await client.list(FOURNOS_CLUSTER, namespace=namespace)).items:
        off = {"metadata": {"finalizers": None}}
        await client.patch(FOURNOS_CLUSTER, Key(namespace, found["metadata"]["name"]), off)
    await client.delete(CLUSTER_QUEUE, Key("", namespace))
    for flavor in (await client.list(RESOURCE_FLAVOR)).items:
        if flavor["metadata"]["name"].startswith(namespace):
            await client.delete(RESOURCE_FLAVOR, Key("", flavor["metadata"]["name"]))
    await server("DELETE", f"/api/v1/namespaces/{hub.secrets}")


@pytest.fixture
async def gpu_node(client: Client, namespace: str) -> AsyncIterator[str]:
    """A Node with two L40S on the API server that plays the targets."""
    name = f"{namespace}-node"
    labels = {"nvidia.com/gpu.product": "NVIDIA-L40S"}
    await client.create(
        NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
    )
    await set_gpus_of_node(client, name, 2)
    yield name
    await client.delete(NODE, Key("", name))


async def set_gpus_of_node(client: Client, name: str, gpus: int) -> None:
    amounts = {"cpu": "8", "nvidia.com/gpu": str(gpus)}
    ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}]
    status = {"capacity": amounts, "allocatable": amounts, "conditions": ready}
    await client.patch(NODE, Key("", name), {"status": status}, subresource="status")


def _content(kubeconfig: Path) -> bytes:
    return kubeconfig.read_bytes()
