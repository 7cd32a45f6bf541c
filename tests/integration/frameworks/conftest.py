"""The operator as a process of its own with its webhooks, before a real API server and real Kueue.

Tekton and the controllers of the invented kinds are played: a control plane runs no pods.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.fleet import make
from fournos.engine.api.conditions import Condition, condition, upsert
from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import load
from fournos.engine.kube.errors import ConflictError, KubeError, NotFoundError
from fournos.engine.kube.resource import (
    CUSTOM_RESOURCE_DEFINITION,
    MUTATING_WEBHOOKS,
    NAMESPACE,
    Key,
    Obj,
    Resource,
)
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR, WORKLOAD
from fournos.engine.runtime.clock import SystemClock
from fournos.systems.frameworks.kinds import PIPELINE_RUN
from tests.integration.jobs.operator import Operator
from tests.integration.stage import Stage
from tests.integration.webhook.conftest import address_for
from tests.queues import cluster_queue, local_queue, whole
from tests.waiting import free_port

ROOT = Path(__file__).resolve().parents[3]
RUN = PIPELINE_RUN.resource
FOO = Resource("example.com", "v1", "Foo", "foos")
LATE = Resource("example.com", "v1", "Late", "lates")
QUEUE = "kueue.x-k8s.io/queue-name"
HELD_BY = "fournos.dev/held"
TABLE = [
    {
        "name": "Foo.v1.example.com",
        "hold": {"path": "spec.suspend"},
        "podSets": [{"name": "workers", "template": "spec.template", "count": "spec.replicas"}],
        "finished": [{"path": "status.phase", "succeeded": ["Done"], "failed": ["Broken"]}],
        "active": {"path": "status.active"},
    },
    {
        "name": "Late.v1.example.com",
        "hold": {"path": "spec.suspend"},
        "requests": {"default": {"cpu": 1}},
        "finished": [{"condition": "Complete", "means": "succeeded"}],
    },
]

(ARGO,) = (
    row
    for row in yaml.safe_load((ROOT / "samples" / "frameworks.yaml").read_text())["frameworks"]
    if row["name"].startswith("Workflow.")
)
"""As users are shown it."""
WORKFLOW = Resource("argoproj.io", "v1alpha1", "Workflow", "workflows")
WORKFLOW_CRD = yaml.safe_load((ROOT / "tests" / "fakes" / "argo" / "workflows.yaml").read_text())


def crd(resource: Resource) -> dict[str, Any]:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": free, "status": free}}},
    }
    names = {"kind": resource.kind, "plural": resource.plural, "singular": resource.kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{resource.group}"},
        "spec": {"group": resource.group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


class FrameworkOperator:
    """The operator, which is started by the first test: its webhook configuration has a fixed name."""

    def __init__(self, kubeconfig: Path, directory: Path) -> None:
        self.namespace = f"frameworks-{uuid.uuid4().hex[:6]}"
        self._kubeconfig = kubeconfig
        self._directory = directory
        self._process: Operator | None = None

    @property
    def started(self) -> bool:
        return self._process is not None

    async def ready(self) -> None:
        """Starts it if it does not run, and waits until its webhooks are served."""
        if self._process is None:
            table = self._directory / "frameworks.yaml"
            table.write_text(yaml.safe_dump({"frameworks": [*TABLE, ARGO]}))
            self._process = Operator(
                self._kubeconfig,
                self.namespace,
                self._directory / "operator.log",
                enable="frameworks",
                settings={"CONTROLLER_NAMESPACE": self.namespace, "FRAMEWORKS_FILE": str(table)},
                webhook_url=f"https://{address_for(self._kubeconfig)}:{free_port()}",
            )
        await self._process.ready()

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()

    def tail(self) -> str:
        return self._process.tail() if self._process is not None else ""


@pytest.fixture(scope="package")
def operator(kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FrameworkOperator]:
    found = FrameworkOperator(kubeconfig, tmp_path_factory.mktemp("operator"))
    yield found
    found.stop()


class FrameworkStage(Stage):
    """A namespace with a queue of its own: 2 CPUs and 1 PipelineRun by default."""

    def __init__(self, client: Client, namespace: str, operator: FrameworkOperator) -> None:
        super().__init__(namespace, client)
        self.operator = operator
        self.cluster_scoped: list[tuple[Resource, str]] = []

    async def set_up(
        self, *, cpus: int = 2, runs: int = 1, labels: Mapping[str, str] | None = None, **spec: Any
    ) -> None:
        await self.add(RESOURCE_FLAVOR, self.namespace, {"nodeLabels": dict(labels or {})})
        quotas = {"cpu": cpus, "tekton.dev/pipelineruns": runs}
        queue = cluster_queue(self.namespace, {self.namespace: quotas}, **spec)
        await self.add(CLUSTER_QUEUE, self.namespace, queue["spec"])
        await self.client.create(LOCAL_QUEUE, local_queue("lq", self.namespace))

    async def add(self, resource: Resource, name: str, spec: Any = None, **rest: Any) -> None:
        """A cluster-scoped object, gone after the test."""
        content = {**({"spec": spec} if spec is not None else {}), **rest}
        self.cluster_scoped.append((resource, name))
        await self.client.create(resource, whole(resource, name, **content))

    async def clean(self, *resources: Resource) -> None:
        """Deletes the objects of these kinds, then what `add` has made."""
        for resource in resources:
            for job in (await self.client.list(resource, namespace=self.namespace)).items:
                with suppress(NotFoundError):
                    await self.client.delete(resource, self.key(job["metadata"]["name"]))
        for resource, name in reversed(self.cluster_scoped):
            with suppress(NotFoundError):
                await self.client.delete(resource, Key("", name))

    # --- objects -----------------------------------------------------------------------------------

    async def run(self, name: str, *, priority: str = "", **metadata: Any) -> Obj:
        """A PipelineRun as its user writes it."""
        labels = {QUEUE: "lq", **({"kueue.x-k8s.io/priority-class": priority} if priority else {})}
        meta = {**_meta(self.key(name)), **metadata, "labels": {**labels, **metadata.get("labels", {})}}
        spec = {"pipelineRef": {"name": "p"}}
        body = {"apiVersion": RUN.api_version, "kind": RUN.kind, "metadata": meta, "spec": spec}
        return await self.client.create(RUN, body)

    async def foo(self, name: str, *, resource: Resource = FOO, **spec: Any) -> Obj:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        meta = {**_meta(self.key(name)), "labels": {QUEUE: "lq"}}
        whole = {"replicas": 1, "template": {"spec": {"containers": [container]}}, **spec}
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, "spec": whole}
        return await self.client.create(resource, body)

    async def job(self, name: str, resource: Resource = RUN) -> Obj:
        return await self.get(resource, name)

    async def workload(self, name: str) -> Obj | None:
        """That of an object; None: there is none."""
        for one in (await self.client.list(WORKLOAD, namespace=self.namespace)).items:
            if any(owner["name"] == name for owner in one["metadata"].get("ownerReferences") or ()):
                return one
        return None

    async def workflow(self, name: str) -> Obj:
        """An Argo Workflow as its user writes it."""
        spec = {"entrypoint": "main", "templates": [{"name": "main", "container": {"image": "busybox"}}]}
        annotations = {"fournos.dev/requests": "cpu=2"}
        meta = {**_meta(self.key(name)), "labels": {QUEUE: "lq"}, "annotations": annotations}
        body = {"apiVersion": WORKFLOW.api_version, "kind": WORKFLOW.kind, "metadata": meta, "spec": spec}
        return await self.client.create(WORKFLOW, body)

    async def report(self, name: str, status: str, reason: str, *, resource: Resource = RUN) -> None:
        """Writes the condition of a run as Tekton does."""
        wanted = Condition("Succeeded", status, reason, f"{reason} it is")
        body = {"status": {"conditions": upsert((), wanted, now=SystemClock().now())}}
        await self.client.patch(resource, self.key(name), body, subresource="status")

    async def status(self, name: str, status: Mapping[str, Any], *, resource: Resource = FOO) -> None:
        await self.client.patch(resource, self.key(name), {"status": status}, subresource="status")

    # --- waiting -----------------------------------------------------------------------------------

    def logs(self) -> str:
        return self.operator.tail()

    async def released(self, name: str) -> Obj:
        async def look() -> Obj | None:
            found = await self.job(name)
            return found if "status" not in found["spec"] else None

        return await self.until(look, f"{name} is not let go")  # type: ignore[no-any-return]

    async def finished(self, name: str) -> Mapping[str, Any]:
        async def look() -> Mapping[str, Any] | None:
            found = await self.workload(name)
            return condition(found, "Finished") if found is not None else None

        return await self.until(look, f"the Workload of {name} is not finished")  # type: ignore[no-any-return]

    async def queued(self, name: str) -> Obj:
        return await self.until(lambda: self.workload(name), f"{name} has no Workload")  # type: ignore[no-any-return]


def _meta(key: Key) -> dict[str, Any]:
    return {"name": key.name, "namespace": key.namespace}


async def install(client: Client, resource: Resource) -> None:
    await make(client, CUSTOM_RESOURCE_DEFINITION, WORKFLOW_CRD if resource == WORKFLOW else crd(resource))


@pytest.fixture
async def stage(
    kubeconfig: Path, crds: None, namespace: str, operator: FrameworkOperator
) -> AsyncIterator[FrameworkStage]:
    async with Client(load(kubeconfig)) as client:
        await install(client, FOO)
        await install(client, WORKFLOW)
        with suppress(ConflictError, KubeError):
            await client.create(
                NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": operator.namespace}}
            )
        if not operator.started:
            with suppress(NotFoundError):  # a cluster that was used before has it already
                await client.delete(CUSTOM_RESOURCE_DEFINITION, Key("", crd(LATE)["metadata"]["name"]))
            await operator.ready()
            await install(client, LATE)
        await operator.ready()
        found = FrameworkStage(client, namespace, operator)
        yield found
        await found.clean(RUN, FOO, WORKFLOW)


@pytest.fixture(scope="package", autouse=True)
def _no_webhooks_left(kubeconfig: Path, operator: FrameworkOperator) -> Iterator[None]:
    yield
    operator.stop()

    async def clean() -> None:
        async with Client(load(kubeconfig)) as client:
            await leave_no_webhooks(client, operator)

    asyncio.run(clean())


async def leave_no_webhooks(client: Client, operator: FrameworkOperator) -> None:
    """Deletes what a stopped operator has registered: it would refuse the runs of other tests."""
    for resource, name in ((MUTATING_WEBHOOKS, "fournos-frameworks"), (NAMESPACE, operator.namespace)):
        with suppress(NotFoundError):
            await client.delete(resource, Key("", name))
