"""The Prometheus metrics of FournosSchedules, from the cache and from this process's own status writes."""

from __future__ import annotations

from datetime import datetime
from itertools import islice
from typing import Final

from fournos.api.fournosschedule import FournosScheduleSpec, FournosScheduleStatus, MissedReason
from fournos.api.kinds import FOURNOS_SCHEDULE
from fournos.engine.kube.resource import Obj, key_of
from fournos.engine.runtime.controller import Caches
from fournos.engine.runtime.metrics import Counter, Gauge, Metric, Metrics
from fournos.systems.schedules.times import plan_of

MISSED: Final = Counter(
    "fournos_schedule_missed_total",
    "Times at which a FournosSchedule created no job, by the reason of the newest of them.",
    ("reason",),
)
EXPECTED: Final = Gauge(
    "fournos_schedule_success_expected_timestamp_seconds",
    "When three periods of a FournosSchedule without a success are over, or when the operator suspended it; "
    "absent if somebody else did.",
    ("job_namespace", "schedule"),  # as the history's metrics have them, so that alerts can join both
)
METRICS: Final[tuple[Metric, ...]] = (MISSED, EXPECTED)
PERIODS: Final = 3
"""So many periods may pass without a success."""


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
    except (ValueError, ArithmeticError):
        return None  # its condition Accepted says that it has no times


def count_written(metrics: Metrics, before: Obj, now: Obj) -> None:
    """Counts the missed times that a status write reports."""
    missed, missed_before = ((obj.get("status") or {}).get("missed") or {} for obj in (now, before))
    added = int(missed.get("count") or 0) - int(missed_before.get("count") or 0)
    if added > 0:
        metrics.add(MISSED, str(missed["reason"]), amount=added)


def report(caches: Caches, metrics: Metrics) -> None:
    """Sets the gauge from the cache; every reason of a missed time is exported, if only as 0."""
    for reason in MissedReason:
        metrics.add(MISSED, reason.value, amount=0)
    metrics.clear(EXPECTED)
    for schedule in caches[FOURNOS_SCHEDULE]:
        expected = _success_expected(schedule)
        if expected is not None:
            metrics.set(EXPECTED, expected.timestamp(), *key_of(schedule))
