"""The Prometheus metrics of the history's store."""

from __future__ import annotations

from typing import Final

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

METRICS: Final[tuple[Metric, ...]] = (DATABASE_BYTES, DOCUMENT_BYTES, BLOB_BYTES, RUNS, EXPIRED)


def report(metrics: Metrics, *, database: int, documents: int, blobs: int, runs: int, expired: int) -> None:
    """Sets the sizes, in bytes, the number of runs, and adds the runs that have expired since."""
    metrics.add(EXPIRED, amount=expired)
    metrics.set(DATABASE_BYTES, database)
    metrics.set(DOCUMENT_BYTES, documents)
    metrics.set(BLOB_BYTES, blobs)
    metrics.set(RUNS, runs)
