"""AppWrappers and MiniClusters made on a manager, with the operator that runs them on every cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any

import pytest

from devcluster import Cluster
from fournos.api.kinds import APPWRAPPER, MINICLUSTER
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.api.values import format_time
from fournos.engine.kube.resource import CONFIG_MAP, JOB, POD, SECRET, Obj, Resource, key_of
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.systems.multikueue import names
from tests.integration.appwrappers.kubelet import Kubelet
from tests.integration.appwrappers.stage import pod
from tests.integration.jobs.executors import completed_job
from tests.integration.jobs.operator import Operator
from tests.integration.multikueue.fleet import Fleet, Site, hired, typed, unreachable
from tests.waiting import LIMIT

QUEUE = {"kueue.x-k8s.io/queue-name": "q"}


@pytest.fixture(scope="module")
def staff(clusters: dict[str, Cluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Operator]]:
    with hired(clusters, tmp_path_factory.mktemp("staff"), "appwrappers,miniclusters") as found:
        yield found


BUILT_IN = pytest.param(names.MULTIKUEUE, id="built_in", marks=pytest.mark.setup)


@pytest.fixture(params=[BUILT_IN, pytest.param(names.CONTROLLER, id="ours")])
async def fleet(request: pytest.FixtureRequest, sites: Fleet, staff: list[Operator]) -> AsyncIterator[Fleet]:
    """With the operator for both kinds on every cluster."""
    sites.shared = staff
    await sites.set_up(controller=request.param)
    if request.param == names.CONTROLLER:
        sites.start()
        await sites.active()
    yield sites
    await sites.tear_down()


async def submit(fleet: Fleet, resource: Resource, name: str, **spec: Any) -> None:
    body = typed(resource, name, spec={**spec, "managedBy": names.MULTIKUEUE})
    body["metadata"] |= {"namespace": fleet.namespace, "labels": QUEUE}
    await fleet.manager.client.create(resource, body)


async def status(site: Site, resource: Resource, name: str) -> dict[str, Any]:
    return dict(((await site.find(resource, name)) or {}).get("status") or {})


async def has(fleet: Fleet, resource: Resource, name: str, phase: str, *, limit: float = LIMIT) -> Obj:
    async def there() -> Obj | None:
        found = await fleet.manager.find(resource, name)
        return found if ((found or {}).get("status") or {}).get("phase") == phase else None

    found: Obj = await fleet.until(there, f"{name} is not {phase} on the manager", limit=limit)
    return found


async def where(fleet: Fleet, resource: Resource, name: str) -> Site:
    (site,) = [site for site in fleet.workers.values() if await site.find(resource, name)]
    return site


async def finished(fleet: Fleet) -> Obj:
    """The one Workload, when it is."""

    async def over() -> Obj | None:
        (workload,) = await fleet.manager.all(WORKLOAD)
        return workload if is_true(workload, "Finished") else None

    found: Obj = await fleet.until(over, "its Workload does not finish")
    return found


async def clean(fleet: Fleet, *resources: Resource) -> None:
    async def nothing() -> bool:
        return not any(
            [await one.all(kind) for kind in (WORKLOAD, *resources) for one in fleet.workers.values()]
        )

    await fleet.until(nothing, "something is left on a worker")


def timeless(wrapper: Obj) -> Any:
    """The status without generations: Kueue may resume the manager's object after the worker's has ended."""
    status = wrapper["status"]
    conditions = [{**one, "observedGeneration": None} for one in status["conditions"]]
    return {**status, "conditions": conditions}


async def test_an_appwrapper(fleet: Fleet) -> None:
    """By Kueue's own integration of them, on the manager and on the workers; by either adapter."""
    kubelets = [Kubelet(site.client, site.namespace) for site in fleet.workers.values()]
    for kubelet in kubelets:
        kubelet.endless.add("inner")
    async with AsyncExitStack() as stack:
        for kubelet in kubelets:
            await stack.enter_async_context(kubelet.working())
        await submit(fleet, APPWRAPPER, "a", suspend=True, components=[{"template": pod("inner")}])
        # Kueue may have to find the definition of AppWrappers first.
        await has(fleet, APPWRAPPER, "a", "Running", limit=150)
        assert not await fleet.manager.all(POD), "nothing is made on the manager"
        site = await where(fleet, APPWRAPPER, "a")
        assert [one["metadata"]["name"] for one in await site.all(POD)] == ["inner"]
        for kubelet in kubelets:
            kubelet.finish("inner")
        ended = await has(fleet, APPWRAPPER, "a", "Succeeded")
        assert is_true(ended, "ResourcesDeployed")
        assert (condition(await finished(fleet), "Finished") or {})["reason"] == "Succeeded"
        await clean(fleet, APPWRAPPER, POD)
        assert sum(len(kubelet.seen) for kubelet in kubelets) == 1
        assert timeless(await has(fleet, APPWRAPPER, "a", "Succeeded")) == timeless(ended)


@pytest.mark.parametrize("fleet", [names.CONTROLLER], indirect=True, ids=["ours"])
async def test_an_appwrapper_of_a_lost_worker(fleet: Fleet) -> None:
    """Kueue's integration goes by the status that was mirrored last: it waits until the worker is back."""
    async with AsyncExitStack() as stack:
        for site in fleet.workers.values():
            kubelet = Kubelet(site.client, site.namespace)
            kubelet.endless.add("inner")
            await stack.enter_async_context(kubelet.working())
        await submit(fleet, APPWRAPPER, "a", suspend=True, components=[{"template": pod("inner")}])
        await has(fleet, APPWRAPPER, "a", "Running", limit=150)
        first = await where(fleet, APPWRAPPER, "a")
        (name,) = [name for name, site in fleet.workers.items() if site is first]
        good = first.cluster.kubeconfig_path.read_text()
        await fleet.rotate(name, unreachable(good))
        fleet.stop()
        fleet.start(workerLostTimeout="4s")

        async def evicted() -> bool:
            (workload,) = await fleet.manager.all(WORKLOAD)
            return is_true(workload, "Evicted")

        await fleet.until(evicted, "it is not evicted")
        await asyncio.sleep(3)
        (workload,) = await fleet.manager.all(WORKLOAD)
        assert is_true(workload, "Evicted") and is_true(workload, "QuotaReserved")
        fleet.stop()
        fleet.start()
        await fleet.rotate(name, good + "\n")

        async def admitted() -> bool:
            (workload,) = await fleet.manager.all(WORKLOAD)
            return is_true(workload, "Admitted") and not is_true(workload, "Evicted")

        await fleet.until(admitted, "it does not run again")
        await has(fleet, APPWRAPPER, "a", "Running")


async def the_job(fleet: Fleet) -> tuple[Site, Obj]:
    """Of the one MiniCluster, and where it is."""

    async def made() -> list[tuple[Site, Obj]]:
        return [(site, job) for site in fleet.workers.values() for job in await site.all(JOB)]

    (found,) = await fleet.until(made, "no Job")
    return found  # type: ignore[no-any-return]


def minicluster() -> dict[str, Any]:
    container = {"image": "app:1", "command": "hostname", "resources": {"requests": {"cpu": "1"}}}
    return {"suspend": True, "size": 1, "containers": [container]}


@pytest.mark.parametrize("code", [0, 3])
async def test_a_minicluster(fleet: Fleet, code: int) -> None:
    await submit(fleet, MINICLUSTER, "a", **minicluster())
    site, job = await the_job(fleet)
    waiting = await has(fleet, MINICLUSTER, "a", "Waiting")
    assert waiting["status"]["maximumSize"] == 1
    ended = failed_job() if code else completed_job()
    await site.client.patch(JOB, key_of(job), {"status": ended}, subresource="status")
    found = (await has(fleet, MINICLUSTER, "a", "Finished"))["status"]
    assert found.get("exitCode") == (None if code else 0)
    verdict = condition(await finished(fleet), "Finished") or {}
    assert (verdict["reason"], verdict["message"]) == ("Failed" if code else "Succeeded", found["message"])
    await clean(fleet, MINICLUSTER, JOB)
    for kind in (JOB, CONFIG_MAP, SECRET):
        names_there = {one["metadata"]["name"] for one in await fleet.manager.all(kind)}
        assert names_there <= {"kube-root-ca.crt"}, "nothing is made on the manager"
    await fleet.manager.client.delete(MINICLUSTER, fleet.manager.key("a"))

    async def gone() -> bool:
        there = [await fleet.manager.all(kind) for kind in (MINICLUSTER, WORKLOAD)]
        return not any(there)

    await fleet.until(gone, "it cannot be deleted")


@pytest.mark.parametrize("fleet", [names.CONTROLLER], indirect=True, ids=["ours"])
async def test_a_minicluster_that_is_evicted(fleet: Fleet) -> None:
    """By its worker: it goes to the other.  By the manager: it waits, and then runs again."""
    await submit(fleet, MINICLUSTER, "a", **minicluster())
    first, job = await the_job(fleet)
    await first.stop_policy("HoldAndDrain")

    async def moved() -> bool:
        jobs = [(site, one) for site in fleet.workers.values() for one in await site.all(JOB)]
        return len(jobs) == 1 and jobs[0][0] is not first

    await fleet.until(moved, "it does not go to the other worker")
    await first.stop_policy("None")
    manager = fleet.manager
    await manager.stop_policy("HoldAndDrain")
    await clean(fleet, MINICLUSTER, JOB)

    async def reported() -> bool:
        found = await status(manager, MINICLUSTER, "a")
        return found.get("phase") == "Waiting" and not found.get("maximumSize")

    await fleet.until(reported, "its last status does not come back")
    await manager.stop_policy("None")
    site, job = await the_job(fleet)
    await site.client.patch(JOB, key_of(job), {"status": completed_job()}, subresource="status")
    await has(fleet, MINICLUSTER, "a", "Finished")
    await finished(fleet)


def failed_job() -> dict[str, Any]:
    now = format_time(datetime.now(UTC))
    why = {"status": "True", "reason": "PodFailurePolicy", "message": "the lead broker failed"}
    times = {"lastTransitionTime": now, "lastProbeTime": now}
    conditions = [{"type": type_, **why, **times} for type_ in ("FailureTarget", "Failed")]
    return {"startTime": now, "failed": 1, "conditions": conditions}
