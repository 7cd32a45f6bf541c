"""/healthz, /readyz, /metrics, and the metrics' table."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp.test_utils import TestClient, TestServer

from fournos.engine.runtime.clock import SystemClock
from fournos.engine.runtime.metrics import QUEUE_READY, Metrics
from fournos.engine.runtime.process import Health

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
    metrics = Metrics()
    health = Health(
        SystemClock(),
        metrics,
        refresh=lambda: metrics.set(QUEUE_READY, 3, "toys"),
    )
    metrics.requests("local")("patch", "toys.test.dev", 409, 0.02)
    async with TestClient(TestServer(health.app())) as client:
        answer = await client.get("/metrics")
        assert answer.headers["Content-Type"].startswith("text/plain; version=")
        text = await answer.text()
    assert 'fournos_queue_ready{system="toys"} 3.0' in text
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
