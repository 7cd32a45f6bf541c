"""FournosJobs made on a manager, run by the operator of a worker: by Kueue's own adapter and by ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from bench.fleet import make
from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.api.conditions import is_true
from fournos.engine.kube.resource import JOB, NAMESPACE, SECRET, Key, Resource
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.systems.jobs import names as job_names
from fournos.systems.multikueue import names
from tests.integration.jobs.executors import Executors
from tests.integration.multikueue.fleet import PIPELINE_RUN, TARGET, Fleet, Site, typed

PIPELINE = Resource("tekton.dev", "v1", "Pipeline", "pipelines")


class Runners:
    """The executors of all workers, and the manager's, who must find nothing to do."""

    def __init__(self, fleet: Fleet) -> None:
        self.manager = Executors(fleet.manager.client, fleet.namespace)
        self.workers = {name: Executors(site.client, fleet.namespace) for name, site in fleet.workers.items()}

    @asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for one in (self.manager, *self.workers.values()):
                await stack.enter_async_context(one.working())
            yield

    def hold(self, name: str) -> None:
        for one in self.workers.values():
            one.held.add(name)

    def fail(self, name: str) -> None:
        for one in self.workers.values():
            one.failing.add(name)

    def on(self, name: str) -> list[str]:
        """The workers that have a run of this name."""
        return [worker for worker, one in self.workers.items() if one.find(PIPELINE_RUN, name)]

    def finish(self, name: str) -> None:
        for one in self.workers.values():
            one.finish(name)


BY_OURS = pytest.mark.parametrize("fleet", ["ours"], indirect=True)


@pytest.fixture(params=[pytest.param("built_in", marks=pytest.mark.setup), "ours"])
async def fleet(request: pytest.FixtureRequest, sites: Fleet) -> AsyncIterator[Fleet]:
    """With the operator for FournosJobs on every cluster."""
    ours = request.param == "ours"
    await sites.set_up(controller=names.CONTROLLER if ours else names.MULTIKUEUE)
    for site in sites.workers.values():
        await set_up(site)
    if ours:
        sites.start()
    await sites.staff("jobs")
    yield sites
    await sites.tear_down()
    for site in sites.workers.values():
        await site.client.delete(NAMESPACE, Key("", f"{site.namespace}-secrets"))


async def set_up(site: Site) -> None:
    """What a job needs where it is resolved: a pipeline, and the kubeconfig of its cluster."""
    secrets = f"{site.namespace}-secrets"
    await make(site.client, NAMESPACE, {"metadata": {"name": secrets}})
    meta = {"name": f"kubeconfig-{TARGET}", "namespace": secrets}
    await site.client.create(SECRET, {"metadata": meta, "stringData": {"kubeconfig": "# of the target"}})
    step = {"name": "run", "image": "busybox", "script": "true"}
    pipeline = typed(PIPELINE, "p", spec={"tasks": [{"name": "run", "taskSpec": {"steps": [step]}}]})
    pipeline["metadata"] |= {
        "namespace": site.namespace,
        "annotations": {job_names.RESOLVE_IMAGE_ANNOTATION: "resolver:1"},
    }
    await site.client.create(PIPELINE, pipeline)


async def submit(fleet: Fleet, name: str, **spec: Any) -> Any:
    whole = {
        "pipeline": "p",
        "exclusive": False,
        "hardware": {"gpuType": "h200", "gpuCount": 1},
        "executionEngine": {"mock": {}},
        "managedBy": names.MULTIKUEUE,
        **spec,
    }
    body = typed(FOURNOS_JOB, name, spec=whole)
    body["metadata"]["namespace"] = fleet.namespace
    return await fleet.manager.client.create(FOURNOS_JOB, body)


async def status(site: Site, name: str) -> dict[str, Any]:
    return dict(((await site.find(FOURNOS_JOB, name)) or {}).get("status") or {})


async def has(fleet: Fleet, name: str, phase: str) -> dict[str, Any]:
    """Its status on the manager, once it is in this phase."""

    async def there() -> dict[str, Any]:
        found = await status(fleet.manager, name)
        return found if found.get("phase") == phase else {}

    return dict(await fleet.until(there, f"{name} is not {phase} on the manager"))


async def clean(fleet: Fleet) -> None:
    """What a job owned is left to Kubernetes' garbage collector, which may take its time."""

    async def left() -> list[str]:
        found = [
            (worker, kind, await one.all(kind))
            for worker, one in fleet.workers.items()
            for kind in (FOURNOS_JOB, WORKLOAD, PIPELINE_RUN, SECRET, JOB)
        ]
        return [
            f"{worker}: {kind} {obj['metadata']['name']} {obj['metadata'].get('finalizers') or ''}"
            for worker, kind, objects in found
            for obj in objects
        ]

    async def nothing() -> bool:
        return not await left()

    try:
        await fleet.until(nothing, "something is left on a worker")
    except AssertionError as error:
        error.add_note("\n".join(await left()))
        raise


async def test_it_is_resolved_and_runs_on_one_worker(fleet: Fleet) -> None:
    """There and nowhere else; its status, its secrets' absence and its end are right on the manager."""
    runners = Runners(fleet)
    runners.hold("a")
    async with runners.working():
        await submit(fleet, "a")
        running = await has(fleet, "a", "Running")
        assert running["cluster"] == TARGET and running["pipelineRun"] == "a"
        assert set(running["phaseTimes"]) >= {"resolving", "pending", "admitted", "running"}
        workload = await fleet.manager.find(WORKLOAD, "a")
        (on,) = runners.on("a")
        assert workload["status"]["clusterName"] == fleet.cluster_name(on)
        assert [one["metadata"]["name"] for one in await fleet.workers[on].all(SECRET)] == ["a-kubeconfig"]
        measured = {"results": [{"name": "fournos-results", "type": "object", "value": {"tput": "12"}}]}
        await fleet.workers[on].client.patch(
            PIPELINE_RUN, fleet.manager.key("a"), {"status": measured}, subresource="status"
        )
        runners.finish("a")
        ended = await has(fleet, "a", "Succeeded")
        assert ended["results"] == [{"name": "fournos-results", "value": {"tput": "12"}}]
        assert ended["message"] == "Pipeline completed successfully"

        async def finished() -> bool:
            return is_true(await fleet.manager.find(WORKLOAD, "a"), "Finished")

        await fleet.until(finished, "its Workload does not finish")
        await clean(fleet)
        for name, one in runners.workers.items():
            assert one.problems == []
            assert list(one.runs.values()) == (["a"] if name == on else [])
        assert (await has(fleet, "a", "Succeeded"))["phaseTimes"] == ended["phaseTimes"]
        assert not runners.manager.runs
        for kind in (JOB, SECRET):
            assert not await fleet.manager.all(kind)


async def test_failure_and_shutdown(fleet: Fleet) -> None:
    runners = Runners(fleet)
    runners.fail("b")
    runners.hold("c")
    async with runners.working():
        await submit(fleet, "b")
        await submit(fleet, "c")
        failed = await has(fleet, "b", "Failed")
        assert "Failed: 1" in failed["message"]
        await has(fleet, "c", "Running")
        stop = {"spec": {"shutdown": "Stop"}}
        await fleet.manager.client.patch(FOURNOS_JOB, fleet.manager.key("c"), stop)
        await clean(fleet)
        seen = sorted(name for one in runners.workers.values() for name in one.runs.values())
        assert seen == ["b", "c"], "each once"
        for name in ("b", "c"):
            workload = await fleet.manager.find(WORKLOAD, name)
            assert not is_true(workload, "Admitted") or is_true(workload, "Finished")


@BY_OURS
async def test_eviction(fleet: Fleet) -> None:
    """By its worker: it goes to the other.  By the manager: it waits, and then runs again."""
    runners = Runners(fleet)
    runners.hold("a")
    async with runners.working():
        await submit(fleet, "a")
        await has(fleet, "a", "Running")
        (first,) = runners.on("a")
        await fleet.workers[first].stop_policy("HoldAndDrain")

        async def moved() -> bool:
            on = runners.on("a")
            running = (await status(fleet.manager, "a")).get("phase") == "Running"
            return running and len(on) == 1 and on != [first]

        await fleet.until(moved, "it does not go to the other worker")
        await fleet.workers[first].stop_policy("None")
        await fleet.manager.stop_policy("HoldAndDrain")
        await clean(fleet)
        await fleet.manager.stop_policy("None")
        await has(fleet, "a", "Running")

        async def again() -> bool:
            return len(runners.on("a")) == 1

        await fleet.until(again, "it does not run again")
        runners.finish("a")
        await has(fleet, "a", "Succeeded")
        await clean(fleet)
        assert sum(len(one.runs) for one in runners.workers.values()) == 3
        assert not any(one.problems for one in runners.workers.values())


@BY_OURS
async def test_a_ttl_that_passes_while_the_adapter_is_away(fleet: Fleet) -> None:
    """The copy stays until its end is known; the job runs once, and its time counts on the manager."""
    runners = Runners(fleet)
    runners.hold("a")
    async with runners.working():
        await submit(fleet, "a", ttl="1m")
        await has(fleet, "a", "Running")
        (on,) = runners.on("a")
        fleet.stop()
        runners.finish("a")

        async def finished() -> bool:
            return (await status(fleet.workers[on], "a")).get("phase") == "Succeeded"

        await fleet.until(finished, "it does not end there")
        await asyncio.sleep(65)
        assert await finished(), "the copy deletes itself"
        fleet.start()

        async def gone() -> bool:
            return await fleet.manager.find(FOURNOS_JOB, "a") is None

        await fleet.until(gone, "its ttl does not count on the manager")
        await clean(fleet)
        assert sorted(name for one in runners.workers.values() for name in one.runs.values()) == ["a"]
