"""Prometheus metrics: the series of the metrics that the runtime and the operators declare."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import prometheus_client as prometheus
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from fournos import __version__

# --- the metrics of every process -------------------------------------------------------------------
# The metrics of the runtime: our own, and those that every controller-runtime controller exports.
#
# A metric is declared once, as a constant.  Each operator declares its own metrics in its package.

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


@dataclass(frozen=True, slots=True)
class Metric:
    """The declaration of a metric."""

    name: str
    help: str
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Counter(Metric):
    """The declaration of a counter."""


@dataclass(frozen=True, slots=True)
class Gauge(Metric):
    """The declaration of a gauge."""


@dataclass(frozen=True, slots=True)
class Histogram(Metric):
    """The declaration of a histogram; `buckets` are upper bounds in seconds."""

    buckets: tuple[float, ...] = SECONDS


BUILD_INFO: Final = Gauge("fournos_build_info", "1, with the version that runs.", ("version",))
LEADER: Final = Gauge("fournos_leader", "1 while this process holds the lease.", ("lease",))
RECONCILES: Final = Counter(
    "fournos_reconciles_total",
    "Passes by result: gone, done, waiting, failed, conflict, bug.",
    ("system", "result"),
)
STEP_FAILURES: Final = Counter(
    "fournos_step_failures_total",
    "Steps that failed, by the class of the error.",
    ("system", "step", "error"),
)
QUEUE_RETRYING: Final = Gauge("fournos_queue_retrying", "Keys that wait for their backoff.", ("system",))
QUEUE_OLDEST_SECONDS: Final = Gauge(
    "fournos_queue_oldest_seconds", "How long the oldest ready key has been waiting.", ("system",)
)
API_REQUESTS: Final = Counter(
    "fournos_api_requests_total",
    "Requests to API servers; code 0: no answer.",
    ("cluster", "verb", "resource", "code"),
)
API_REQUEST_SECONDS: Final = Histogram(
    "fournos_api_request_seconds", "Duration of such a request.", ("cluster", "verb")
)
WATCH_AGE_SECONDS: Final = Gauge(
    "fournos_watch_age_seconds",
    "Seconds since a watch last delivered anything, bookmarks included.",
    ("resource", "namespace", "selector"),
)
CACHE_OBJECTS: Final = Gauge(
    "fournos_cache_objects", "Objects in a cache.", ("resource", "namespace", "selector")
)
TASK_RESTARTS: Final = Counter(
    "fournos_task_restarts_total", "Background tasks that ended and were restarted.", ("task",)
)
EVENTS_SENT: Final = Counter("fournos_events_sent_total", "Kubernetes Events written, repetitions included.")
EVENTS_DROPPED: Final = Counter(
    "fournos_events_dropped_total",
    "Kubernetes Events not written: rate limit, full queue, refused by the API server.",
    ("reason",),
)
WEBHOOK_REVIEWS: Final = Counter(
    "fournos_webhook_reviews_total",
    "Admission reviews by verdict: allowed, changed, refused, unsure (refused for now), garbled, failed.",
    ("webhook", "verdict"),
)
WEBHOOK_REVIEW_SECONDS: Final = Histogram(
    "fournos_webhook_review_seconds", "Duration of an admission review.", ("webhook",)
)
WEBHOOK_CERTIFICATE_END_SECONDS: Final = Gauge(
    "fournos_webhook_certificate_end_seconds", "When the webhooks' certificate ends, seconds since 1970."
)
LOOP_LAG_SECONDS: Final = Gauge("fournos_loop_lag_seconds", "How late the event loop's last tick came.")

# --- of every controller, as operators made with controller-runtime export them -----------------------
# The label's value is the kind that a controller works on.

RECONCILE_BUCKETS: Final = (
    *(0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    *(1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0),
    *(40.0, 50.0, 60.0),
)
WORK_BUCKETS: Final = tuple(1e-8 * 10.0**power for power in range(12))

CONTROLLER_RUNTIME_RECONCILE: Final = Counter(
    "controller_runtime_reconcile_total",
    "Passes of a controller by result: success, error, requeue, requeue_after.",
    ("controller", "result"),
)
CONTROLLER_RUNTIME_RECONCILE_ERRORS: Final = Counter(
    "controller_runtime_reconcile_errors_total", "Passes that failed.", ("controller",)
)
CONTROLLER_RUNTIME_RECONCILE_PANICS: Final = Counter(
    "controller_runtime_reconcile_panics_total",
    "Passes that ended in a fault of the program.",
    ("controller",),
)
CONTROLLER_RUNTIME_RECONCILE_TIME_SECONDS: Final = Histogram(
    "controller_runtime_reconcile_time_seconds", "Duration of a pass.", ("controller",), RECONCILE_BUCKETS
)
CONTROLLER_RUNTIME_MAX_CONCURRENT_RECONCILES: Final = Gauge(
    "controller_runtime_max_concurrent_reconciles",
    "Passes that a controller may make at the same time.",
    ("controller",),
)
CONTROLLER_RUNTIME_ACTIVE_WORKERS: Final = Gauge(
    "controller_runtime_active_workers", "Passes under way.", ("controller",)
)
WORKQUEUE_DEPTH: Final = Gauge("workqueue_depth", "Keys that wait for a worker.", ("name", "controller"))
WORKQUEUE_ADDS: Final = Counter(
    "workqueue_adds_total", "Keys that were added to the queue.", ("name", "controller")
)
WORKQUEUE_RETRIES: Final = Counter(
    "workqueue_retries_total", "Keys that were added again after a failure.", ("name", "controller")
)
WORKQUEUE_QUEUE_DURATION_SECONDS: Final = Histogram(
    "workqueue_queue_duration_seconds",
    "How long a key waited for a worker.",
    ("name", "controller"),
    WORK_BUCKETS,
)
WORKQUEUE_WORK_DURATION_SECONDS: Final = Histogram(
    "workqueue_work_duration_seconds", "How long a worker had a key.", ("name", "controller"), WORK_BUCKETS
)
WORKQUEUE_UNFINISHED_WORK_SECONDS: Final = Gauge(
    "workqueue_unfinished_work_seconds",
    "How long the keys under way have been under way, added up.",
    ("name", "controller"),
)
WORKQUEUE_LONGEST_RUNNING_PROCESSOR_SECONDS: Final = Gauge(
    "workqueue_longest_running_processor_seconds",
    "How long the oldest key under way has been under way.",
    ("name", "controller"),
)

RUNTIME: Final = tuple(metric for metric in tuple(globals().values()) if isinstance(metric, Metric))
"""The metrics that are declared above, in their order."""


CONTENT_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    """The metrics of one process; each test makes its own.

    Labels are given in the order of their declaration.  Methods raise KeyError for an undeclared metric.
    """

    def __init__(self, declared: Iterable[Metric] = RUNTIME) -> None:
        self._registry = CollectorRegistry()
        self._declared = {metric.name: metric for metric in declared}
        self._registered = {name: self._register(metric) for name, metric in self._declared.items()}
        self._series: dict[tuple[str, tuple[str, ...]], Any] = {}
        """Counters and histograms by name and labels: prometheus_client's look-up takes a lock and copies."""
        self.set(BUILD_INFO, 1, __version__)

    def _register(self, metric: Metric) -> Any:
        about = (metric.name, metric.help, metric.labels)
        if isinstance(metric, Histogram):
            return prometheus.Histogram(*about, registry=self._registry, buckets=metric.buckets)
        kind = prometheus.Counter if isinstance(metric, Counter) else prometheus.Gauge
        return kind(*about, registry=self._registry)

    def _found(self, metric: Metric, labels: tuple[str, ...]) -> Any:
        series = self._series.get((metric.name, labels))
        if series is None:
            registered = self._registered[metric.name]
            series = registered.labels(*labels) if labels else registered
            self._series[metric.name, labels] = series
        return series

    def add(self, counter: Counter, *labels: str, amount: float = 1.0) -> None:
        self._found(counter, labels).inc(amount)

    def observe(self, histogram: Histogram, seconds: float, *labels: str) -> None:
        self._found(histogram, labels).observe(seconds)

    def counter(self, counter: Counter, *labels: str) -> prometheus.Counter:
        """Returns one series of a counter, which is served from now on."""
        found: prometheus.Counter = self._found(counter, labels)
        return found

    def histogram(self, histogram: Histogram, *labels: str) -> prometheus.Histogram:
        """Returns one series of a histogram, which is served from now on."""
        found: prometheus.Histogram = self._found(histogram, labels)
        return found

    def set(self, gauge: Gauge, value: float, *labels: str) -> None:
        found = self._registered[gauge.name]
        (found.labels(*labels) if labels else found).set(value)

    def clear(self, gauge: Gauge) -> None:
        """Removes all series of a gauge; only those that are set again are served."""
        self._registered[gauge.name].clear()

    def remove(self, gauge: Gauge, *labels: str) -> None:
        """Removes one series of a gauge."""
        self._registered[gauge.name].remove(*labels)

    def value(self, name: str, *labels: str) -> float:
        """Returns the present value of a counter or gauge, by the name under which it is served."""
        declared = self._declared[name]
        found = self._registry.get_sample_value(name, dict(zip(declared.labels, labels, strict=True)))
        return found or 0.0

    def requests(self, cluster: str) -> Callable[[str, str, int, float], None]:
        """Returns the observer for the client of this API server."""

        def seen(verb: str, resource: str, code: int, seconds: float) -> None:
            self.add(API_REQUESTS, cluster, verb, resource, str(code))
            self.observe(API_REQUEST_SECONDS, seconds, cluster, verb)

        return seen

    def render(self) -> bytes:
        """Returns the text exposition, of type CONTENT_TYPE."""
        return generate_latest(self._registry)
