"""The metrics of controller-runtime for one controller of ours."""

from __future__ import annotations

from typing import Final

from fournos.engine.kube.resource import Key
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.metrics_table import (
    CONTROLLER_RUNTIME_ACTIVE_WORKERS,
    CONTROLLER_RUNTIME_MAX_CONCURRENT_RECONCILES,
    CONTROLLER_RUNTIME_RECONCILE,
    CONTROLLER_RUNTIME_RECONCILE_ERRORS,
    CONTROLLER_RUNTIME_RECONCILE_PANICS,
    CONTROLLER_RUNTIME_RECONCILE_TIME_SECONDS,
    WORKQUEUE_ADDS,
    WORKQUEUE_DEPTH,
    WORKQUEUE_LONGEST_RUNNING_PROCESSOR_SECONDS,
    WORKQUEUE_QUEUE_DURATION_SECONDS,
    WORKQUEUE_RETRIES,
    WORKQUEUE_UNFINISHED_WORK_SECONDS,
    WORKQUEUE_WORK_DURATION_SECONDS,
)
from fournos.engine.runtime.reconcile import PassOutcome, Result

RESULTS: Final = ("success", "error", "requeue", "requeue_after")


def result_of(outcome: PassOutcome) -> str:
    """Returns controller-runtime's result of a pass; if several apply, the first in the order of the code."""
    if outcome.result in (Result.FAILED, Result.CONFLICT, Result.BUG):
        return "error"
    if outcome.retry or outcome.again:
        return "requeue"
    return "requeue_after" if outcome.wake_at is not None else "success"


class ControllerMetrics:
    """The metrics of one controller.  Its queue calls `added`, `taken` and `finished`; its manager the
    others."""

    def __init__(self, metrics: Metrics, controller: str, clock: Clock, *, workers: int) -> None:
        self._metrics = metrics
        self._controller = controller
        self._clock = clock
        self._since: dict[Key, float] = {}
        """The keys under way, each with the time of its start."""
        self._added = metrics.counter(WORKQUEUE_ADDS, controller, controller)
        self._waited = metrics.histogram(WORKQUEUE_QUEUE_DURATION_SECONDS, controller, controller)
        self._worked = metrics.histogram(WORKQUEUE_WORK_DURATION_SECONDS, controller, controller)
        self._seconds = metrics.histogram(CONTROLLER_RUNTIME_RECONCILE_TIME_SECONDS, controller)
        self._results = {
            result: metrics.counter(CONTROLLER_RUNTIME_RECONCILE, controller, result) for result in RESULTS
        }
        # Created at start with value 0: an alert on a rate needs the series before the first error.
        self._errors = metrics.counter(CONTROLLER_RUNTIME_RECONCILE_ERRORS, controller)
        self._panics = metrics.counter(CONTROLLER_RUNTIME_RECONCILE_PANICS, controller)
        self._retries = metrics.counter(WORKQUEUE_RETRIES, controller, controller)
        metrics.set(CONTROLLER_RUNTIME_MAX_CONCURRENT_RECONCILES, workers, controller)
        self.refresh(0)

    def added(self) -> None:
        self._added.inc()

    def taken(self, key: Key, waited: float) -> None:
        """Records that a worker has taken the key, after `waited` seconds in the queue."""
        self._waited.observe(waited)
        self._since[key] = self._clock.monotonic()

    def finished(self, key: Key) -> None:
        since = self._since.pop(key, None)
        if since is not None:
            self._worked.observe(self._clock.monotonic() - since)

    def passed(self, outcome: PassOutcome, seconds: float) -> None:
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
        """Sets the gauges.  Call it before metrics are read."""
        now, name = self._clock.monotonic(), self._controller
        under_way = [now - since for since in self._since.values()]
        self._metrics.set(CONTROLLER_RUNTIME_ACTIVE_WORKERS, len(under_way), name)
        self._metrics.set(WORKQUEUE_DEPTH, depth, name, name)
        self._metrics.set(WORKQUEUE_UNFINISHED_WORK_SECONDS, sum(under_way), name, name)
        longest = max(under_way, default=0.0)
        self._metrics.set(WORKQUEUE_LONGEST_RUNNING_PROCESSOR_SECONDS, longest, name, name)
