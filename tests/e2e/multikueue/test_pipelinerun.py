"""A PipelineRun that is created on a manager without nodes, and really runs its pods on a worker.

FOURNOS_E2E_CLUSTER names another cluster of this machine, with pods and Tekton, to be the worker.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import devcluster
from bench.fleet import MANAGER_CONFIG, make, typed
from bench.operator import ROOT, free_port
from devcluster import Cluster
from devcluster.state import require
from fournos.api.conditions import condition, is_true
from fournos.kube.client import Client
from fournos.kube.credentials import load
from fournos.kube.errors import NotFoundError
from fournos.kube.kinds import NAMESPACE, POD, SECRET
from fournos.kube.resource import Key, Resource
from fournos.multikueue import names
from fournos.multikueue.kinds import MULTIKUEUE_CLUSTER, MULTIKUEUE_CONFIG, parse
from fournos.queueing.kinds import ADMISSION_CHECK, CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD

MANAGER = "fournos-mk-manager"
RUN = parse("PipelineRun.v1.tekton.dev")
PLACES = "tekton.dev/pipelineruns"
"""What a PipelineRun asks for that says nothing else."""
KUEUE = "kueue-system"


class Stage:
    def __init__(self, manager: Client, worker: Client, namespace: str, directory: Path) -> None:
        self.manager = manager
        self.worker = worker
        self.namespace = namespace
        self.log = directory / "operators.log"
        self.processes: list[subprocess.Popen[bytes]] = []

    async def furnish(self, kubeconfig: str) -> None:
        for client, check in ((self.manager, self.namespace), (self.worker, "")):
            await make(client, NAMESPACE, typed(NAMESPACE, self.namespace))
            await make(client, RESOURCE_FLAVOR, typed(RESOURCE_FLAVOR, self.namespace, spec={}))
            quota = {"name": self.namespace, "resources": [{"name": PLACES, "nominalQuota": "4"}]}
            spec: dict[str, Any] = {
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}},
                "resourceGroups": [{"coveredResources": [PLACES], "flavors": [quota]}],
            }
            if check:
                spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": check}]}
            await client.create(CLUSTER_QUEUE, typed(CLUSTER_QUEUE, self.namespace, spec=spec))
            local = typed(LOCAL_QUEUE, "q", namespace=self.namespace, spec={"clusterQueue": self.namespace})
            await client.create(LOCAL_QUEUE, local)
        key = self.namespace
        secret = typed(SECRET, key, namespace=KUEUE, stringData={"kubeconfig": kubeconfig})
        await self.manager.create(SECRET, secret)
        source = {"clusterSource": {"kubeConfig": {"location": key, "locationType": "Secret"}}}
        await self.manager.create(MULTIKUEUE_CLUSTER, typed(MULTIKUEUE_CLUSTER, key, spec=source))
        await self.manager.create(MULTIKUEUE_CONFIG, typed(MULTIKUEUE_CONFIG, key, spec={"clusters": [key]}))
        parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": key}
        check_spec = {"controllerName": names.CONTROLLER, "parameters": parameters}
        await self.manager.create(ADMISSION_CHECK, typed(ADMISSION_CHECK, key, spec=check_spec))

    async def vanish(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(timeout=40)
        for client in (self.manager, self.worker):
            for resource in (RUN, WORKLOAD):
                for one in (await client.list(resource, namespace=self.namespace)).items:
                    key = Key(self.namespace, one["metadata"]["name"])
                    with suppress(NotFoundError):  # a Workload goes with its run
                        await client.patch(resource, key, {"metadata": {"finalizers": None}})
                        await client.delete(resource, key)
            for resource in (CLUSTER_QUEUE, NAMESPACE, RESOURCE_FLAVOR):
                await client.delete(resource, Key("", self.namespace))
        for resource in (ADMISSION_CHECK, MULTIKUEUE_CONFIG, MULTIKUEUE_CLUSTER):
            await self.manager.delete(resource, Key("", self.namespace))
        await self.manager.delete(SECRET, Key(KUEUE, self.namespace))

    def operator(self, kubeconfig: Path, enable: str) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("FOURNOS_", "HEARTH_"))} | {
            "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
            "KUBECONFIG": str(kubeconfig),
            "FOURNOS_FRAMEWORKS_NAMESPACE": self.namespace,
            "FOURNOS_FRAMEWORKS_KINDS": "PipelineRun.v1.tekton.dev",
            "FOURNOS_MULTIKUEUE_NAMESPACE": self.namespace,
            "FOURNOS_MULTIKUEUE_ORIGIN": self.namespace,
            "FOURNOS_MULTIKUEUE_EXTERNAL_FRAMEWORKS": "PipelineRun.v1.tekton.dev",
            "FOURNOS_MULTIKUEUE_KEEP_FINISHED_SEC": "5",
        }
        words = ["-m", "fournos", "run", "--enable", enable, "--health-port", str(free_port())]
        with self.log.open("ab") as out:
            command = [sys.executable, *words]
            self.processes.append(
                subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=out)
            )

    async def until(self, holds: Callable[[], Awaitable[Any]], what: str, *, limit: float = 90.0) -> Any:
        began = time.monotonic()
        while not (found := await holds()):
            if time.monotonic() - began > limit:
                tail = self.log.read_text(errors="replace").splitlines()[-25:]
                raise AssertionError(f"{what}, after {limit} s; the operators:\n" + "\n".join(tail))
            await asyncio.sleep(0.2)
        return found


@pytest.fixture(scope="module")
def clusters() -> dict[str, Cluster]:
    given = os.environ.get("FOURNOS_E2E_CLUSTER")
    worker = Cluster(require(given)) if given else devcluster.ensure("fournos-test", profile="full")
    manager = devcluster.ensure(MANAGER, profile="control-plane", kueue_config=MANAGER_CONFIG)
    return {"manager": manager, "worker": worker}


@pytest.fixture
async def stage(clusters: dict[str, Cluster], tmp_path: Path) -> AsyncIterator[Stage]:
    there, here = clusters["worker"].kubeconfig_path, clusters["manager"].kubeconfig_path
    async with Client(load(here)) as manager, Client(load(there)) as worker:
        stage = Stage(manager, worker, f"mk-e2e-{uuid.uuid4().hex[:6]}", tmp_path)
        await stage.furnish(there.read_text())
        stage.operator(here, "frameworks,multikueue")
        stage.operator(there, "frameworks")
        yield stage
        await stage.vanish()


def pipeline_run(name: str, namespace: str) -> dict[str, Any]:
    step = {"name": "s", "image": "docker.io/library/busybox:1.36", "script": "#!/bin/sh\necho ran here\n"}
    body = typed(RUN, name, namespace=namespace)
    body["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "q"}
    spec = {
        "managedBy": names.MULTIKUEUE,
        "pipelineSpec": {"tasks": [{"name": "t", "taskSpec": {"steps": [step]}}]},
    }
    return {**body, "spec": spec}


async def find(client: Client, resource: Resource, key: Key) -> Any:
    try:
        return await client.get(resource, key)
    except NotFoundError:
        return None


async def test_it_runs_on_the_worker_and_its_status_comes_back(stage: Stage) -> None:
    key = Key(stage.namespace, "hello")
    await stage.manager.create(RUN, pipeline_run("hello", stage.namespace))

    async def succeeded() -> bool:
        return is_true(await stage.manager.get(RUN, key), "Succeeded")

    await stage.until(succeeded, "it does not succeed")
    copy = await find(stage.worker, RUN, key)
    assert copy is not None and "managedBy" not in copy["spec"] and is_true(copy, "Succeeded")

    async def its_pod_ended() -> bool:  # Tekton goes by the containers, the kubelet says it of the pod later
        pods = (await stage.worker.list(POD, namespace=stage.namespace)).items
        return [pod["status"]["phase"] for pod in pods] == ["Succeeded"]

    await stage.until(its_pod_ended, "its pod has not ended well")
    assert not (await stage.manager.list(POD, namespace=stage.namespace)).items
    mine = await stage.manager.get(RUN, key)
    assert mine["status"]["childReferences"] == copy["status"]["childReferences"]

    async def finished() -> Any:
        (workload,) = (await stage.manager.list(WORKLOAD, namespace=stage.namespace)).items
        return condition(workload, "Finished")

    assert (await stage.until(finished, "its Workload is not finished"))["reason"] == "Succeeded"

    async def clean() -> bool:
        return await find(stage.worker, RUN, key) is None

    await stage.until(clean, "its copy stays on the worker")
    assert is_true(await stage.manager.get(RUN, key), "Succeeded")
