"""The metrics of controller-runtime: what a pass counts as, and what a queue measures."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from fournos.engine.kube.resource import Key
from fournos.engine.runtime.informers import ControllerMetrics, result_of
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.queue import Queue
from fournos.engine.runtime.reconcile import PassOutcome, Result
from tests.world.server import VirtualClock

# --- gauges -----------------------------------------------------------------------------------------

KEY = Key("ns", "a")


@pytest.mark.parametrize(
    ("outcome", "word"),
    [
        (PassOutcome(Result.DONE), "success"),
        (PassOutcome(Result.GONE), "success"),
        (PassOutcome(Result.DONE, wake_at=datetime.now(UTC) + timedelta(seconds=1)), "requeue_after"),
        (PassOutcome(Result.DONE, again=True), "requeue"),
        (PassOutcome(Result.WAITING, retry=True), "requeue"),
        (PassOutcome(Result.FAILED, retry=True), "error"),
        (PassOutcome(Result.CONFLICT, retry=True), "error"),
        (PassOutcome(Result.BUG, retry=True), "error"),
    ],
)
def test_a_pass_has_controller_runtimes_word(outcome: PassOutcome, word: str) -> None:
    assert result_of(outcome) == word


async def test_a_queue_and_its_passes_are_measured_under_the_published_names() -> None:
    metrics, clock = Metrics(), VirtualClock()
    controller = ControllerMetrics(metrics, "AppWrapper", clock, workers=8)
    queue = Queue(clock, metrics=controller)
    queue.add(KEY)
    queue.add(KEY)  # is in already
    clock.advance(2)
    assert await queue.get() == KEY
    clock.advance(3)
    controller.refresh(len(queue))
    text = metrics.render().decode()
    both = 'controller="AppWrapper",name="AppWrapper"'
    assert f"workqueue_adds_total{{{both}}} 1.0" in text
    assert f"workqueue_queue_duration_seconds_sum{{{both}}} 2.0" in text
    assert f"workqueue_longest_running_processor_seconds{{{both}}} 3.0" in text
    assert 'controller_runtime_active_workers{controller="AppWrapper"} 1.0' in text
    assert 'controller_runtime_max_concurrent_reconciles{controller="AppWrapper"} 8.0' in text
    controller.passed(PassOutcome(Result.BUG, retry=True), 3.0)
    queue.done(KEY)
    controller.refresh(len(queue))
    text = metrics.render().decode()
    assert f"workqueue_work_duration_seconds_sum{{{both}}} 3.0" in text
    assert 'controller_runtime_active_workers{controller="AppWrapper"} 0.0' in text
    # All results are there from the start: a rate over one that appears later misses its first.
    assert 'controller_runtime_reconcile_total{controller="AppWrapper",result="error"} 1.0' in text
    assert 'controller_runtime_reconcile_total{controller="AppWrapper",result="success"} 0.0' in text
    for counter in ("reconcile_errors", "reconcile_panics"):
        assert f'controller_runtime_{counter}_total{{controller="AppWrapper"}} 1.0' in text
    assert f"workqueue_retries_total{{{both}}} 1.0" in text
    assert 'controller_runtime_reconcile_time_seconds_sum{controller="AppWrapper"} 3.0' in text
