"""The Prometheus metrics of FournosSchedules, from the cache and from this process's own status writes."""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from typing import Final

from fournos.api.fournosschedule import FournosScheduleSpec, FournosScheduleStatus, MissedReason
from fournos.api.kinds import FOURNOS_SCHEDULE
from fournos.engine.api.values import parse_time
from fournos.engine.kube.resource import Obj, key_of
from fournos.engine.runtime.controller import Caches
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.metrics_table import Counter, Gauge, Histogram, Metric
from fournos.systems.schedules.times import plan_of

_LABELS: Final = ("job_namespace", "schedule")
"""As the history's metrics have them, so that alerts can join both."""
LATE: Final = Histogram(
    "fournos_schedule_late_seconds",
    "From the scheduled time to when a FournosSchedule took it up.",
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
PERIODS: Final = 3
"""So many periods may pass without a success."""
METRICS: Final[tuple[Metric, ...]] = (LATE, MISSED, LAST_SUCCESS, FAILURES, EXPECTED)


def success_expected(spec: FournosScheduleSpec, status: FournosScheduleStatus) -> datetime | None:
    """Returns when three periods without a success are over; None if no success is expected.

    The periods are those of the schedule itself: a weekend without times is one period.  They begin with the
    last success, or with the first time after a change or a suspension.  Nothing is expected of a suspended
    schedule.  One that the operator suspended, because its fires failed, has had its last time: no success
    comes any more, so that they are over with it.

    Raises ValueError if the schedule has no times.
    """
    since, pause, last_fire = status.effective_since, spec.suspend, status.last_fire
    if since is None:
        return None
    if pause is not None and pause.until is None:
        by_failures = 0 < spec.stop_after_failures <= (status.failures or 0)
        return last_fire.time if last_fire is not None and by_failures else None
    if pause is not None and pause.until is not None:
        since = max(since, pause.until)
    plan, success = plan_of(spec), status.last_success_time
    if success is not None and success >= since:
        return next(islice(plan.after(success), PERIODS - 1, None), None)
    return next(islice(plan.after(since), PERIODS, None), None)


def _success_expected(schedule: Obj) -> datetime | None:
    try:
        spec = FournosScheduleSpec.model_validate(schedule.get("spec") or {})
        status = FournosScheduleStatus.model_validate(schedule.get("status") or {})
        return success_expected(spec, status)
    except ValueError:
        return None  # its condition Accepted says that it has no times


def count_written(metrics: Metrics, before: Obj, now: Obj) -> None:
    """Counts what a status write says: a time that was taken up, and times that were missed."""
    status, earlier = now.get("status") or {}, before.get("status") or {}
    begun = status.get("lastStartTime")
    if begun and begun != earlier.get("lastStartTime"):
        for fire in status.get("active") or ():
            if fire["time"] == begun:
                metrics.observe(LATE, max(0.0, _seconds(fire["startedAt"]) - _seconds(begun)))
    missed, missed_before = status.get("missed") or {}, earlier.get("missed") or {}
    added = int(missed.get("count") or 0) - int(missed_before.get("count") or 0)
    if added > 0:
        metrics.add(MISSED, str(missed["reason"]), amount=added)


def report(caches: Caches, metrics: Metrics) -> None:
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
        expected = _success_expected(schedule)
        if expected is not None:
            metrics.set(EXPECTED, expected.timestamp(), *key_of(schedule))


def _seconds(text: str) -> float:
    return parse_time(text).timestamp()
