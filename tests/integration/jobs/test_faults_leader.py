"""Two replicas: the leader is paused past its lease, or killed; one attempt, one writer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.faults.proxy import FaultProxy
from tests.faults.rules import Hold
from tests.integration.jobs.stage import JobStage
from tests.integration.killing import WRITES


@pytest.fixture
async def second(kubeconfig: Path) -> AsyncIterator[FaultProxy]:
    """The other replica's way to the API server: so it shows who wrote."""
    async with FaultProxy(kubeconfig) as proxy:
        yield proxy


def writes(proxy: FaultProxy, since: int = 0) -> list[str]:
    return [
        f"{call.verb} {call.resource} {call.name}" for call, _ in proxy.calls[since:] if call.verb in WRITES
    ]


async def test_a_leader_paused_past_its_lease_writes_nothing_more_and_exits(
    stage: JobStage, second: FaultProxy
) -> None:
    stage.executors.held.add("running")
    first = await stage.leading()
    was = await stage.leader()
    await stage.launch(second).ready()
    await stage.submit("running")
    await stage.phase("running", "Running")
    first.pause()
    stage.executors.finish("running")
    await stage.submit("new")
    await stage.phase("running", "Succeeded")
    await stage.phase("new", "Succeeded")
    assert await stage.leader() != was
    since = len(stage.proxy.calls)
    first.resume()
    assert await first.ended() == 1
    assert writes(stage.proxy, since) == []
    await stage.good_end({"running": "Succeeded", "new": "Succeeded"}, runs=["new", "running"])


async def test_the_leader_of_two_replicas_is_killed(stage: JobStage, second: FaultProxy) -> None:
    hold = Hold(after=True)
    stage.proxy.on_request(hold, verb="create", resource="pipelineruns")
    first = await stage.leading()
    await stage.launch(second).ready()
    name = await stage.submit()
    await stage.until(hold.reached.is_set, "no PipelineRun is made")
    first.kill()
    stage.proxy.clear()
    await stage.phase(name, "Succeeded")
    await stage.good_end({name: "Succeeded"}, runs=[name])
    assert [a["number"] for a in (await stage.status(name))["attempts"]] == [1]
