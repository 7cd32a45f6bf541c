"""The Prometheus metrics of the history's store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from fournos.history.regressions.series import Kind
from fournos.history.regressions.standing import Standing, counts
from fournos.runtime.metrics import Metrics
from fournos.runtime.metrics_table import Counter, Gauge, Metric

DATABASE_BYTES: Final = Gauge(
    "fournos_history_database_bytes", "Size of the history's database, its write-ahead log included."
)
DOCUMENT_BYTES: Final = Gauge(
    "fournos_history_document_bytes", "Size of all documents in the history, as stored."
)
BLOB_BYTES: Final = Gauge("fournos_history_blob_bytes", "Size of all logs and artifacts in the history.")
RUNS: Final = Gauge("fournos_history_runs", "Runs in the history.")
EXPIRED: Final = Counter("fournos_history_expired_total", "Runs that the retention has deleted.")

CHANGES: Final = Gauge(
    "fournos_history_changes",
    "Recent changes of results that nobody has acknowledged, grouped by the run that they began with: "
    "Regression, Improvement or Change; Suspected, Confirming (reruns are under way) or Confirmed.",
    ("job_namespace", "kind", "state"),
)
SILENT: Final = Gauge(
    "fournos_history_silent_series",
    "KPIs that come no more: no run for three times the usual interval, or the newest run lacks them.",
    ("job_namespace",),
)

MESSAGES: Final = Counter(
    "fournos_history_webhook_messages_total",
    "Messages to the outgoing webhook, by what became of them: Sent or Failed.",
    ("delivery",),
)

EVENTS: Final = Counter(
    "fournos_history_events_total",
    "Kubernetes Events of confirmed changes, by what became of them: Sent, Failed, or Gone (the object does "
    "not exist any more).",
    ("delivery",),
)

METRICS: Final[tuple[Metric, ...]] = (
    DATABASE_BYTES,
    DOCUMENT_BYTES,
    BLOB_BYTES,
    RUNS,
    EXPIRED,
    CHANGES,
    SILENT,
    MESSAGES,
    EVENTS,
)


def report(metrics: Metrics, *, database: int, documents: int, blobs: int, runs: int, expired: int) -> None:
    """Sets the sizes, in bytes, the number of runs, and adds the runs that have expired since."""
    metrics.add(EXPIRED, amount=expired)
    metrics.set(DATABASE_BYTES, database)
    metrics.set(DOCUMENT_BYTES, documents)
    metrics.set(BLOB_BYTES, blobs)
    metrics.set(RUNS, runs)


def report_changes(metrics: Metrics, found: Mapping[str, Sequence[Standing]]) -> None:
    """Sets the changes and the silent series, by namespace."""
    metrics.clear(CHANGES)
    metrics.clear(SILENT)
    for namespace, standings in found.items():
        for kind in Kind:
            for state, number in counts(kind, standings).items():
                metrics.set(CHANGES, number, namespace, str(kind), state)
        metrics.set(SILENT, sum(one.silent for one in standings), namespace)


def count_message(metrics: Metrics, delivery: str) -> None:
    """Adds a message to the outgoing webhook."""
    metrics.add(MESSAGES, delivery)


def count_event(metrics: Metrics, delivery: str) -> None:
    """Adds an Event of a confirmed change."""
    metrics.add(EVENTS, delivery)
