"""Where Kueue's own pod integration is on: whose pods it queues a second time, and whose it does not.

Tekton is played: a TaskRun between the run and its pod, labelled and owned as Tekton does it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from fournos.engine.kube.client import Client
from fournos.engine.kube.credentials import load
from fournos.engine.kube.kinds import NAMESPACE, POD
from fournos.engine.kube.resource import Key, Obj, Resource, uid_of
from tests.integration.conftest import kueue_configured
from tests.integration.frameworks.conftest import (
    FOO,
    QUEUE,
    RUN,
    FrameworkStage,
    Operator,
    install,
    leave_no_webhooks,
)

CONFIG: dict[str, Any] = {
    "integrations": {"frameworks": ["batch/job", "pod"], "externalFrameworks": ["Foo.v1.example.com"]},
}
TASK_RUN = Resource("tekton.dev", "v1", "TaskRun", "taskruns")
MANAGED = "kueue.x-k8s.io/managed"


@pytest.fixture(scope="module")
def kubeconfig() -> Iterator[Path]:
    with kueue_configured(CONFIG) as path:
        yield path


@pytest.fixture
async def stage(
    kubeconfig: Path, crds: None, namespace: str, tmp_path: Path
) -> AsyncIterator[FrameworkStage]:
    operator = Operator(kubeconfig, tmp_path)
    async with Client(load(kubeconfig)) as client:
        found = FrameworkStage(client, namespace, operator)
        try:
            await install(client, FOO)
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": operator.namespace}}
            await client.create(NAMESPACE, body)
            await operator.ready()
            await found.set_up()
            yield found
            await found.clean(RUN, FOO)
        finally:
            operator.stop()
            await leave_no_webhooks(client, operator)


async def owned(stage: FrameworkStage, resource: Resource, name: str, owner: Obj, **spec: Any) -> Obj:
    """With the labels of its owner, which is how the queue's name gets to the pods of a run."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": uid_of(owner),
        "controller": True,
    }
    labels = {QUEUE: "lq", "tekton.dev/pipelineRun": "run"}
    meta = {"name": name, "namespace": stage.namespace, "labels": labels, "ownerReferences": [reference]}
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, "spec": spec}
    return await stage.client.create(resource, body)


async def test_a_run_warns_that_its_pods_are_queued_twice(stage: FrameworkStage) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    await stage.run("run")
    run = await stage.released("run")
    task = await owned(stage, TASK_RUN, "run-t", run, taskRef={"name": "t"})
    pod = await owned(stage, POD, "run-t-pod", task, containers=[container])
    assert pod["metadata"]["labels"][MANAGED] == "true", "Kueue holds it, too"

    async def reported() -> str:
        found = (await stage.job("run"))["metadata"]["annotations"]
        return str(found.get("fournos.dev/queue-warning") or "")

    message = await stage.until(reported, "nothing is said of the second queueing")
    assert (
        message.startswith("PodsQueuedTwice: ")
        and "PipelineRun.v1.tekton.dev, TaskRun.v1.tekton.dev" in message
    )
    # Of a kind that is listed, Kueue leaves the pods alone.
    foo = await stage.foo("foo")
    own = await owned(stage, POD, "foo-pod", foo, containers=[container])
    assert MANAGED not in own["metadata"]["labels"]
    # Kueue lets no pod of its own go before it is deleted.
    await stage.client.delete(POD, Key(stage.namespace, "run-t-pod"))
    await stage.until(lambda: _is_empty(reported), "the warning stays")


async def _is_empty(reported: Any) -> bool:
    return not await reported()
