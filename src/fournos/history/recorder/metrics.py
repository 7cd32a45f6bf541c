"""The Prometheus metrics of the recorder."""

from __future__ import annotations

from typing import Final

from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.metrics_table import Counter, Gauge, Metric
from fournos.history.recorder.journal import Journal
from fournos.history.records import Record

RECORDS: Final = Counter(
    "fournos_history_records_total",
    "Records that the history took, or refused because it has a newer one or the run was deleted there.",
    ("kind", "result"),
)
OPEN: Final = Gauge("fournos_history_open_runs", "Recorded runs whose end is not recorded yet.", ("kind",))
LOG_STREAMS: Final = Gauge("fournos_history_log_streams", "Logs of containers that the history is reading.")
LOG_WAITING: Final = Gauge(
    "fournos_history_log_waiting_bytes", "Bytes of log lines that are read and not yet stored."
)
METRICS: Final[tuple[Metric, ...]] = (RECORDS, OPEN, LOG_STREAMS, LOG_WAITING)


def count(metrics: Metrics, record: Record, taken: bool) -> None:
    metrics.add(RECORDS, record.run.kind, "taken" if taken else "refused")


def report(journals: dict[str, Journal], metrics: Metrics) -> None:
    """Sets the gauge, by kind."""
    for kind, journal in journals.items():
        metrics.set(OPEN, journal.open_count(), kind)


def report_logs(streams: int, waiting: int, metrics: Metrics) -> None:
    """Sets the gauges of the log collector."""
    metrics.set(LOG_STREAMS, streams)
    metrics.set(LOG_WAITING, waiting)
