"""A fleet whose clusters come, change and go, and are many, in virtual time."""

from __future__ import annotations

import asyncio
import itertools
import logging

import pytest

from fournos.engine.kube.errors import ForbiddenError
from fournos.engine.kube.fleet import Fleet, FleetWatch, KubeconfigRefusedError
from fournos.engine.kube.resource import NODE
from tests.fakes.clusters import FakeClusters, kubeconfig
from tests.unit.engine.kube.fleets import ONE, TWO, one, running
from tests.unit.engine.runtime.loop import LoopClock

pytestmark = pytest.mark.looptime


# --- kubeconfigs that change -------------------------------------------------------------------------


async def test_the_same_version_is_not_even_read() -> None:
    clusters, _ = one()
    async with running(clusters) as run:
        run.fleet.connect("a", kubeconfig(ONE), version="1")
        api = run.fleet.api("a")
        run.fleet.connect("a", b"garbage", version="1")
        assert run.fleet.api("a") is api


async def test_new_credentials_for_the_same_server_keep_what_is_known() -> None:
    clusters, cluster = one("n1")
    async with running(clusters) as run:
        run.fleet.connect("a", kubeconfig(ONE), version="1")
        await asyncio.sleep(1)
        api, store = run.fleet.api("a"), run.fleet.store("a", NODE)
        run.fleet.connect("a", kubeconfig(ONE, token="new"), version="2")
        assert run.fleet.api("a") is not api
        assert run.fleet.store("a", NODE) is store
        assert run.probe("a").reachable
        assert run.names("a") == ["n1"], "nothing is lost meanwhile"
        await asyncio.sleep(1)
        cluster.put("n2")
        await asyncio.sleep(1)
        assert run.names("a") == ["n1", "n2"]
        assert len(cluster.times_of("list nodes")) == 2
        assert cluster.open == 1, "the old connection is closed"


async def test_a_kubeconfig_for_another_server_begins_anew() -> None:
    clusters, _ = one("n1")
    clusters.add(TWO).put("m1")
    async with running(clusters) as run:
        run.fleet.connect("a", kubeconfig(ONE), version="1")
        await asyncio.sleep(1)
        run.fleet.connect("a", kubeconfig(TWO), version="2")
        assert run.fleet.probe("a") is None
        assert run.names("a") == []
        await asyncio.sleep(1)
        assert run.names("a") == ["m1"]
        assert clusters.by_server[ONE].open == 0


async def test_a_refused_kubeconfig_ends_the_connection_that_it_replaces() -> None:
    clusters, cluster = one("n1")
    async with running(clusters) as run:
        run.fleet.connect("a", kubeconfig(ONE), version="1")
        await asyncio.sleep(1)
        with pytest.raises(KubeconfigRefusedError):
            run.fleet.connect("a", b"garbage", version="2")
        assert run.fleet.names() == ()
        await asyncio.sleep(1)
        assert cluster.open == 0


async def test_a_disconnected_cluster_is_silent_and_closed(caplog: pytest.LogCaptureFixture) -> None:
    clusters, cluster = one("n1")
    async with running(clusters) as run:
        run.fleet.connect("a", kubeconfig(ONE), version="1")
        await asyncio.sleep(1)
        run.changes_of("a")
        cluster.put("n2")
        await asyncio.sleep(0.05)
        run.fleet.disconnect("a")
        await asyncio.sleep(100)
        assert run.changes_of("a") == 0
        assert caplog.text == ""
        assert cluster.open == 0
        assert len(cluster.times_of("version")) == 1


async def test_a_disconnected_cluster_is_watched_no_longer_even_while_a_connection_is_slow_to_close() -> None:
    clusters, cluster = one("n1")
    async with running(clusters) as run:
        run.fleet.connect("a", kubeconfig(ONE), version="1")
        await asyncio.sleep(10)
        assert cluster.watching == 1
        cluster.latency, cluster.close_takes = 3.0, 5.0
        while len(cluster.times_of("version")) < 2:  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.1)
        await asyncio.sleep(1)
        run.fleet.disconnect("a")
        await asyncio.sleep(0.1)
        assert cluster.watching == 0


async def test_a_pending_change_is_reported_after_a_renewal() -> None:
    clusters, cluster = one("n1")
    async with running(clusters) as run:
        run.fleet.connect("a", kubeconfig(ONE), version="1")
        await asyncio.sleep(1)
        run.changes_of("a")
        cluster.put("n2")
        await asyncio.sleep(0.05)
        cluster.silent = True
        run.fleet.connect("a", kubeconfig(ONE, token="new"), version="2")
        await asyncio.sleep(0.5)
        assert run.changes_of("a") == 1
        assert run.names("a") == ["n1", "n2"]


async def test_a_listener_that_fails_harms_nothing(caplog: pytest.LogCaptureFixture) -> None:
    clusters, cluster = one()

    def fail(_: str) -> None:
        raise RuntimeError("listener")

    clock = LoopClock()
    fleet = Fleet(watches=[FleetWatch(NODE)], on_change=fail, now=clock.now, monotonic=clock.monotonic,
                  dial=clusters.dial)  # fmt: skip
    task = asyncio.create_task(fleet.run())
    fleet.connect("a", kubeconfig(ONE), version="1")
    await asyncio.sleep(1)
    cluster.put("n1")
    await asyncio.sleep(1)
    store = fleet.store("a", NODE)
    assert store is not None and len(store) == 1
    assert "could not be handed on" in caplog.text
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


# --- many --------------------------------------------------------------------------------------------


async def test_dead_clusters_slow_no_other() -> None:
    clusters = FakeClusters()
    async with running(clusters) as run:
        for number in range(50):
            server = f"https://10.0.1.{number}:6443"
            cluster = clusters.add(server)
            cluster.silent = number % 2 == 1
            cluster.put(f"n{number}")
            run.fleet.connect(f"c{number}", kubeconfig(server), version="1")
        await asyncio.sleep(0.5)
        for number in range(0, 50, 2):
            assert run.probe(f"c{number}").reachable
            assert run.names(f"c{number}") == [f"n{number}"]
        assert all(run.fleet.probe(f"c{number}") is None for number in range(1, 50, 2))
        await asyncio.sleep(300)
        for number in range(0, 50, 2):
            times = clusters.by_server[f"https://10.0.1.{number}:6443"].times_of("version")
            assert max(later - earlier for earlier, later in itertools.pairwise(times)) <= 33.1
        good = [cluster for cluster in clusters.by_server.values() if not cluster.silent]
        seconds = {round(t) for cluster in good for t in cluster.times_of("version") if t > 200}
        assert len(seconds) > 20, "probes of many clusters spread"


async def test_logs_name_the_cluster_and_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    clusters, cluster = one()
    cluster.refused[NODE] = ForbiddenError("no", status=403)
    async with running(clusters) as run:
        run.fleet.connect("east", kubeconfig(ONE, token="very-s3cret"), version="1")
        await asyncio.sleep(40)
    assert "nodes of east" in caplog.text
    assert "cluster east: reachable, v1.34.4" in caplog.text
    assert "very-s3cret" not in caplog.text
