"""The Prometheus metrics of the history's store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from fournos.engine.runtime.metrics import Counter, Gauge, Metric, Metrics
from fournos.history.regressions.review import Standing, counts, silent_by_schedule
from fournos.history.regressions.series import Kind

DATABASE_BYTES: Final = Gauge(
    "fournos_history_database_bytes", "Size of the history's database, its write-ahead log included."
)
NAMESPACE_BYTES: Final = Gauge(
    "fournos_history_namespace_bytes",
    "Size of documents, results, logs and artifacts of the namespaces with the most of them.",
    ("job_namespace",),
)
NAMESPACE_LIMIT_BYTES: Final = Gauge(
    "fournos_history_namespace_limit_bytes", "How much of them is kept of one namespace; more is refused."
)
RUNS: Final = Gauge("fournos_history_runs", "Runs in the history.")
EXPIRED: Final = Counter("fournos_history_expired_total", "Runs that the retention has deleted.")

CHANGES: Final = Gauge(
    "fournos_history_changes",
    "Open regressions, and other changes of the last 14 days that nobody has acknowledged, grouped by "
    "their run: Regression, Improvement or Change; Suspected, Confirming (reruns are under way) or "
    "Confirmed.",
    ("job_namespace", "kind", "state"),
)
SILENT: Final = Gauge(
    "fournos_history_silent_series",
    "KPIs that come no more: no run for three times the usual interval, or the newest run lacks them; by the "
    "FournosSchedule of the newest run, if it has one.",
    ("job_namespace", "schedule"),
)

MESSAGES: Final = Counter(
    "fournos_history_webhook_messages_total",
    "Messages to the outgoing webhook, by what became of them: Sent or Failed.",
    ("delivery",),
)
SKIPPED: Final = Counter(
    "fournos_history_skipped_total",
    "Benchmarks (judge) and messages (announce) that a task of the history passed over, because something is "
    "wrong with them alone; the log names each.",
    ("task",),
)
METRICS: Final[tuple[Metric, ...]] = (
    DATABASE_BYTES,
    NAMESPACE_BYTES,
    NAMESPACE_LIMIT_BYTES,
    RUNS,
    EXPIRED,
    CHANGES,
    SILENT,
    MESSAGES,
    SKIPPED,
)


def report(
    metrics: Metrics, *, database: int, runs: int, expired: int, namespaces: Mapping[str, int], most: int
) -> None:
    """Sets the sizes, in bytes, the number of runs, and adds the runs that have expired since."""
    metrics.add(EXPIRED, amount=expired)
    metrics.set(DATABASE_BYTES, database)
    metrics.set(RUNS, runs)
    metrics.clear(NAMESPACE_BYTES)
    for namespace, size in namespaces.items():
        metrics.set(NAMESPACE_BYTES, size, namespace)
    if most:
        metrics.set(NAMESPACE_LIMIT_BYTES, most)


def report_changes(metrics: Metrics, by_namespace: Mapping[str, Sequence[Standing]]) -> None:
    """Sets the changes and the silent series, by namespace."""
    metrics.clear(CHANGES)
    metrics.clear(SILENT)
    for namespace, standings in by_namespace.items():
        for kind in Kind:
            for state, number in counts(kind, standings).items():
                metrics.set(CHANGES, number, namespace, str(kind), state)
        for schedule, number in silent_by_schedule(standings).items():
            metrics.set(SILENT, number, namespace, schedule)
