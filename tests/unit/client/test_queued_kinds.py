"""Handles of queues."""

from __future__ import annotations

import pytest

from fournos.client import AsyncClient, FournosError
from fournos.engine.kube.resource import Resource
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from tests.unit.client.kinds import condition, status
from tests.unit.client.world import NS, Api


async def test_queues_and_what_waits_in_them(client: AsyncClient, api: Api) -> None:
    meta = {"name": "team", "namespace": NS}
    api.server.create(LOCAL_QUEUE, {"metadata": meta, "spec": {"clusterQueue": "cq"}})
    status(
        api, LOCAL_QUEUE, "team", pendingWorkloads=1, admittedWorkloads=2, conditions=[condition("Active")]
    )
    api.server.create(CLUSTER_QUEUE, {"metadata": {"name": "cq"}, "spec": {}})
    path = "clusterqueues/cq/pendingworkloads"
    visibility = ("visibility.kueue.x-k8s.io", "v1beta2", "PendingWorkload", path)
    api.server.unserved.add(Resource(*visibility, namespaced=False, by_offset=True))
    owner = {"kind": "PipelineRun", "name": "run", "uid": "r", "controller": True}
    meta = {"name": "pipelinerun-run", "namespace": NS, "ownerReferences": [owner]}
    api.server.create(WORKLOAD, {"metadata": meta, "spec": {"queueName": "team"}})
    (queue,) = await client.queues()
    assert (queue.name, queue.cluster_queue, queue.pending, queue.admitted) == ("team", "cq", 1, 2)
    assert queue.phase == "Active"
    (entry,) = await queue.waiting()
    assert (entry.place, entry.kind, entry.name) == (1, "PipelineRun", "run")
    with pytest.raises(FournosError, match="a queue has no end to wait for"):
        await queue.wait()
    await queue.wait("condition=Active", timeout=1)
