"""The tasks of the metrics server."""

from __future__ import annotations

import asyncio

import pytest

from fournos.app.metrics import TABLE
from fournos.app.metrics_server import metrics_tasks
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.metrics_server.settings import MetricsSettings
from tests.unit.engine.runtime.loop import LoopClock
from tests.world.server import Connection, Server


@pytest.mark.looptime
async def test_the_end_of_the_certificate_is_a_metric() -> None:
    metrics, clock = Metrics(TABLE), LoopClock()
    tasks = metrics_tasks(
        Connection(Server()),
        MetricsSettings(port=9999),
        namespace="ns",
        clock=clock,
        metrics=metrics,
        refresh=lambda: None,
    )
    task = asyncio.create_task(tasks["metrics-certificate"]())  # type: ignore[arg-type]
    await asyncio.sleep(5)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    ends = metrics.value("fournos_metrics_certificate_end_seconds")
    assert ends > clock.now().timestamp()


def test_without_a_port_there_are_none() -> None:
    metrics = Metrics(TABLE)
    api = Connection(Server())
    settings = MetricsSettings(port=0)
    assert (
        metrics_tasks(api, settings, namespace="ns", clock=LoopClock(), metrics=metrics, refresh=lambda: None)
        == {}
    )
