"""The cluster for a measurement, and the objects that must exist before the first job."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import devcluster
from dev import resources
from devcluster import Cluster
from devcluster.kubectl import await_established
from devcluster.progress import Progress
from fournos import __version__
from fournos.engine.api.conditions import is_true
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import load
from fournos.engine.kube.resource import Key
from fournos.engine.queueing.kinds import LOCAL_QUEUE
from fournos.systems.jobs import names

NAMESPACE = "bench"
SECRETS_NAMESPACE = "bench-secrets"
QUEUE = "fournos-queue"
PIPELINE = "bench"
GPU = "h200"
USER_AGENT = f"fournos-bench/{__version__}"

CONTROLLERS = "*,-job-controller"
"""All controllers but the Job controller: the benchmark itself completes the resolve Jobs."""
SHIPPED_RATE: Mapping[str, Any] = {"clientConnection": {"qps": 50, "burst": 100}}
"""Of Kueue's Configuration; local clusters have a higher one."""
_ACTIVE_WITHIN = 30.0
_SERVERS = ("kube-apiserver", "etcd", "kueue", "kube-controller-manager")


@dataclass(slots=True)
class Rig:
    """A cluster and the benchmark's client, which counts its requests."""

    cluster: Cluster
    client: Client
    sent: dict[tuple[str, str], int] = field(default_factory=dict)
    """The benchmark's own requests by verb and resource (as `Request` names them), without watches."""

    def processes(self) -> dict[str, int]:
        """Returns name → PID of the processes of the measurement, without the operator."""
        return {"benchmark": os.getpid(), **{name: self.cluster.pid(name) for name in _SERVERS}}


@asynccontextmanager
async def new_rig(
    name: str,
    *,
    quotas: Mapping[str, int],
    keep: bool,
    kueue_config: Mapping[str, Any] | None = None,
    durable: bool = False,
    extra: Sequence[Mapping[str, Any]] = (),
) -> AsyncIterator[Rig]:
    """Brings up a new control plane `name`, and takes it down at the end unless `keep`.

    `quotas` is ResourceFlavor → slots.  `extra` are further objects to apply, CRDs among them.  With
    `durable` etcd waits for the disk, and Kueue sends as many requests a second as it is shipped with.
    """
    cluster = await asyncio.to_thread(
        devcluster.up,
        name,
        profile="control-plane",
        controllers=CONTROLLERS,
        kueue_config={**(SHIPPED_RATE if durable else {}), **(kueue_config or {})},
        durable=durable,
        recreate=True,
    )
    sent: dict[tuple[str, str], int] = {}

    def count(verb: str, resource: str, _code: int, _seconds: float) -> None:
        if verb != "watch":
            sent[verb, resource] = sent.get((verb, resource), 0) + 1

    try:
        await asyncio.to_thread(_set_up, cluster, quotas, extra)
        async with Client(
            load(cluster.kubeconfig_path),
            name="bench",
            qps=2000.0,
            burst=4000,
            observer=count,
            user_agent=USER_AGENT,
        ) as client:
            await _queue_active(client)
            yield Rig(cluster, client, sent)
    finally:
        if not keep:
            await asyncio.to_thread(devcluster.down, name, progress=Progress(quiet=True))


def _set_up(cluster: Cluster, quotas: Mapping[str, int], extra: Sequence[Mapping[str, Any]]) -> None:
    resources.apply(cluster, [*resources.load("manifests/crd.yaml"), *map(dict, extra)])
    await_established(cluster.kubectl_words())
    resources.apply(cluster, resources.namespaces(NAMESPACE, SECRETS_NAMESPACE))
    resources.apply(cluster, queue_objects(quotas), namespace=NAMESPACE)
    resources.apply(cluster, [_pipeline(), *(_kubeconfig(cluster_name) for cluster_name in quotas)])


def queue_objects(quotas: Mapping[str, int]) -> list[dict[str, Any]]:
    """Returns the flavors, one ClusterQueue with all of them, and its LocalQueue.  GPU quota never limits."""
    api = "kueue.x-k8s.io/v1beta2"
    gpus = f"fournos/gpu-{GPU}"
    flavors: list[dict[str, Any]] = [
        {
            "apiVersion": api,
            "kind": "ResourceFlavor",
            "metadata": {"name": name},
            "spec": {"nodeLabels": {names.CLUSTER_NODE_LABEL: name}},
        }
        for name in quotas
    ]
    group = {
        "coveredResources": [gpus, names.SLOT_RESOURCE],
        "flavors": [
            {
                "name": name,
                "resources": [
                    {"name": gpus, "nominalQuota": "100000"},
                    {"name": names.SLOT_RESOURCE, "nominalQuota": str(slots)},
                ],
            }
            for name, slots in quotas.items()
        ],
    }
    access = {"matchLabels": {"fournos.dev/queue-access": "true"}}
    return [
        *flavors,
        {
            "apiVersion": api,
            "kind": "ClusterQueue",
            "metadata": {"name": QUEUE},
            "spec": {"namespaceSelector": access, "resourceGroups": [group]},
        },
        {
            "apiVersion": api,
            "kind": "LocalQueue",
            "metadata": {"name": QUEUE, "namespace": NAMESPACE},
            "spec": {"clusterQueue": QUEUE},
        },
    ]


def _pipeline() -> dict[str, Any]:
    step = {"name": "run", "image": "busybox", "script": "true"}
    return {
        "apiVersion": "tekton.dev/v1",
        "kind": "Pipeline",
        "metadata": {
            "name": PIPELINE,
            "namespace": NAMESPACE,
            "annotations": {names.RESOLVE_IMAGE_ANNOTATION: "resolver:1"},
        },
        "spec": {"tasks": [{"name": "run", "taskSpec": {"steps": [step]}}]},
    }


def _kubeconfig(cluster_name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"kubeconfig-{cluster_name}", "namespace": SECRETS_NAMESPACE},
        "stringData": {"kubeconfig": "apiVersion: v1\nkind: Config\n" + "# as long as usual\n" * 300},
    }


def job(name: str) -> dict[str, Any]:
    """Returns a FournosJob that shares a cluster and to which the resolver adds nothing."""
    return {
        "apiVersion": "fournos.dev/v1",
        "kind": "FournosJob",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "owner": "bench",
            "displayName": name,
            "exclusive": False,
            "hardware": {"gpuType": GPU, "gpuCount": 1},
            "pipeline": PIPELINE,
            "executionEngine": {"mock": {}},
        },
    }


async def _queue_active(client: Client) -> None:
    async with asyncio.timeout(_ACTIVE_WITHIN):
        while not is_true(await client.get(LOCAL_QUEUE, Key(NAMESPACE, QUEUE)), "Active"):  # noqa: ASYNC110
            await asyncio.sleep(0.2)
