"""The API server goes away and comes back.

Kept apart and last: each of Kueue's watches returns when its own backoff lets it, up to a minute later,
and the tests of other faults would have to wait for that.
"""

from __future__ import annotations

import asyncio
import time

import pytest

from devcluster import Cluster
from fournos.engine.kube.errors import KubeError
from tests.integration.jobs.stage import JobStage
from tests.integration.killing import revived

RENEW_DEADLINE, LATE = 10.0, 4.8
"""Seconds without a renewal after which a leader ends, and of two pauses between its attempts."""


@pytest.mark.parametrize("seconds", [0.5, 12.0], ids=["within the lease", "past the lease"])
async def test_the_api_server_restarts(stage: JobStage, cluster: Cluster, seconds: float) -> None:
    stage.executors.held.update(("before", "after"))
    operator = await stage.leading()
    await stage.submit("before")
    await stage.phase("before", "Running")
    began = time.monotonic()
    cluster.stop_component("kube-apiserver")
    try:
        await asyncio.sleep(seconds)
    finally:
        cluster.start_component("kube-apiserver")
    await stage.until(lambda: _answers(stage), "the API server does not come back")
    away = time.monotonic() - began
    await revived(cluster)
    if seconds > RENEW_DEADLINE:  # it may not know whether another leads by now
        assert await operator.ended() == 1
        stage.launch()
    elif away > RENEW_DEADLINE - LATE:  # a machine so slow that it may have happened all the same
        stage.launch()
    stage.executors.finish("before")
    await stage.phase("before", "Succeeded")
    if away <= RENEW_DEADLINE - LATE:
        assert operator.running, operator.tail()
    await stage.submit("after")
    # Kueue's watches come back when their own backoff lets them, which may take a minute.
    await stage.phase("after", "Running")
    stage.executors.finish("after")
    await stage.good_end(dict.fromkeys(("before", "after"), "Succeeded"), runs=["after", "before"])


async def _answers(stage: JobStage) -> bool:
    try:
        return await stage.status("before") != {}
    except KubeError:
        return False
