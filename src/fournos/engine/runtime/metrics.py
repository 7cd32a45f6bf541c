"""Prometheus metrics: the series of the metrics that the runtime and the operators declare."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import prometheus_client as prometheus
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from fournos import __version__
from fournos.engine.runtime.metrics_table import (
    API_REQUEST_SECONDS,
    API_REQUESTS,
    BUILD_INFO,
    RUNTIME,
    Counter,
    Gauge,
    Histogram,
    Metric,
)

CONTENT_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    """The metrics of one process; each test makes its own.

    Labels are given in the order of their declaration.  Methods raise KeyError for an undeclared metric.
    """

    def __init__(self, declared: Iterable[Metric] = RUNTIME) -> None:
        self._registry = CollectorRegistry()
        self._declared = {metric.name: metric for metric in declared}
        self._counters: dict[str, prometheus.Counter] = {}
        self._gauges: dict[str, prometheus.Gauge] = {}
        self._histograms: dict[str, prometheus.Histogram] = {}
        self._counted: dict[tuple[str, tuple[str, ...]], prometheus.Counter] = {}
        self._observed: dict[tuple[str, tuple[str, ...]], prometheus.Histogram] = {}
        """The series by name and labels: the look-up of prometheus_client takes a lock and copies."""
        self._requests: dict[tuple[str, str, str, int], tuple[prometheus.Counter, prometheus.Histogram]] = {}
        """The series of an API request by (cluster, verb, resource, code), looked up only once."""
        for metric in self._declared.values():
            self._register(metric)
        self.set(BUILD_INFO, 1, __version__)

    def _register(self, metric: Metric) -> None:
        about = (metric.name, metric.help, metric.labels)
        match metric:
            case Counter():
                self._counters[metric.name] = prometheus.Counter(*about, registry=self._registry)
            case Gauge():
                self._gauges[metric.name] = prometheus.Gauge(*about, registry=self._registry)
            case Histogram(buckets=buckets):
                self._histograms[metric.name] = prometheus.Histogram(
                    *about, registry=self._registry, buckets=buckets
                )

    def add(self, counter: Counter, *labels: str, amount: float = 1.0) -> None:
        series = self._counted.get((counter.name, labels))
        if series is None:
            series = self._counted[counter.name, labels] = self.counter(counter, *labels)
        series.inc(amount)

    def counter(self, counter: Counter, *labels: str) -> prometheus.Counter:
        """Returns one series of a counter; for frequent increments, which then need no lookup."""
        found: prometheus.Counter = self._counters[counter.name]
        return found.labels(*labels) if labels else found

    def histogram(self, histogram: Histogram, *labels: str) -> prometheus.Histogram:
        """Returns one series of a histogram; for frequent observations."""
        found: prometheus.Histogram = self._histograms[histogram.name]
        return found.labels(*labels) if labels else found

    def set(self, gauge: Gauge, value: float, *labels: str) -> None:
        found = self._gauges[gauge.name]
        (found.labels(*labels) if labels else found).set(value)

    def clear(self, gauge: Gauge) -> None:
        """Removes all series of a gauge; only those that are set again are served."""
        self._gauges[gauge.name].clear()

    def remove(self, gauge: Gauge, *labels: str) -> None:
        """Removes one series of a gauge."""
        self._gauges[gauge.name].remove(*labels)

    def observe(self, histogram: Histogram, seconds: float, *labels: str) -> None:
        series = self._observed.get((histogram.name, labels))
        if series is None:
            series = self._observed[histogram.name, labels] = self.histogram(histogram, *labels)
        series.observe(seconds)

    def value(self, name: str, *labels: str) -> float:
        """Returns the present value of a counter or gauge, by the name under which it is served."""
        declared = self._declared[name]
        found = self._registry.get_sample_value(name, dict(zip(declared.labels, labels, strict=True)))
        return found or 0.0

    def requests(self, cluster: str) -> Callable[[str, str, int, float], None]:
        """Returns the observer for the client of this API server."""

        def seen(verb: str, resource: str, code: int, seconds: float) -> None:
            series = self._requests.get((cluster, verb, resource, code))
            if series is None:
                series = self._requests[cluster, verb, resource, code] = (
                    self._counters[API_REQUESTS.name].labels(cluster, verb, resource, str(code)),
                    self._histograms[API_REQUEST_SECONDS.name].labels(cluster, verb),
                )
            counter, histogram = series
            counter.inc()
            histogram.observe(seconds)

        return seen

    def render(self) -> bytes:
        """Returns the text exposition, of type CONTENT_TYPE."""
        return generate_latest(self._registry)
