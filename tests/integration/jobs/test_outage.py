"""The API server goes away and comes back.

Kept apart and last: each of Kueue's watches returns when its own backoff lets it, up to a minute later,
and the tests of other faults would have to wait for that.
"""

from __future__ import annotations

import asyncio

import pytest

from devcluster import Cluster, DevclusterError
from fournos.kube.errors import KubeError
from tests.integration.jobs.stage import JobStage


@pytest.mark.parametrize("seconds", [2.0, 12.0], ids=["within the lease", "past the lease"])
async def test_the_api_server_restarts(stage: JobStage, cluster: Cluster, seconds: float) -> None:
    stage.executors.held.update(("before", "after"))
    operator = await stage.leading()
    await stage.submit("before")
    await stage.phase("before", "Running")
    cluster.stop_component("kube-apiserver")
    try:
        await asyncio.sleep(seconds)
    finally:
        cluster.start_component("kube-apiserver")
    await stage.until(lambda: _answers(stage), "the API server does not come back")
    _keep_alive(cluster)
    if seconds > 10:  # it may not know whether another leads by now
        assert await operator.ended(limit=15) == 1
        stage.launch()
    stage.executors.finish("before")
    await stage.phase("before", "Succeeded")
    if seconds < 10:
        assert operator.running, operator.tail()
    await stage.until(stage.accepts, "Kueue's webhook does not answer")
    await stage.submit("after")
    # Kueue's watches come back when their own backoff lets them, which may take a minute.
    await stage.phase("after", "Running", limit=120)
    stage.executors.finish("after")
    await stage.good_end(dict.fromkeys(("before", "after"), "Succeeded"), runs=["after", "before"])


async def _answers(stage: JobStage) -> bool:
    try:
        return await stage.status("before") != {}
    except KubeError:
        return False


def _keep_alive(cluster: Cluster) -> None:
    """As a kubelet does: the others may give up without an API server."""
    for component in ("kueue", "kube-controller-manager"):
        try:
            cluster.pid(component)
        except DevclusterError:
            cluster.start_component(component)
