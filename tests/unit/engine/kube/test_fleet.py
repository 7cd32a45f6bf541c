"""A fleet whose clusters come, change and go, and are many, in virtual time."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509

from fournos.engine.kube.errors import ConnectionLostError, ForbiddenError, ServerError
from fournos.engine.kube.fleet import Fleet, FleetWatch, KubeconfigRefusedError
from fournos.engine.kube.resource import NODE, POD, Obj
from fournos.engine.kube.transport import Backoff, TokenBucket
from tests.fakes.clusters import AUTHORITY, FakeClusters, kubeconfig
from tests.unit.engine.kube.fleets import LOST, ONE, TWO, at, connected, one, running
from tests.unit.engine.runtime.loop import START, LoopClock

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
    async with connected("n1") as (run, cluster):
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
    async with connected("n1") as (run, cluster):
        with pytest.raises(KubeconfigRefusedError):
            run.fleet.connect("a", b"garbage", version="2")
        assert run.fleet.names() == ()
        await asyncio.sleep(1)
        assert cluster.open == 0


async def test_a_disconnected_cluster_is_silent_and_closed(caplog: pytest.LogCaptureFixture) -> None:
    async with connected("n1") as (run, cluster):
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
    async with connected("n1") as (run, cluster):
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


# --- watches ----------------------------------------------------------------------------------------
# The objects of its clusters that a fleet has, and the callbacks for changes, in virtual time.


async def test_a_change_is_reported_once_settled() -> None:
    async with connected() as (run, cluster):
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
    async with connected("old") as (run, cluster):
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


# --- probes -----------------------------------------------------------------------------------------
# The health that a fleet reports of its clusters, in virtual time.


async def test_a_good_cluster_is_probed_and_its_objects_are_there() -> None:
    clusters, cluster = one("n1", "n2")
    cluster.latency = 0.02
    async with running(clusters) as run:
        run.fleet.connect("a", kubeconfig(ONE), version="1")
        assert run.fleet.probe("a") is None
        await asyncio.sleep(1)
        found = run.probe("a")
        assert (found.reachable, found.version, found.reason, found.error) == (True, "v1.34.4", "", "")
        assert found.latency_ms == pytest.approx(20)
        assert found.unreachable_since is None
        assert run.names("a") == ["n1", "n2"]
        assert run.fleet.names() == ("a",)
        assert run.fleet.version_of("a") == "1"
        assert run.changes_of("a") == 1, "what comes at once is told once"


async def test_clusters_may_be_connected_before_the_fleet_runs() -> None:
    clusters, _ = one("n1")
    fleet = Fleet(watches=[FleetWatch(NODE)], on_change=lambda _: None, now=LoopClock().now,
                  monotonic=LoopClock().monotonic, dial=clusters.dial)  # fmt: skip
    fleet.connect("a", kubeconfig(ONE), version="1")
    fleet.connect("b", kubeconfig(ONE), version="1")
    fleet.disconnect("b")
    task = asyncio.create_task(fleet.run())
    await asyncio.sleep(1)
    assert fleet.probe("a") is not None
    assert fleet.probe("b") is None
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert clusters.by_server[ONE].open == 0


async def test_dropped_packets_are_found_out_within_the_timeout() -> None:
    clusters, cluster = one()
    cluster.silent = True
    async with running(clusters) as run:
        run.fleet.connect("a", kubeconfig(ONE), version="1")
        await asyncio.sleep(9.9)
        assert run.fleet.probe("a") is None
        await asyncio.sleep(0.2)
        found = run.probe("a")
        assert (found.reachable, found.reason) == (False, "Timeout")
        assert "10 s" in found.error and "10.0.0.1" in found.error
        assert cluster.times_of("list nodes") == [], "nothing is asked of a cluster that is not there"


async def test_a_line_that_is_cut_later_is_found_out_within_interval_and_timeout() -> None:
    clusters, cluster = one("n1")
    async with running(clusters) as run:
        run.fleet.connect("a", kubeconfig(ONE), version="1")
        await asyncio.sleep(100)
        cluster.silent = True
        run.changes_of("a")
        await asyncio.sleep(30 * 1.1 + 10 + 0.2)
        assert not run.probe("a").reachable
        assert run.probe("a").version == "v1.34.4", "what it was is not forgotten"
        assert run.changes_of("a") == 1
        assert run.names("a") == ["n1"], "what was last seen stays"


async def test_a_connection_that_breaks_is_found_out_at_once() -> None:
    async with connected() as (run, cluster):
        cluster.fail(LOST)
        await asyncio.sleep(0.1)
        assert run.probe("a").unreachable_since == at(1)


async def test_a_watch_that_breaks_alone_is_no_loss() -> None:
    async with connected("n1") as (run, cluster):
        cluster.fail(LOST)
        cluster.failure = None
        await asyncio.sleep(5)
        assert run.probe("a").reachable
        assert run.changes_of("a") <= 3
        assert len(cluster.times_of("version")) == 2
        assert len(cluster.times_of("list nodes")) == 1, "the watch goes on from where it was"


async def test_the_loss_clock_starts_at_the_first_failure_and_ends_with_the_loss() -> None:
    async with connected() as (run, cluster):
        cluster.fail(LOST)
        await asyncio.sleep(40)
        began = run.probe("a").unreachable_since
        assert began is not None
        await asyncio.sleep(200)
        assert run.probe("a").unreachable_since == began
        assert run.probe("a").at > began
        assert run.probe("a").failures == len(cluster.times_of("version")) - 1
        assert run.clock.now() < (run.probe("a").next_at or START) <= run.clock.now() + timedelta(seconds=30)
        cluster.failure = None
        await asyncio.sleep(31)
        assert run.probe("a").reachable
        assert run.probe("a").unreachable_since is None
        assert run.probe("a").failures == 0
        cluster.fail(LOST)
        await asyncio.sleep(0.1)
        cluster.failure = None
        await asyncio.sleep(1.6)
        assert run.probe("a").reachable, "after a long loss a short one heals as fast as any"


async def test_the_loss_clock_goes_on_after_a_restart() -> None:
    clusters, cluster = one()
    cluster.fail(LOST)
    async with running(clusters) as run:
        run.fleet.connect("a", kubeconfig(ONE), version="1", unreachable_since=at(-300))
        await asyncio.sleep(1)
        assert run.probe("a").unreachable_since == at(-300)
        run.fleet.connect("a", kubeconfig(TWO if clusters.add(TWO) else ONE), version="2")
        clusters.by_server[TWO].fail(LOST)
        await asyncio.sleep(5)
        assert run.probe("a").unreachable_since == at(-300), "a new kubeconfig does not end the loss"


async def test_failed_probes_back_off_with_jitter_up_to_the_interval() -> None:
    clusters, cluster = one()
    cluster.fail(LOST)
    async with running(clusters) as run:
        run.fleet.connect("a", kubeconfig(ONE), version="1")
        await asyncio.sleep(600)
        times = cluster.times_of("version")
        waits = [later - earlier for earlier, later in itertools.pairwise(times)]
        assert waits[0] <= 1.5
        assert max(waits) <= 30
        assert len({round(wait, 3) for wait in waits}) > len(waits) / 2
        assert len(times) < 90, "a dead cluster costs little"
        assert run.changes_of("a") == 1, "the same failure again is no change"


@pytest.mark.parametrize(
    ("failure", "reachable", "reason"),
    [
        (ForbiddenError("token t is bad", status=401, reason="Unauthorized"), False, "Unauthorized"),
        (ForbiddenError("no", status=403), True, "VersionForbidden"),
        (ServerError("slow down", status=429), True, "Throttled"),
        (ServerError("bad gateway", status=502), False, "ServerError"),
        (ConnectionLostError("no JSON"), False, "NotAnAPIServer"),
    ],
)
async def test_answers_that_are_no_version(failure: Any, reachable: bool, reason: str) -> None:
    clusters, cluster = one()
    cluster.fail(failure)
    async with running(clusters) as run:
        run.fleet.connect("a", kubeconfig(ONE), version="1")
        await asyncio.sleep(1)
        assert (run.probe("a").reachable, run.probe("a").reason) == (reachable, reason)
        assert run.probe("a").error and "token t" not in run.probe("a").error


async def test_a_fault_of_our_own_becomes_a_verdict(caplog: pytest.LogCaptureFixture) -> None:
    clusters, cluster = one()
    cluster.version = None  # type: ignore[assignment]
    async with running(clusters) as run:
        run.fleet.connect("a", kubeconfig(ONE), version="1")
        await asyncio.sleep(1)
        assert run.probe("a").reason == "ProbeFailed"
        cluster.version = "v1\n<b>"
        await asyncio.sleep(60)
        assert run.probe("a").version == "v1b", "only what a version may hold"
    assert "unexpectedly" in caplog.text


async def test_a_certificate_that_ends_while_in_use_ends_the_verdict() -> None:
    clusters, _ = one()
    async with running(clusters) as run:
        # Certificates of the test authority begin now and last an hour.
        pair = AUTHORITY.issue("client")
        run.clock.step(_begin(pair) - run.clock.now())
        run.fleet.connect("a", kubeconfig(ONE, certificate=pair), version="1")
        await asyncio.sleep(60)
        assert run.probe("a").reachable
        expires = run.probe("a").certificate_expires
        assert expires is not None
        await asyncio.sleep((expires - run.clock.now()).total_seconds() + 34)
        assert (run.probe("a").reachable, run.probe("a").reason) == (False, "CertificateExpired")
        with pytest.raises(KubeconfigRefusedError) as caught:
            run.fleet.connect("b", kubeconfig(ONE, certificate=pair), version="1")
        assert caught.value.reason == "CertificateExpired"


def _begin(pair: Any) -> Any:
    return x509.load_pem_x509_certificate(pair.certificate).not_valid_before_utc


# --- Rate limit and backoff, in virtual time ---------------------------------------------------------


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_a_burst_passes_then_the_rate_holds() -> None:
    bucket = TokenBucket(qps=10, burst=3)
    times = []
    for _ in range(6):
        await bucket.take()
        times.append(round(now(), 3))
    assert times == [0, 0, 0, 0.1, 0.2, 0.3]


async def test_rest_refills_up_to_the_burst() -> None:
    bucket = TokenBucket(qps=10, burst=2)
    await bucket.take()
    await asyncio.sleep(100)
    started = now()
    for _ in range(3):
        await bucket.take()
    assert now() - started == pytest.approx(0.1)


async def test_waiters_are_served_in_order_at_the_rate() -> None:
    bucket = TokenBucket(qps=1, burst=1)
    order: list[tuple[int, float]] = []

    async def one(number: int) -> None:
        await bucket.take()
        order.append((number, round(now(), 3)))

    await asyncio.gather(*(one(number) for number in range(4)))
    assert order == [(0, 0), (1, 1), (2, 2), (3, 3)]


async def test_a_waiter_that_gives_up_returns_its_token() -> None:
    bucket = TokenBucket(qps=1, burst=1)
    await bucket.take()
    waiter = asyncio.create_task(bucket.take())
    await asyncio.sleep(0)
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)
    await bucket.take()
    assert now() == pytest.approx(1)


async def test_a_pause_holds_back_those_who_wait_already() -> None:
    bucket = TokenBucket(qps=1, burst=1)
    await bucket.take()
    waiter = asyncio.create_task(bucket.take())
    await asyncio.sleep(0.5)
    bucket.pause(7)
    await waiter
    assert now() == pytest.approx(7.5)


async def test_backoff_grows_to_its_cap_and_starts_over() -> None:
    backoff = Backoff(base=0.5, cap=30, rng=random.Random(1))
    waits = [backoff.next() for _ in range(50)]
    assert all(0.5 <= wait <= 30 for wait in waits)
    assert waits[0] <= 1.5
    assert max(waits) == 30
    assert len(set(waits[:5])) == 5
    backoff.reset()
    assert backoff.next() <= 1.5
