"""The metrics that every controller made with controller-runtime exports, of one controller of ours."""

from __future__ import annotations

from typing import Final

from fournos.kube.resource import Key
from fournos.runtime.clock import Clock
from fournos.runtime.metrics import Metrics
from fournos.runtime.reconcile import Outcome, Result

RESULTS: Final = ("success", "error", "requeue", "requeue_after")


def result_of(outcome: Outcome) -> str:
    """The word of controller-runtime for a pass; of several the first that holds."""
    if outcome.result in (Result.FAILED, Result.CONFLICT, Result.BUG):
        return "error"
    if outcome.retry or outcome.again:
        return "requeue"
    return "requeue_after" if outcome.wake_at is not None else "success"


class ControllerMetrics:
    """A queue calls `added`, `taken` and `finished`; its controller the others."""

    def __init__(self, metrics: Metrics, controller: str, clock: Clock, *, workers: int) -> None:
        self._metrics = metrics
        self._controller = controller
        self._clock = clock
        self._since: dict[Key, float] = {}
        """Keys under way, and since when."""
        self._added = metrics.counter("workqueue_adds_total", controller, controller)
        self._waited = metrics.histogram("workqueue_queue_duration_seconds", controller, controller)
        self._worked = metrics.histogram("workqueue_work_duration_seconds", controller, controller)
        self._seconds = metrics.histogram("controller_runtime_reconcile_time_seconds", controller)
        self._results = {
            result: metrics.counter("controller_runtime_reconcile_total", controller, result)
            for result in RESULTS
        }
        # Present from the start, as alerts want them.
        self._errors = metrics.counter("controller_runtime_reconcile_errors_total", controller)
        self._panics = metrics.counter("controller_runtime_reconcile_panics_total", controller)
        self._retries = metrics.counter("workqueue_retries_total", controller, controller)
        metrics.set("controller_runtime_max_concurrent_reconciles", workers, controller)
        self.refresh(0)

    def added(self) -> None:
        self._added.inc()

    def taken(self, key: Key, waited: float) -> None:
        """A worker has the key, which waited so many seconds."""
        self._waited.observe(waited)
        self._since[key] = self._clock.monotonic()

    def finished(self, key: Key) -> None:
        since = self._since.pop(key, None)
        if since is not None:
            self._worked.observe(self._clock.monotonic() - since)

    def passed(self, outcome: Outcome, seconds: float) -> None:
        result = result_of(outcome)
        self._results[result].inc()
        self._seconds.observe(seconds)
        if result == "error":
            self._errors.inc()
        if outcome.result is Result.BUG:
            self._panics.inc()
        if outcome.retry:
            self._retries.inc()

    def refresh(self, depth: int) -> None:
        """Sets the gauges; to be called before metrics are read."""
        now, name = self._clock.monotonic(), self._controller
        under_way = [now - since for since in self._since.values()]
        self._metrics.set("controller_runtime_active_workers", len(under_way), name)
        self._metrics.set("workqueue_depth", depth, name, name)
        self._metrics.set("workqueue_unfinished_work_seconds", sum(under_way), name, name)
        longest = max(under_way, default=0.0)
        self._metrics.set("workqueue_longest_running_processor_seconds", longest, name, name)
