"""AppWrappers whose Workloads are our operator's, on a manager and a worker, by our adapter."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from fournos.api.kinds import APPWRAPPER
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.resource import POD, Obj
from fournos.engine.queueing.kinds import WORKLOAD
from tests.integration.appwrappers.kubelet import Kubelet
from tests.integration.appwrappers.stage import pod
from tests.integration.multikueue.fleet import Fleet, unreachable
from tests.integration.multikueue.test_wrapped import clean, finished, has, status, submit


@asynccontextmanager
async def kubelet(fleet: Fleet) -> AsyncIterator[Kubelet]:
    """Of the worker; its pods run until they are finished."""
    site = fleet.workers["w1"]
    found = Kubelet(site.client, site.namespace)
    found.endless.add("inner")
    async with found.working():
        yield found


async def start(fleet: Fleet) -> None:
    await submit(fleet, APPWRAPPER, "a", suspend=True, components=[{"template": pod("inner")}])
    await has(fleet, APPWRAPPER, "a", "Running")


def ran(node: Kubelet, pods: int) -> bool:
    """Whether so many pods were made, as the node's own watch has it."""
    return len(node.seen) == pods


async def the_workload(fleet: Fleet) -> Obj:
    (found,) = await fleet.manager.all(WORKLOAD)
    return dict(found)


async def test_it_runs_on_the_worker(fleet: Fleet) -> None:
    async with kubelet(fleet) as node:
        await start(fleet)
        own = await the_workload(fleet)
        assert own["metadata"]["ownerReferences"][0]["kind"] == "AppWrapper"
        assert not await fleet.manager.all(POD), "nothing is made on the manager"
        copy = await fleet.workers["w1"].find(APPWRAPPER, "a")
        assert "managedBy" not in copy["spec"] and copy["spec"]["suspend"] is False
        assert (await fleet.manager.find(APPWRAPPER, "a"))["spec"]["suspend"] is True, "it stays as it was"
        node.finish("inner")
        ended = await has(fleet, APPWRAPPER, "a", "Succeeded")
        assert is_true(ended, "ResourcesDeployed")
        assert (condition(await finished(fleet), "Finished") or {})["reason"] == "Succeeded"
        await clean(fleet, APPWRAPPER, POD)
        assert len(node.seen) == 1


async def test_evicted_on_either_side_it_runs_again(fleet: Fleet) -> None:
    async with kubelet(fleet) as node:
        await start(fleet)
        for number, site in enumerate((fleet.workers["w1"], fleet.manager), start=1):
            await site.stop_policy("HoldAndDrain")

            async def stopped() -> bool:
                phase = (await status(fleet.manager, APPWRAPPER, "a")).get("phase")
                return phase != "Running" and not await fleet.workers["w1"].all(POD)

            await fleet.until(stopped, "it does not stop")
            await site.stop_policy("None")
            await has(fleet, APPWRAPPER, "a", "Running")
            await fleet.until(partial(ran, node, number + 1), "no new pod")
        node.finish("inner")
        await finished(fleet)


async def test_a_lost_worker_gives_its_place_back(fleet: Fleet) -> None:
    """The last mirrored status shows it running; this blocks nothing on the manager cluster."""
    async with kubelet(fleet) as node:
        await start(fleet)
        good = fleet.workers["w1"].cluster.kubeconfig_path.read_text()
        await fleet.rotate("w1", unreachable(good))
        fleet.stop()
        fleet.start(workerLostTimeout="4s")

        async def queued() -> bool:
            own = await the_workload(fleet)
            return is_true(own, "Evicted") and not is_true(own, "QuotaReserved")

        await fleet.until(queued, "it keeps its quota")
        assert (await status(fleet.manager, APPWRAPPER, "a"))["phase"] == "Running", "nobody has said else"
        fleet.stop()
        fleet.start()
        await fleet.rotate("w1", good + "\n")

        async def again() -> Any:
            return len(node.seen) == 2 and is_true(await the_workload(fleet), "Admitted")

        await fleet.until(again, "it does not run again")
        node.finish("inner")
        await finished(fleet)
