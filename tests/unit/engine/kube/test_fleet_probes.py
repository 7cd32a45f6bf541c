"""The health that a fleet reports of its clusters, in virtual time."""

from __future__ import annotations

import asyncio
import itertools
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509

from fournos.engine.kube.errors import ConnectionLostError, ForbiddenError, ServerError
from fournos.engine.kube.fleet import Fleet, FleetWatch, KubeconfigRefusedError
from fournos.engine.kube.resource import NODE
from tests.fakes.clusters import AUTHORITY, kubeconfig
from tests.unit.engine.kube.fleets import LOST, ONE, TWO, at, one, running
from tests.unit.engine.runtime.loop import START, LoopClock

pytestmark = pytest.mark.looptime


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
    clusters, cluster = one()
    async with running(clusters) as run:
        run.fleet.connect("a", kubeconfig(ONE), version="1")
        await asyncio.sleep(1)
        cluster.fail(LOST)
        await asyncio.sleep(0.1)
        assert run.probe("a").unreachable_since == at(1)


async def test_a_watch_that_breaks_alone_is_no_loss() -> None:
    clusters, cluster = one("n1")
    async with running(clusters) as run:
        run.fleet.connect("a", kubeconfig(ONE), version="1")
        await asyncio.sleep(1)
        cluster.fail(LOST)
        cluster.failure = None
        await asyncio.sleep(5)
        assert run.probe("a").reachable
        assert run.changes_of("a") <= 3
        assert len(cluster.times_of("version")) == 2
        assert len(cluster.times_of("list nodes")) == 1, "the watch goes on from where it was"


async def test_the_loss_clock_starts_at_the_first_failure_and_ends_with_the_loss() -> None:
    clusters, cluster = one()
    async with running(clusters) as run:
        run.fleet.connect("a", kubeconfig(ONE), version="1")
        await asyncio.sleep(1)
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


async def test_a_short_failure_heals_within_seconds() -> None:
    clusters, cluster = one("n1")
    async with running(clusters) as run:
        run.fleet.connect("a", kubeconfig(ONE), version="1")
        await asyncio.sleep(1)
        cluster.fail(LOST)
        while run.probe("a").reachable:  # noqa: ASYNC110 - virtual time
            await asyncio.sleep(0.1)
        cluster.failure = None
        await asyncio.sleep(1.6)
        assert run.probe("a").reachable


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


async def test_an_api_server_that_refuses_our_credentials_is_not_reachable() -> None:
    clusters, cluster = one()
    cluster.fail(ForbiddenError("token t is bad", status=401, reason="Unauthorized"))
    async with running(clusters) as run:
        run.fleet.connect("a", kubeconfig(ONE), version="1")
        await asyncio.sleep(1)
        assert (run.probe("a").reachable, run.probe("a").reason) == (False, "Unauthorized")
        assert "token t" not in run.probe("a").error


@pytest.mark.parametrize(
    ("failure", "reachable", "reason"),
    [
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
        assert run.probe("a").error


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
