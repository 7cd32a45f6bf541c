"""Handles of dispatched jobs and of queues."""

from __future__ import annotations

import pytest

from fournos.client import AsyncClient, FournosError, MissingError, ObjectFailed
from fournos.engine.kube.resource import Resource
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, LOCAL_QUEUE
from tests.unit.client.kinds import at, condition, dispatched, settled, started, status
from tests.unit.client.world import NS, Api


async def test_where_a_dispatched_job_runs(client: AsyncClient, api: Api) -> None:
    dispatched(api)
    assert [one.job for one in await client.dispatched()] == ["PipelineRun/run"]
    where = await client.dispatch("run")
    assert (where.phase, where.worker, where.remote_name, where.adapter) == ("Queued", None, None, "Kueue's")
    running = await started(where.wait("Running"))
    quota = condition("QuotaReserved")
    at(api, nominatedClusterNames=["w1", "w2"], conditions=[quota])
    await settled()
    assert (where.phase, running.done()) == ("Pending", False)
    at(api, "Ready", "on w2", nominatedClusterNames=None, clusterName="w2", conditions=[quota])
    await running
    assert (where.worker, where.remote_name, where.message) == ("w2", f"{NS}/run", "on w2")
    explained = await where.explain()
    assert explained.verdict == "PipelineRun/run is Running."
    assert "Worker: w2" in explained.because
    end = condition("Finished", reason="Failed", message="exit 1")
    at(api, "Ready", clusterName="w2", conditions=[quota, end])
    with pytest.raises(ObjectFailed, match="exit 1"):
        await where.wait()
    with pytest.raises(MissingError, match="no queued job nobody"):
        await client.dispatch("nobody")
    with pytest.raises(FournosError, match="does not go to a worker"):
        await client.dispatch("here")


async def test_queues_and_what_waits_in_them(client: AsyncClient, api: Api) -> None:
    meta = {"name": "team", "namespace": NS}
    api.server.create(LOCAL_QUEUE, {"metadata": meta, "spec": {"clusterQueue": "cq"}})
    status(
        api, LOCAL_QUEUE, "team", pendingWorkloads=1, admittedWorkloads=2, conditions=[condition("Active")]
    )
    api.server.create(CLUSTER_QUEUE, {"metadata": {"name": "cq"}, "spec": {}})
    path = "clusterqueues/cq/pendingworkloads"
    visibility = ("visibility.kueue.x-k8s.io", "v1beta2", "PendingWorkload", path)
    api.server.unserved.add(Resource(*visibility, namespaced=False))
    dispatched(api)
    (queue,) = await client.queues()
    assert (queue.name, queue.cluster_queue, queue.pending, queue.admitted) == ("team", "cq", 1, 2)
    assert queue.phase == "Active"
    (entry,) = await queue.waiting()
    assert (entry.place, entry.kind, entry.name) == (1, "PipelineRun", "run")
    with pytest.raises(FournosError, match="a queue has no end to wait for"):
        await queue.wait()
    await queue.wait("condition=Active", timeout=1)
