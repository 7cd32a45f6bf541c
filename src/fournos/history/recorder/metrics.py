"""The Prometheus metrics of the recorder."""

from __future__ import annotations

from typing import Final

from fournos.engine.runtime.metrics import Counter, Gauge, Metric, Metrics
from fournos.history.recorder.journal import Journal
from fournos.history.records import Record

RECORDS: Final = Counter(
    "fournos_history_records_total",
    "Records that the history took, or refused because it has a newer one or the run was deleted there.",
    ("kind", "result"),
)
OPEN: Final = Gauge("fournos_history_open_runs", "Recorded runs whose end is not recorded yet.", ("kind",))
METRICS: Final[tuple[Metric, ...]] = (RECORDS, OPEN)


def count(metrics: Metrics, record: Record, taken: bool) -> None:
    metrics.add(RECORDS, record.run.kind, "taken" if taken else "refused")


def report(journals: dict[str, Journal], metrics: Metrics) -> None:
    """Sets the gauge, by kind."""
    for kind, journal in journals.items():
        metrics.set(OPEN, journal.open_count(), kind)
