"""Prometheus metrics.  Every one is registered in the table below; its reference page is made from it.

`python -m fournos.runtime.metrics` prints the page.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from fournos import __version__

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    type: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str


TABLE: tuple[Row, ...] = (
    Row("fournos_build_info", "gauge", ("version",), "1, with the version that runs."),
    Row("fournos_leader", "gauge", ("lease",), "1 while this process holds the lease."),
    Row(
        "fournos_reconciles_total",
        "counter",
        ("system", "result"),
        "Passes by result: gone, done, waiting, failed, conflict, bug.",
    ),
    Row("fournos_reconcile_seconds", "histogram", ("system",), "Duration of a pass, its API calls included."),
    Row(
        "fournos_reconcile_retries_total", "counter", ("system",), "Passes that are tried again with backoff."
    ),
    Row("fournos_steps_total", "counter", ("system", "step", "resource"), "Steps that succeeded."),
    Row(
        "fournos_step_failures_total",
        "counter",
        ("system", "step", "error"),
        "Steps that failed, by the class of the error.",
    ),
    Row("fournos_status_writes_total", "counter", ("system",), "Status writes."),
    Row("fournos_queue_ready", "gauge", ("system",), "Keys that wait for a worker."),
    Row("fournos_queue_processing", "gauge", ("system",), "Keys that a worker has."),
    Row("fournos_queue_retrying", "gauge", ("system",), "Keys that wait for their backoff."),
    Row("fournos_queue_sleeping", "gauge", ("system",), "Keys with a deadline ahead."),
    Row(
        "fournos_queue_oldest_seconds",
        "gauge",
        ("system",),
        "How long the oldest ready key has been waiting.",
    ),
    Row(
        "fournos_api_requests_total",
        "counter",
        ("cluster", "verb", "resource", "code"),
        "Requests to API servers; code 0: no answer.",
    ),
    Row("fournos_api_request_seconds", "histogram", ("cluster", "verb"), "Duration of such a request."),
    Row(
        "fournos_watch_age_seconds",
        "gauge",
        ("resource", "namespace", "selector"),
        "Seconds since a watch last delivered anything, bookmarks included.",
    ),
    Row("fournos_cache_objects", "gauge", ("resource", "namespace", "selector"), "Objects in a cache."),
    Row(
        "fournos_task_restarts_total", "counter", ("task",), "Background tasks that ended and were restarted."
    ),
    Row("fournos_events_sent_total", "counter", (), "Kubernetes Events written, repetitions included."),
    Row(
        "fournos_events_dropped_total",
        "counter",
        ("reason",),
        "Kubernetes Events not written: rate limit, full queue, refused by the API server.",
    ),
    Row("fournos_clusters", "gauge", ("state",), "FournosClusters by status.kubeconfigStatus."),
    Row("fournos_cluster_locks", "gauge", ("state",), "Locks of FournosClusters by state."),
    Row("fournos_cluster_gpus", "gauge", ("cluster", "model"), "GPUs of FournosClusters by short name."),
    Row(
        "fournos_webhook_reviews_total",
        "counter",
        ("webhook", "verdict"),
        "Admission reviews by verdict: allowed, changed, refused, unsure (refused for now), garbled, failed.",
    ),
    Row("fournos_webhook_review_seconds", "histogram", ("webhook",), "Duration of an admission review."),
    Row(
        "fournos_webhook_certificate_end_seconds",
        "gauge",
        (),
        "When the webhooks' certificate ends, seconds since 1970.",
    ),
    Row("fournos_appwrappers", "gauge", ("phase",), "AppWrappers by status.phase."),
    Row(
        "appwrapper_phase_total",
        "counter",
        ("namespace", "phase"),
        "Phases that AppWrappers have entered, under the published operator's name.",
    ),
    Row("fournos_miniclusters", "gauge", ("phase",), "MiniClusters by status.phase."),
    Row("fournos_minicluster_brokers", "gauge", (), "Brokers of all MiniClusters that are up."),
    Row("fournos_loop_lag_seconds", "gauge", (), "How late the event loop's last tick came."),
)

CONTENT_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    """The table's metrics of one process (tests make their own)."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        self._histograms: dict[str, Histogram] = {}
        self._requests: dict[tuple[str, str, str, int], tuple[Counter, Histogram]] = {}
        """The series of a request by cluster, verb, resource and code: looked up once, not for each."""
        for row in TABLE:
            match row.type:
                case "counter":
                    self._counters[row.name] = Counter(
                        row.name, row.help, row.labels, registry=self._registry
                    )
                case "gauge":
                    self._gauges[row.name] = Gauge(row.name, row.help, row.labels, registry=self._registry)
                case "histogram":
                    self._histograms[row.name] = Histogram(
                        row.name, row.help, row.labels, registry=self._registry, buckets=_SECONDS
                    )

        self.set("fournos_build_info", 1, __version__)

    def add(self, name: str, *labels: str, amount: float = 1.0) -> None:
        """Count.  Labels in the order of the table; KeyError for a name that is not in it."""
        counter = self._counters[name]
        (counter.labels(*labels) if labels else counter).inc(amount)

    def set(self, name: str, value: float, *labels: str) -> None:
        gauge = self._gauges[name]
        (gauge.labels(*labels) if labels else gauge).set(value)

    def clear(self, name: str) -> None:
        """Forget all label values of a gauge: those that are not set again are gone."""
        self._gauges[name].clear()

    def forget(self, name: str, *labels: str) -> None:
        """Serve these label values of a gauge no more."""
        self._gauges[name].remove(*labels)

    def observe(self, name: str, seconds: float, *labels: str) -> None:
        histogram = self._histograms[name]
        (histogram.labels(*labels) if labels else histogram).observe(seconds)

    def value(self, name: str, *labels: str) -> float:
        """The present value of a counter or gauge."""
        row = next(row for row in TABLE if row.name == name)
        found = self._registry.get_sample_value(name, dict(zip(row.labels, labels, strict=True)))
        return found or 0.0

    def requests(self, cluster: str) -> Callable[[str, str, int, float], None]:
        """An observer for the client of this API server."""

        def seen(verb: str, resource: str, code: int, seconds: float) -> None:
            series = self._requests.get((cluster, verb, resource, code))
            if series is None:
                series = self._requests[cluster, verb, resource, code] = (
                    self._counters["fournos_api_requests_total"].labels(cluster, verb, resource, str(code)),
                    self._histograms["fournos_api_request_seconds"].labels(cluster, verb),
                )
            counter, histogram = series
            counter.inc()
            histogram.observe(seconds)

        return seen

    def render(self) -> bytes:
        """The text exposition, of type CONTENT_TYPE."""
        return generate_latest(self._registry)


def reference() -> str:
    """The reference page in Markdown."""
    lines = [
        "# Metrics",
        "",
        "Served at `/metrics`. Generated by `python -m fournos.runtime.metrics`; do not edit.",
        "",
        "| name | type | labels | meaning |",
        "|---|---|---|---|",
    ]
    for row in TABLE:
        labels = ", ".join(f"`{label}`" for label in row.labels) or "–"
        lines.append(f"| `{row.name}` | {row.type} | {labels} | {row.help} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(reference())
