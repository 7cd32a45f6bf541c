"""PipelineRuns made on a manager, with the operator that queues them on every cluster; Tekton is played."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest

from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.resource import Obj
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.systems.frameworks import kinds as framework_names
from fournos.systems.multikueue import names
from tests.integration.jobs.executors import Executors, ended_run, over
from tests.integration.multikueue.fleet import PIPELINE_RUN, Fleet, typed
from tests.waiting import LIMIT

COUNT = 100
FAILING = "r7"
HELD = "r99"
"""It ends last, so that all kills come midway."""
KILLED_AT = (20, 60)
"""How many have finished by then."""


class Tekton(Executors):
    """Ends every run at once that is not held back."""

    def _move(self, run: Obj) -> dict[str, Any] | None:
        requested = run["spec"].get("status")
        if over(run) or requested == "PipelineRunPending":
            return None
        if requested:
            return ended_run("False", "Cancelled", "was cancelled")
        if run["metadata"]["name"] in self.held:
            return None
        if run["metadata"]["name"] == FAILING:
            return ended_run("False", "Failed", "Tasks Completed: 1 (Failed: 1)")
        return ended_run("True", "Succeeded", "Tasks Completed: 1 (Failed: 0)")


@pytest.fixture
async def fleet(sites: Fleet) -> AsyncIterator[Fleet]:
    await sites.set_up(controller=names.CONTROLLER, cpu=20)
    sites.start()
    await sites.staff("frameworks")
    yield sites
    await sites.tear_down()


async def submit(fleet: Fleet, name: str) -> None:
    """As our webhook would leave it."""
    task = {"name": "t", "taskSpec": {"steps": [{"name": "s", "image": "busybox", "script": "true"}]}}
    spec = {"status": "PipelineRunPending", "managedBy": names.MULTIKUEUE, "pipelineSpec": {"tasks": [task]}}
    body = typed(PIPELINE_RUN, name, spec=spec)
    body["metadata"] |= {
        "namespace": fleet.namespace,
        "labels": {"kueue.x-k8s.io/queue-name": "q"},
        "annotations": {framework_names.HELD_ANNOTATION: framework_names.HELD_BY_QUEUE},
    }
    await fleet.manager.client.create(PIPELINE_RUN, body)


async def test_a_hundred_over_two_workers(fleet: Fleet) -> None:
    """More than fit at once, the adapter is killed twice: each runs once on one worker, all ends come back,
    nothing is left."""
    tektons = {name: Tekton(site.client, fleet.namespace) for name, site in fleet.workers.items()}
    here = Tekton(fleet.manager.client, fleet.namespace)
    submitted = [f"r{number}" for number in range(COUNT)]
    async with AsyncExitStack() as stack:
        for one in (here, *tektons.values()):
            one.held.add(HELD)
            await stack.enter_async_context(one.working())
        await asyncio.gather(*(submit(fleet, name) for name in submitted))

        async def done(count: int) -> bool:
            return sum(is_true(one, "Finished") for one in await fleet.manager.all(WORKLOAD)) >= count

        for count in KILLED_AT:
            await fleet.until(partial(done, count), f"{count} do not finish", limit=2 * LIMIT)
            await fleet.kill()
            fleet.start()
        for one in tektons.values():
            one.finish(HELD)
        await fleet.until(partial(done, COUNT), "not all finish", limit=2 * LIMIT)

        async def clean() -> bool:
            kinds = (PIPELINE_RUN, WORKLOAD)
            return not any([await one.all(kind) for kind in kinds for one in fleet.workers.values()])

        await fleet.until(clean, "something is left on a worker")
    ran = [name for one in tektons.values() for name in one.runs.values()]
    assert sorted(ran) == sorted(submitted), "each once"
    assert all(one.runs for one in tektons.values()), "on both workers"
    ends = {
        one["metadata"]["name"]: (condition(one, "Succeeded") or {}).get("reason")
        for one in await fleet.manager.all(PIPELINE_RUN)
    }
    assert ends == {name: "Failed" if name == FAILING else "Succeeded" for name in submitted}
    verdicts = [condition(one, "Finished") or {} for one in await fleet.manager.all(WORKLOAD)]
    assert sorted(one["reason"] for one in verdicts) == ["Failed"] + ["Succeeded"] * (COUNT - 1)
