"""The objects of its clusters that a fleet has, and the callbacks for changes, in virtual time."""

from __future__ import annotations

import asyncio

import pytest

from fournos.engine.kube.errors import ForbiddenError
from fournos.engine.kube.fleet import Fleet, FleetWatch
from fournos.engine.kube.resource import NODE, POD, Obj
from tests.fakes.clusters import kubeconfig
from tests.unit.engine.kube.fleets import ONE, one, running
from tests.unit.engine.runtime.loop import LoopClock

pytestmark = pytest.mark.looptime


async def test_a_change_is_reported_once_settled() -> None:
    clusters, cluster = one()
    async with running(clusters) as run:
        run.fleet.connect("a", kubeconfig(ONE), version="1")
        await asyncio.sleep(1)
        store = run.fleet.store("a", NODE)
        assert store is not None and store.synced
        run.changes_of("a")
        for number in range(50):
            cluster.put(f"n{number}")
        await asyncio.sleep(0.2)
        assert len(run.names("a")) == 50
        assert run.changes_of("a") == 1
        cluster.remove("n0")
        await asyncio.sleep(0.2)
        assert run.changes_of("a") == 1


async def test_a_change_outside_the_projection_is_not_reported() -> None:
    def project(obj: Obj) -> Obj:
        return {"metadata": obj["metadata"], "gpus": obj.get("gpus")}

    clusters, cluster = one()
    async with running(clusters, [FleetWatch(NODE, project=project)]) as run:
        cluster.put("n1", gpus=8, heartbeat=1)
        run.fleet.connect("a", kubeconfig(ONE), version="1")
        await asyncio.sleep(1)
        run.changes_of("a")
        cluster.put("n1", gpus=8, heartbeat=2)
        await asyncio.sleep(1)
        assert run.changes_of("a") == 0
        cluster.put("n1", gpus=4, heartbeat=3)
        await asyncio.sleep(1)
        assert run.changes_of("a") == 1


async def test_after_a_loss_everything_is_listed_anew() -> None:
    clusters, cluster = one("old")
    async with running(clusters) as run:
        run.fleet.connect("a", kubeconfig(ONE), version="1")
        await asyncio.sleep(1)
        cluster.silent = True
        await asyncio.sleep(60)
        assert not run.probe("a").reachable
        cluster.remove("old")
        cluster.put("new")
        cluster.silent = False
        await asyncio.sleep(30 + 10)
        assert run.names("a") == ["new"]
        assert len(cluster.times_of("list nodes")) == 2
        cluster.put("newer")
        await asyncio.sleep(1)
        assert run.names("a") == ["new", "newer"]


async def test_a_missing_right_is_reported_and_leaves_the_rest_alone() -> None:
    clusters, cluster = one("n1")
    cluster.refused[POD] = ForbiddenError("pods is forbidden", status=403)
    async with running(clusters, [FleetWatch(NODE), FleetWatch(POD)]) as run:
        run.fleet.connect("a", kubeconfig(ONE), version="1")
        await asyncio.sleep(1)
        assert run.probe("a").reachable
        assert run.names("a") == ["n1"]
        assert isinstance(run.fleet.watch_error("a", POD), ForbiddenError)
        assert run.fleet.watch_error("a", NODE) is None
        run.changes_of("a")
        del cluster.refused[POD]
        await asyncio.sleep(40)
        assert run.fleet.watch_error("a", POD) is None
        assert run.changes_of("a") == 1


async def test_what_is_not_known_is_none() -> None:
    clusters, _ = one()
    async with running(clusters) as run:
        assert run.fleet.probe("a") is run.fleet.api("a") is run.fleet.version_of("a") is None
        assert run.fleet.store("a", NODE) is run.fleet.watch_error("a", NODE) is None
        run.fleet.connect("a", kubeconfig(ONE), version="1")
        assert run.fleet.store("a", POD) is None
        assert run.fleet.api("a") is not None
        run.fleet.disconnect("nobody")
    with pytest.raises(ValueError, match="once"):
        Fleet(watches=[FleetWatch(NODE), FleetWatch(NODE, selector="a=b")], on_change=lambda _: None,
              now=LoopClock().now, monotonic=LoopClock().monotonic)  # fmt: skip
