"""The Prometheus metrics of FournosSchedules, from the cache and from this process's own status writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from fournos.api.fournosschedule import FournosScheduleSpec, FournosScheduleStatus, MissedReason
from fournos.api.kinds import FOURNOS_SCHEDULE
from fournos.engine.api.times import parse_time
from fournos.engine.kube.resource import Obj, key_of, uid_of
from fournos.engine.runtime.controller import Caches
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.metrics_table import Counter, Gauge, Histogram, Metric
from fournos.systems.schedules.names import jitter
from fournos.systems.schedules.overdue import success_expected

_LABELS: Final = ("job_namespace", "schedule")
"""As the history's metrics have them, so that alerts can join both."""
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
    _LABELS,
)
FAILURES: Final = Gauge(
    "fournos_schedule_failures_in_a_row",
    "Fires of a FournosSchedule that failed since one succeeded.",
    _LABELS,
)
EXPECTED: Final = Gauge(
    "fournos_schedule_success_expected_timestamp_seconds",
    "When three periods of a FournosSchedule without a success are over, or when the operator suspended it; "
    "absent if somebody else did.",
    _LABELS,
)
METRICS: Final[tuple[Metric, ...]] = (LATE, MISSED, LAST_SUCCESS, FAILURES, EXPECTED)


class ExpectedSuccesses:
    """`success_expected` of all schedules, computed anew for those that changed: of 1,000 it takes 0.2 s."""

    def __init__(self) -> None:
        self._computed: dict[tuple[str, str], datetime | None] = {}
        """By UID and resourceVersion."""

    def of(self, schedules: Iterable[Obj]) -> Iterator[tuple[Obj, datetime]]:
        """Yields the schedules of which a success is expected, with the time."""
        before, self._computed = self._computed, {}
        for schedule in schedules:
            version = (uid_of(schedule), str(schedule["metadata"].get("resourceVersion")))
            expected = before[version] if version in before else _success_expected(schedule)
            self._computed[version] = expected
            if expected is not None:
                yield schedule, expected


def _success_expected(schedule: Obj) -> datetime | None:
    try:
        spec = FournosScheduleSpec.model_validate(schedule.get("spec") or {})
        status = FournosScheduleStatus.model_validate(schedule.get("status") or {})
        return success_expected(spec, status, uid_of(schedule))
    except ValueError:
        return None  # its condition Accepted says that it has no times


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


def report(caches: Caches, metrics: Metrics, expected: ExpectedSuccesses) -> None:
    """Sets the gauges from the cache; every reason of a missed time is exported, if only as 0."""
    for reason in MissedReason:
        metrics.add(MISSED, reason.value, amount=0)
    for gauge in (LAST_SUCCESS, FAILURES, EXPECTED):
        metrics.clear(gauge)
    for schedule in caches[FOURNOS_SCHEDULE]:
        status = schedule.get("status") or {}
        metrics.set(FAILURES, int(status.get("failures") or 0), *key_of(schedule))
        if status.get("lastSuccessTime"):
            metrics.set(LAST_SUCCESS, _seconds(status["lastSuccessTime"]), *key_of(schedule))
    for schedule, time in expected.of(caches[FOURNOS_SCHEDULE]):
        metrics.set(EXPECTED, time.timestamp(), *key_of(schedule))


def _seconds(text: str) -> float:
    return parse_time(text).timestamp()
