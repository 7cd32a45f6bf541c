"""A manager and two workers, each a control plane of its own with real Kueue, and the operator as a process.

No pods run there.  What a kind's controller would do on either side is done by our operators for that
kind, or played.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import yaml

import devcluster
from bench.fleet import FOO, FOO_CRD, make, manager_config, worker_config
from bench.fleet import FRAMEWORKS as BENCHED
from devcluster import Cluster
from fournos.api.kinds import APPWRAPPER, FOURNOS_JOB, MINICLUSTER
from fournos.api.slots import CLUSTER_NODE_LABEL, SLOT_RESOURCE
from fournos.app.parts import kinds
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.api.crd import crd
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import load
from fournos.engine.kube.errors import AlreadyExistsError, NoSuchResourceError, NotFoundError, TransientError
from fournos.engine.kube.resource import (
    CUSTOM_RESOURCE_DEFINITION,
    JOB,
    LEASE,
    NAMESPACE,
    SECRET,
    Key,
    Obj,
    Resource,
)
from fournos.engine.queueing.kinds import (
    ADMISSION_CHECK,
    CLUSTER_QUEUE,
    LOCAL_QUEUE,
    RESOURCE_FLAVOR,
    WORKLOAD,
)
from fournos.systems.multikueue.config import MULTIKUEUE_CLUSTER, MULTIKUEUE_CONFIG, parse
from tests.integration.jobs.operator import Operator
from tests.multikueue_configuration import configuration
from tests.waiting import LIMIT, free_port, until

ROOT = Path(__file__).resolve().parents[3]
KUEUE = "kueue-system"
PIPELINE_RUN = parse("PipelineRun.v1.tekton.dev")
JOBS = (FOO, PIPELINE_RUN, FOURNOS_JOB, APPWRAPPER, MINICLUSTER, JOB)
PLACES = "tekton.dev/pipelineruns"
"""What a PipelineRun asks for that says nothing else."""
TARGET, GPU = "mk-target", "fournos/gpu-h200"
"""Where FournosJobs run: a flavor of this name."""
MANAGER, WORKERS = "fournos-mk-manager", ("fournos-mk-worker1", "fournos-mk-worker2")


FRAMEWORKS = (*BENCHED, "MiniCluster.v1alpha2.flux-framework.org")
OURS = (*FRAMEWORKS, "AppWrapper.v1beta2.workload.codeflare.dev")
"""Kueue's own adapter takes AppWrappers by its own integration of them."""
WORKER_CONFIG, MANAGER_CONFIG = worker_config(FRAMEWORKS), manager_config(FRAMEWORKS)
CONTROLLERS = "*,-job-controller"
"""Jobs are played, too."""


def bring_up(kueue_configs: Mapping[str, dict[str, Any]]) -> dict[str, Cluster]:
    """Side by side: each waits for its own programs most of the time."""

    def start(name: str) -> Cluster:
        return devcluster.ensure(
            name, profile="control-plane", controllers=CONTROLLERS, kueue_config=kueue_configs[name]
        )

    with ThreadPoolExecutor() as pool:
        return dict(zip(kueue_configs, pool.map(start, kueue_configs), strict=True))


class Site:
    """One cluster of the fleet, in the namespace of one test."""

    def __init__(self, name: str, cluster: Cluster, client: Client, namespace: str) -> None:
        self.name = name
        self.cluster = cluster
        self.client = client
        self.namespace = namespace

    def key(self, name: str) -> Key:
        return Key(self.namespace, name)

    async def find(self, resource: Resource, name: str) -> Any:
        try:
            return await self.client.get(resource, self.key(name))
        except NotFoundError:
            return None

    async def all(self, resource: Resource) -> list[Any]:
        return list((await self.client.list(resource, namespace=self.namespace)).items)

    async def define(self) -> None:
        """All kinds of jobs."""
        await asyncio.gather(
            self._define(FOO, lambda: FOO_CRD),
            *(self._define(kind.resource, partial(crd, kind, rules=rules)) for kind, rules in kinds()),
        )

    async def _define(self, resource: Resource, definition: Callable[[], Obj]) -> None:
        """Creates the CRD of a kind that is not served.

        The API server validates a CRD before it finds that there is one of this name already, which takes
        longer than a list.
        """
        try:
            await self.client.list(resource, namespace=self.namespace or "default")
        except NoSuchResourceError:
            await make(self.client, CUSTOM_RESOURCE_DEFINITION, definition())

    async def set_up(self, *, cpu: int, check: str = "") -> None:
        """Namespace and queue; `check` names the AdmissionCheck of the ClusterQueue."""
        await self.define()
        await make(self.client, NAMESPACE, {"metadata": {"name": self.namespace}})
        await make(self.client, RESOURCE_FLAVOR, typed(RESOURCE_FLAVOR, "default", spec={}))
        flavor = {"nodeLabels": {CLUSTER_NODE_LABEL: TARGET}}
        await make(self.client, RESOURCE_FLAVOR, typed(RESOURCE_FLAVOR, TARGET, spec=flavor))
        places = [{"name": name, "nominalQuota": "100"} for name in (GPU, SLOT_RESOURCE)]
        target = {"name": TARGET, "resources": places}
        plain = [{"name": name, "nominalQuota": str(cpu)} for name in ("cpu", PLACES)]
        spec: dict[str, Any] = {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}},
            "resourceGroups": [
                {"coveredResources": ["cpu", PLACES], "flavors": [{"name": "default", "resources": plain}]},
                {"coveredResources": [GPU, SLOT_RESOURCE], "flavors": [target]},
            ],
        }
        if check:
            spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": check}]}
        await make(self.client, CLUSTER_QUEUE, typed(CLUSTER_QUEUE, self.namespace, spec=spec))
        local = typed(LOCAL_QUEUE, "q", spec={"clusterQueue": self.namespace})
        local["metadata"]["namespace"] = self.namespace
        await make(self.client, LOCAL_QUEUE, local)

    async def stop_policy(self, policy: str) -> None:
        """Returns when Kueue has seen it: its scheduler would still admit jobs meanwhile.

        Before a drain the queue is held, because what is admitted meanwhile would not be drained.
        """
        if policy != "None":
            await self._set_stop_policy("Hold")
            await until(self._is_stopped, "Kueue does not see that the queue is stopped")
        if policy != "Hold":
            await self._set_stop_policy(policy)

    async def _set_stop_policy(self, policy: str) -> None:
        body = {"spec": {"stopPolicy": policy}}
        await self.client.patch(CLUSTER_QUEUE, Key("", self.namespace), body)

    async def _is_stopped(self) -> bool:
        queue = await self.client.get(CLUSTER_QUEUE, Key("", self.namespace))
        return (condition(queue, "Active") or {}).get("status") == "False"

    async def tear_down(self) -> None:
        """After a restart of the cluster Kueue's conversion webhook comes back a little later."""
        async with asyncio.timeout(LIMIT):
            while True:
                try:
                    return await self._clear()
                except TransientError:
                    await asyncio.sleep(0.5)

    async def _clear(self) -> None:
        for resource in (LOCAL_QUEUE, *JOBS, WORKLOAD):
            for obj in await self.all(resource):
                key = self.key(obj["metadata"]["name"])
                with suppress(NotFoundError):  # a Workload goes with its job
                    await self.client.patch(resource, key, {"metadata": {"finalizers": None}})
                    await self.client.delete(resource, key)
        for resource, name in ((CLUSTER_QUEUE, self.namespace), (NAMESPACE, self.namespace)):
            with suppress(NotFoundError):
                await self.client.delete(resource, Key("", name))


class Fleet:
    def __init__(self, manager: Site, workers: dict[str, Site], directory: Path) -> None:
        self.manager = manager
        self.workers = workers
        self.check = f"{manager.namespace}-check"
        self.log = directory / "operator.log"
        self.operators: list[Operator] = []
        """Of this test."""
        self.shared: Sequence[Operator] = ()
        """Of all tests of a file (`hired`)."""
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def namespace(self) -> str:
        return self.manager.namespace

    def cluster_name(self, worker: str) -> str:
        return f"{self.namespace}-{worker}"

    async def set_up(self, *, controller: str, cpu: int = 60) -> None:
        await asyncio.gather(
            self.manager.set_up(cpu=2 * cpu, check=self.check),
            *(worker.set_up(cpu=cpu) for worker in self.workers.values()),
        )
        client = self.manager.client
        for name, worker in self.workers.items():
            await self.rotate(name, worker.cluster.kubeconfig_path.read_text())
            source = {"kubeConfig": {"location": self.cluster_name(name), "locationType": "Secret"}}
            body = typed(MULTIKUEUE_CLUSTER, self.cluster_name(name), spec={"clusterSource": source})
            await client.create(MULTIKUEUE_CLUSTER, body)
        spec: dict[str, Any] = {"clusters": [self.cluster_name(name) for name in self.workers]}
        await client.create(MULTIKUEUE_CONFIG, typed(MULTIKUEUE_CONFIG, self.check, spec=spec))
        parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": self.check}
        spec = {"controllerName": controller, "parameters": parameters}
        await client.create(ADMISSION_CHECK, typed(ADMISSION_CHECK, self.check, spec=spec))

    async def rotate(self, worker: str, kubeconfig: str) -> None:
        name = self.cluster_name(worker)
        body = {"metadata": {"name": name, "namespace": KUEUE}, "stringData": {"kubeconfig": kubeconfig}}
        try:
            await self.manager.client.create(SECRET, body)
        except AlreadyExistsError:
            await self.manager.client.patch(SECRET, Key(KUEUE, name), {"stringData": body["stringData"]})

    async def tear_down(self) -> None:
        self.stop()
        for operator in self.operators:
            operator.stop()
        client = self.manager.client
        await asyncio.gather(
            self.manager.tear_down(), *(worker.tear_down() for worker in self.workers.values())
        )
        for resource in (ADMISSION_CHECK, MULTIKUEUE_CONFIG):
            await client.delete(resource, Key("", self.check))
        for name in self.workers:
            await client.delete(MULTIKUEUE_CLUSTER, Key("", self.cluster_name(name)))
            await client.delete(SECRET, Key(KUEUE, self.cluster_name(name)))

    # --- the operator ---

    def start(self, **section: str) -> None:
        """Starts the adapter; `section` is that of Kueue's Configuration."""
        # On a busy machine a worker may answer late, and what it runs would rightly run again.
        section = {"workerLostTimeout": "5m", "gcInterval": "4s", "origin": self.namespace} | section
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("FOURNOS_", "HEARTH_"))}
        environment |= {
            "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
            "KUBECONFIG": str(self.manager.cluster.kubeconfig_path),
            "FOURNOS_CONTROLLER_NAMESPACE": self.namespace,
            "FOURNOS_MULTIKUEUE_CONFIG_FILE": configuration(*OURS, directory=self._directory, **section),
        }
        words = ["-m", "fournos", "run", "--enable", "multikueue", "--health-port", str(free_port())]
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, *words], cwd=ROOT, env=environment, stdout=out, stderr=out
            )

    async def active(self) -> None:
        """Returns when the operator has found a worker that can be used."""

        async def reported() -> bool:
            check = await self.manager.client.get(ADMISSION_CHECK, Key("", self.check))
            return is_true(check, "Active")

        await self.until(reported, "no worker can be used")

    async def connected(self) -> None:
        """Returns when Kueue's own adapter is connected to all workers."""

        async def reported() -> bool:
            keys = [Key("", self.cluster_name(name)) for name in self.workers]
            found = [await self.manager.client.get(MULTIKUEUE_CLUSTER, key) for key in keys]
            return all(is_true(one, "Active") for one in found)

        await self.until(reported, "Kueue is not connected to all workers")

    def stop(self, *, kill: bool = False) -> None:
        if self._process is not None:
            self._process.kill() if kill else self._process.terminate()
            self._process.wait(timeout=LIMIT)
            self._process = None

    async def kill(self) -> None:
        """kill -9, and its lease is taken away: the wait for it to expire is not what is tested."""
        self.stop(kill=True)
        with suppress(NotFoundError):
            await self.manager.client.delete(LEASE, self.manager.key("fournos-multikueue"))

    async def staff(self, systems: str, *, manager: str = "", **more: str) -> None:
        """An operator on each cluster for the kinds themselves; `manager` names other systems there."""
        for site in (self.manager, *self.workers.values()):
            enable = manager if manager and site is self.manager else systems
            self.operators.append(operator(site.cluster, self._directory, self.namespace, enable, **more))
        await asyncio.gather(*(operator.ready() for operator in self.operators))

    async def until(self, holds: Callable[[], Awaitable[Any]], what: str, *, limit: float = LIMIT) -> Any:
        return await until(holds, what, limit=limit, report=self.report)

    def report(self) -> str:
        """The end of each operator's log."""
        lines = self.log.read_text(errors="replace").splitlines()[-25:] if self.log.exists() else []
        for one in (*self.operators, *self.shared):
            lines += [f"--- {one.log.stem}", one.tail(10)]
        return "\n".join(lines)


def operator(cluster: Cluster, logs: Path, namespace: str, enable: str, **more: str) -> Operator:
    leases = ("APPWRAPPER_NAMESPACE", "MINICLUSTER_NAMESPACE", "FRAMEWORKS_NAMESPACE")
    settings = {"KUEUE_LOCAL_QUEUE_NAME": "q", **dict.fromkeys(leases, namespace), **more}
    log = logs / f"{cluster.name}.log"
    return Operator(cluster.kubeconfig_path, namespace, log, enable=enable, settings=settings)


@contextmanager
def hired(clusters: Mapping[str, Cluster], logs: Path, systems: str, **more: str) -> Iterator[list[Operator]]:
    """An operator on each cluster for kinds of all namespaces: to start one takes longer than most tests."""
    namespace = f"mk-staff-{uuid.uuid4().hex[:6]}"

    async def set_up(cluster: Cluster) -> None:
        async with Client(load(cluster.kubeconfig_path)) as client:
            await Site("", cluster, client, namespace).define()
            await client.create(NAMESPACE, {"metadata": {"name": namespace}})

    async def start() -> list[Operator]:
        await asyncio.gather(*map(set_up, clusters.values()))
        found = [operator(cluster, logs, namespace, systems, **more) for cluster in clusters.values()]
        await asyncio.gather(*(one.ready() for one in found))
        return found

    async def clear(cluster: Cluster) -> None:
        async with Client(load(cluster.kubeconfig_path)) as client:
            await client.delete(NAMESPACE, Key("", namespace))

    async def end(found: list[Operator]) -> None:
        for one in found:
            one.stop()
        await asyncio.gather(*map(clear, clusters.values()))

    found = asyncio.run(start())
    yield found
    asyncio.run(end(found))


def typed(resource: Resource, name: str, *, spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {"name": name},
        "spec": spec,
    }


def insecure(kubeconfig: str) -> str:
    content = yaml.safe_load(kubeconfig)
    for one in content["clusters"]:
        one["cluster"].pop("certificate-authority-data", None)
        one["cluster"]["insecure-skip-tls-verify"] = True
    return yaml.safe_dump(content)


def unreachable(kubeconfig: str) -> str:
    """A kubeconfig of a port without a listener."""
    content = yaml.safe_load(kubeconfig)
    for one in content["clusters"]:
        one["cluster"]["server"] = "https://127.0.0.1:9"
    return yaml.safe_dump(content)
