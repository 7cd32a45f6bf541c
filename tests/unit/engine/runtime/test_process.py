"""Processes: replicas, their leases, how they stop, their tasks and their health, in virtual time."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from fournos.engine.kube.errors import NotLeaderError
from fournos.engine.kube.resource import EVENT, LEASE, Key, Obj
from fournos.engine.runtime.clock import SystemClock
from fournos.engine.runtime.controller import Watch
from fournos.engine.runtime.decision import Decision, EventRecord, Facts
from fournos.engine.runtime.events import Recorder
from fournos.engine.runtime.informers import HEALTHY, TaskFailedError, supervise
from fournos.engine.runtime.lease import Lease
from fournos.engine.runtime.manager import Manager
from fournos.engine.runtime.metrics import QUEUE_RETRYING, Metrics
from fournos.engine.runtime.process import Health, run
from tests.unit.engine.runtime.controlled import Bench, Counting, toys, until, watching
from tests.unit.engine.runtime.toy import THING, TOY
from tests.world.connection import Connection

pytestmark = pytest.mark.looptime


def replica(
    bench: Bench, name: str, stop: asyncio.Event | None = None, *, leases: tuple[str, ...] = ("fournos",)
) -> asyncio.Task[int]:
    """A process with a controller for each lease, which writes its name to `status.<lease>`."""
    metrics = Metrics()
    recorder = Recorder(Connection(bench.server), bench.clock, metrics, instance=name)
    managers = [_leading(bench, name, lease, recorder) for lease in leases]
    task: asyncio.Task[int] = bench.start(
        run(managers, clock=bench.clock, metrics=metrics, recorder=recorder, stop=stop)
    )
    return task


def _leading(bench: Bench, name: str, of: str, recorder: Recorder) -> Manager:
    lease = Lease(Connection(bench.server), Key("ns", of), name, bench.clock, jitter=lambda: 0.5)

    def fence(number: int) -> None:
        lease.check()

    note = EventRecord("Normal", "Seen", name)
    by = "by" if of == "fournos" else of

    def decide(toy: Obj, facts: Facts) -> Decision:
        status = toy.get("status") or {}
        return Decision() if by in status else Decision(status={**status, by: name}, events=(note,))

    return Manager(
        Connection(bench.server, before=fence),
        [watching("t", decide)],
        lease=lease,
        clock=bench.clock,
        record=recorder.record,
    )


async def test_one_replica_works_stops_in_order_and_the_other_takes_over_at_once(bench: Bench) -> None:
    stop = asyncio.Event()
    first = replica(bench, "one", stop)
    await until(lambda: bench.server.find(LEASE, Key("ns", "fournos")))
    replica(bench, "two")
    toys(bench.server, "a")
    await until(lambda: bench.server.get(TOY, Key("ns", "a")).get("status") == {"by": "one"})
    stop.set()
    assert await first == 0
    assert [event["reportingInstance"] for event in bench.server.list(EVENT)] == ["one"]
    toys(bench.server, "b")
    before = bench.clock.monotonic()
    await until(lambda: bench.server.get(TOY, Key("ns", "b")).get("status") == {"by": "two"})
    assert bench.clock.monotonic() - before < 5


async def test_each_part_of_a_process_is_led_by_its_own_lease(bench: Bench) -> None:
    alone_stops = asyncio.Event()
    alone = replica(bench, "alone", alone_stops, leases=("part",))
    await until(lambda: bench.server.find(LEASE, Key("ns", "part")))
    both_stops = asyncio.Event()
    both = replica(bench, "both", both_stops, leases=("fournos", "part"))
    await until(lambda: bench.server.find(LEASE, Key("ns", "fournos")))
    toys(bench.server, "a")
    await until(lambda: len(bench.server.get(TOY, Key("ns", "a")).get("status") or {}) == 2)
    assert bench.server.get(TOY, Key("ns", "a"))["status"] == {"by": "both", "part": "alone"}
    alone_stops.set()
    assert await alone == 0
    await until(lambda: bench.server.get(LEASE, Key("ns", "part"))["spec"].get("holderIdentity") == "both")
    toys(bench.server, "b")
    await until(lambda: len(bench.server.get(TOY, Key("ns", "b")).get("status") or {}) == 2)
    assert bench.server.get(TOY, Key("ns", "b"))["status"] == {"by": "both", "part": "both"}
    both_stops.set()
    assert await both == 0
    for name in ("fournos", "part"):
        assert "holderIdentity" not in bench.server.get(LEASE, Key("ns", name))["spec"]


async def test_a_part_whose_crd_is_missing_keeps_no_other_part_idle(bench: Bench) -> None:
    bench.server.unserved.add(THING)
    toys(bench.server, "a")

    def marking(name: str, *watches: Watch) -> Manager:
        def decide(toy: Obj, facts: Facts) -> Decision:
            return Decision(status={**(toy.get("status") or {}), name: True})

        controller = watching(name, decide)
        return bench.manager(replace(controller, watches=(*controller.watches, *watches)))

    complete, lacking = marking("toys"), marking("things", Watch(THING, lambda obj, caches: []))
    stop = asyncio.Event()
    only = bench.start(run([lacking, complete], clock=bench.clock, metrics=bench.metrics, stop=stop))
    await until(lambda: bench.server.get(TOY, Key("ns", "a")).get("status") == {"toys": True})
    assert lacking.informers.unsynced()
    bench.server.unserved.clear()
    await until(lambda: bench.server.get(TOY, Key("ns", "a"))["status"].get("things"))
    stop.set()
    assert await only == 0


async def test_a_process_stops_while_a_part_waits_for_its_crd(bench: Bench) -> None:
    bench.server.unserved.add(THING)
    things = Watch(THING, lambda obj, caches: [])
    lacking = replace(watching("things", lambda toy, facts: Decision()), watches=(things,))
    managers = [bench.manager(watching("toys", lambda toy, facts: Decision())), bench.manager(lacking)]
    stop = asyncio.Event()
    only = bench.start(run(managers, clock=bench.clock, metrics=bench.metrics, stop=stop))
    await asyncio.sleep(5)
    stop.set()
    assert await only == 0


async def test_sigterm_ends_it_in_order(bench: Bench) -> None:
    only = replica(bench, "one")
    await until(lambda: bench.server.find(LEASE, Key("ns", "fournos")))
    os.kill(os.getpid(), signal.SIGTERM)
    assert await only == 0
    assert "holderIdentity" not in bench.server.get(LEASE, Key("ns", "fournos"))["spec"]


async def test_a_lost_lease_ends_it_with_an_error_and_the_lease_is_left_alone(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    only = replica(bench, "one")
    await until(lambda: bench.server.find(LEASE, Key("ns", "fournos")))
    bench.server.patch(LEASE, Key("ns", "fournos"), {"spec": {"holderIdentity": "thief"}})
    assert await only == 1
    assert "leadership lost" in caplog.text
    assert bench.server.get(LEASE, Key("ns", "fournos"))["spec"]["holderIdentity"] == "thief"


async def test_a_replica_that_only_waits_stops_too(bench: Bench) -> None:
    replica(bench, "one")
    await until(lambda: bench.server.find(LEASE, Key("ns", "fournos")))
    stop = asyncio.Event()
    second = replica(bench, "two", stop)
    await asyncio.sleep(5)
    stop.set()
    assert await second == 0
    assert bench.server.get(LEASE, Key("ns", "fournos"))["spec"]["holderIdentity"] == "one"


def hanging(bench: Bench, seconds: float) -> Manager:
    """Its one status write takes this long."""

    class Slow(Counting):
        async def patch(self, *args: Any, **options: Any) -> Obj:
            await asyncio.sleep(seconds)
            return await super().patch(*args, **options)

    bench.api = Slow(bench.server)
    toys(bench.server, "a")
    return bench.manager(watching("t", lambda toy, facts: Decision(status={"seen": True})))


@pytest.mark.parametrize(("takes", "written"), [(5, True), (50, False)])
async def test_without_a_lease_it_works_and_stops_within_its_grace(
    bench: Bench, takes: float, written: bool, caplog: pytest.LogCaptureFixture
) -> None:
    stop = asyncio.Event()
    managers = [hanging(bench, takes), bench.manager(watching("other", lambda toy, facts: Decision()))]
    only = bench.start(run(managers, clock=bench.clock, metrics=bench.metrics, stop=stop, grace=20))
    await asyncio.sleep(1)
    assert bench.metrics.value("fournos_leader", "") == 1
    before = bench.clock.monotonic()
    stop.set()
    assert await only == 0
    assert bench.clock.monotonic() - before == pytest.approx(4 if written else 20, abs=0.2)
    assert bool(bench.server.get(TOY, Key("ns", "a")).get("status")) is written
    assert ("are cut off" in caplog.text) is not written


async def test_a_background_task_that_keeps_ending_ends_the_process(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken() -> None:
        raise OSError("port is taken")

    code = await run(
        [bench.manager(watching("t", lambda toy, facts: Decision()))],
        clock=bench.clock,
        metrics=bench.metrics,
        background={"health": broken},
    )
    assert code == 1
    assert "task health ended 5 times in a row" in caplog.text


# --- supervision -------------------------------------------------------------------------------------


async def test_a_task_that_ends_is_restarted_and_one_that_keeps_ending_is_given_up(bench: Bench) -> None:
    runs = 0

    async def fragile() -> None:
        nonlocal runs
        runs += 1
        if runs == 2:
            await asyncio.sleep(HEALTHY + 1)
        if runs % 2:
            raise RuntimeError("boom")

    with pytest.raises(TaskFailedError, match="fragile ended 5 times in a row"):
        await supervise("fragile", fragile, clock=bench.clock, metrics=bench.metrics)
    assert runs == 6  # the one that held for long made the first forgotten
    assert bench.metrics.value("fournos_task_restarts_total", "fragile") == 5


async def test_lost_leadership_is_not_restarted(bench: Bench) -> None:
    async def fenced() -> None:
        raise NotLeaderError("gone")

    with pytest.raises(NotLeaderError):
        await supervise("fenced", fenced, clock=bench.clock, metrics=bench.metrics)


# --- /healthz, /readyz, /metrics, and the metrics' table ---------------------------------------------

ROOT = Path(__file__).parents[4]


async def test_problems_are_reported_with_503() -> None:
    silent: list[str] = []
    unsynced = ["toys: not listed yet", "things: not served"]
    health = Health(SystemClock(), Metrics(), alive=lambda: silent, ready=lambda: unsynced)
    async with TestClient(TestServer(health.app())) as client:
        answer = await client.get("/healthz")
        assert (answer.status, await answer.text()) == (200, "ok\n")
        answer = await client.get("/readyz")
        assert (answer.status, await answer.text()) == (503, "toys: not listed yet\nthings: not served\n")
        unsynced.clear()
        silent.append("watch of toys: silent for 400 s")
        assert (await client.get("/readyz")).status == 200
        assert (await client.get("/healthz")).status == 503


async def test_remarks_are_shown_and_decide_nothing() -> None:
    unsynced: list[str] = []
    waits = "watch of toys: busy; next try in 60 s"
    health = Health(SystemClock(), Metrics(), ready=lambda: unsynced, remarks=lambda: [waits])
    async with TestClient(TestServer(health.app())) as client:
        for path in ("/healthz", "/readyz"):
            answer = await client.get(path)
            assert (answer.status, await answer.text()) == (200, f"ok\n{waits}\n")
        unsynced.append("toys: not listed yet")
        answer = await client.get("/readyz")
        assert (answer.status, await answer.text()) == (503, f"toys: not listed yet\n{waits}\n")


async def test_metrics_are_refreshed_and_exposed() -> None:
    def fail() -> None:
        raise KeyError("of one part")

    metrics = Metrics()
    health = Health(
        SystemClock(),
        metrics,
        refresh=[fail, lambda: metrics.set(QUEUE_RETRYING, 3, "toys")],
    )
    metrics.requests("local")("patch", "toys.test.dev", 409, 0.02)
    async with TestClient(TestServer(health.app())) as client:
        answer = await client.get("/metrics")
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        text = await answer.text()
    assert 'fournos_queue_retrying{system="toys"} 3.0' in text
    assert (
        'fournos_api_requests_total{cluster="local",code="409",resource="toys.test.dev",verb="patch"} 1.0'
        in text
    )
    assert 'fournos_api_request_seconds_count{cluster="local",verb="patch"} 1.0' in text


@pytest.mark.looptime
async def test_a_loop_that_hangs_is_reported() -> None:
    class Jumping:
        """A clock that finds a minute gone after the first tick."""

        times = iter([0.0, 61.0, 61.0, 62.0])

        def monotonic(self) -> float:
            return next(self.times)

        now = SystemClock().now

    metrics = Metrics()
    health = Health(Jumping(), metrics)
    ticking = asyncio.create_task(health._tick())
    await asyncio.sleep(1.5)
    response = await health._healthz(None)  # type: ignore[arg-type]
    assert (response.status, response.text) == (503, "the event loop was held up for 60.0 s\n")
    assert metrics.value("fournos_loop_lag_seconds") == 60
    await asyncio.sleep(0.9)
    assert (await health._healthz(None)).status == 200  # type: ignore[arg-type]
    ticking.cancel()
