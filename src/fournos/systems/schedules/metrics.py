"""The Prometheus metrics of FournosSchedules, from the cache and from this process's own status writes."""

from __future__ import annotations

from typing import Final

from fournos.api.fournosschedule import MissedReason
from fournos.api.kinds import FOURNOS_SCHEDULE
from fournos.engine.api.times import parse_time
from fournos.engine.kube.resource import Obj, uid_of
from fournos.engine.runtime.controller import Caches
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.metrics_table import Counter, Gauge, Histogram, Metric
from fournos.systems.schedules.names import jitter

LATE: Final = Histogram(
    "fournos_schedule_late_seconds",
    "From the scheduled time, with its jitter, to when a FournosSchedule took it up.",
    (),
    (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 43200.0),
)
MISSED: Final = Counter(
    "fournos_schedule_missed_total",
    "Times at which a FournosSchedule created no job, by the reason of the newest of them.",
    ("reason",),
)
LAST_SUCCESS: Final = Gauge(
    "fournos_schedule_last_success_timestamp_seconds",
    "Scheduled time of the last fire of a FournosSchedule that succeeded.",
    ("namespace", "schedule"),
)
FAILURES: Final = Gauge(
    "fournos_schedule_failures_in_a_row",
    "Fires of a FournosSchedule that failed since one succeeded.",
    ("namespace", "schedule"),
)
METRICS: Final[tuple[Metric, ...]] = (LATE, MISSED, LAST_SUCCESS, FAILURES)


def count_written(metrics: Metrics, before: Obj, now: Obj) -> None:
    """Counts what a status write says: a time that was taken up, and times that were missed."""
    status, earlier = now.get("status") or {}, before.get("status") or {}
    begun = status.get("lastStartTime")
    if begun and begun != earlier.get("lastStartTime"):
        moved = jitter(uid_of(now), int((now.get("spec") or {}).get("jitterSeconds") or 0))
        for fire in status.get("active") or ():
            if fire["time"] == begun:
                late = _seconds(fire["startedAt"]) - _seconds(begun) - moved
                metrics.observe(LATE, max(0.0, late))
    missed, missed_before = status.get("missed") or {}, earlier.get("missed") or {}
    added = int(missed.get("count") or 0) - int(missed_before.get("count") or 0)
    if added > 0:
        metrics.add(MISSED, str(missed["reason"]), amount=added)


def report(caches: Caches, metrics: Metrics) -> None:
    """Sets the gauges from the cache; every reason of a missed time is exported, if only as 0."""
    for reason in MissedReason:
        metrics.add(MISSED, reason.value, amount=0)
    metrics.clear(LAST_SUCCESS)
    metrics.clear(FAILURES)
    for schedule in caches[FOURNOS_SCHEDULE]:
        meta, status = schedule["metadata"], schedule.get("status") or {}
        labels = (str(meta["namespace"]), str(meta["name"]))
        metrics.set(FAILURES, int(status.get("failures") or 0), *labels)
        if status.get("lastSuccessTime"):
            metrics.set(LAST_SUCCESS, _seconds(status["lastSuccessTime"]), *labels)


def _seconds(text: str) -> float:
    return parse_time(text).timestamp()
