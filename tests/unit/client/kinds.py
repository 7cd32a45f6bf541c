"""Objects of other kinds than jobs in the world of the client's tests, and changes of their status."""

from __future__ import annotations

import asyncio
from typing import Any

from fournos.api.kinds import MINICLUSTER, PIPELINE_RUN
from fournos.engine.kube.resource import Key, Resource
from fournos.engine.queueing.workload import QUEUE_NAME_LABEL
from tests.unit.client.world import NS, Api

POD_MANIFEST: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "one", "labels": {QUEUE_NAME_LABEL: "team"}},
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
}
FLUX: dict[str, Any] = {
    "apiVersion": MINICLUSTER.api_version,
    "kind": "MiniCluster",
    "metadata": {"name": "flux"},
    "spec": {"size": 2, "containers": [{"image": "i", "command": "true"}]},
}


def status(api: Api, resource: Resource, name: str, **fields: Any) -> None:
    api.server.patch(resource, Key(NS, name), {"status": fields}, subresource="status")


def condition(type_: str, status: str = "True", reason: str = "R", message: str = "") -> dict[str, Any]:
    when = "2030-01-01T00:00:00Z"
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": when,
    }


async def started(call: Any) -> asyncio.Task[Any]:
    task = asyncio.ensure_future(call)
    await settled()
    assert not task.done(), task
    return task


async def settled() -> None:
    for _ in range(100):
        await asyncio.sleep(0)


def run(api: Api, name: str, *conditions: Any, **spec: Any) -> None:
    meta = {"name": name, "namespace": NS, "labels": {QUEUE_NAME_LABEL: "team"}}
    api.server.create(PIPELINE_RUN, {"metadata": meta, "spec": spec})
    status(api, PIPELINE_RUN, name, conditions=list(conditions))
