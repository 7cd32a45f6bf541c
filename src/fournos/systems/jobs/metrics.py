"""The Prometheus metrics of FournosJobs, from the caches and from this process's own status writes.

All times are those of the status, so that a restart changes none: a phase is counted by the one status write
that ends it.  The gauges are computed from the caches whenever metrics are read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from fournos.api.fournosjob import DEFAULT_PIPELINE
from fournos.api.kinds import FOURNOS_JOB, PIPELINE
from fournos.api.phase import NEW, PHASE_TIME, TERMINAL, Cause, Phase, run_times
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.api.values import creation_time, parse_time
from fournos.engine.kube.resource import Key, Obj
from fournos.engine.runtime import metrics as table
from fournos.engine.runtime.clock import Clock
from fournos.engine.runtime.controller import Caches, of_each
from fournos.engine.runtime.metrics import Metric, Metrics
from fournos.systems.jobs.pending import CAUSE_OF_OUR_REASON

PIPELINES_MAX: Final = 30
"""Pipelines with a label value of their own; jobs of others, and of names that no Pipeline has, are OTHER."""
OTHER, LOCK_ONLY = "other", "lock"
_MINUTES: Final = tuple(60.0 * minutes for minutes in (0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 240, 480, 1440))

BY_PHASE: Final = table.Gauge("fournos_jobs", "FournosJobs by status.phase.", ("phase",))
WAITING: Final = table.Gauge(
    "fournos_jobs_waiting", "FournosJobs that wait, by what they wait for.", ("cause",)
)
LONGEST: Final = table.Gauge(
    "fournos_jobs_longest_wait_seconds",
    "How long the oldest of these has been in its phase.",
    ("cause",),
)
FAILURES: Final = table.Gauge(
    "fournos_jobs_failed_in_a_row",
    "FournosJobs of a Pipeline that have failed since one succeeded, of those that exist.",
    ("pipeline",),
)
WAITED: Final = table.Histogram(
    "fournos_job_waiting_seconds",
    "How long a FournosJob was in a phase in which it waits, by what it waited for last there.",
    ("cause",),
    _MINUTES,
)
ENDED: Final = table.Counter(
    "fournos_jobs_ended_total",
    "FournosJobs that have ended, by Pipeline (at most 30, the rest is other) and phase.",
    ("pipeline", "phase"),
)
DURATION: Final = table.Histogram(
    "fournos_job_run_seconds",
    "From Running to the end of a FournosJob, of those that ran.",
    ("pipeline", "phase"),
    _MINUTES,
)
METRICS: Final[tuple[Metric, ...]] = (BY_PHASE, WAITING, LONGEST, FAILURES, WAITED, ENDED, DURATION)

_OF_PHASE: Final[Mapping[str, str]] = {"": "Operator", **{phase: phase.traits.cause for phase in Phase}}
CAUSES: Final = tuple(
    sorted(
        {
            *_OF_PHASE.values(),
            *CAUSE_OF_OUR_REASON.values(),
            Cause.SUSPENDED,
            Cause.RETRY,
            Cause.LOCK,
            Cause.QUOTA,
        }
        - {""}
    )
)
"""All values of the label `cause`, named as in the history."""


def cause_of(job: Obj) -> str:
    """Returns what a FournosJob waits for by its status; "" if it does not wait."""
    status = job.get("status") or {}
    phase = str(status.get("phase") or "")
    if phase != Phase.PENDING:
        return _OF_PHASE.get(phase, "")
    if is_true(job, "Suspended"):
        return "Suspended"
    if status.get("retryAt"):
        return "Retry"
    cause = (status.get("waiting") or {}).get("cause")
    reason = str((condition(job, "WorkloadAdmitted") or {}).get("reason") or "")
    return cause if cause in CAUSES else CAUSE_OF_OUR_REASON.get(reason, Cause.QUOTA)


def _entered(job: Obj) -> datetime:
    """Returns when the job entered its phase, or was suspended or resumed in it."""
    status = job.get("status") or {}
    phase = status.get("phase")
    if not phase:
        return creation_time(job)
    text = (status.get("phaseTimes") or {}).get(PHASE_TIME.get(str(phase), ""))
    if phase == Phase.PENDING:
        held = (condition(job, "Suspended") or {}).get("lastTransitionTime")
        text = max(filter(None, (text, held)), default=None)
    return _time_or(text, creation_time(job))


def _time_or(text: str | None, other: datetime) -> datetime:
    """Returns the time.  The API server knows a year 0, which must not end the metrics of all jobs."""
    try:
        return parse_time(text) if text else other
    except ValueError:
        return other


def _stage(job: Obj) -> tuple[str, bool]:
    phase = str((job.get("status") or {}).get("phase") or "")
    return phase, phase == Phase.PENDING and is_true(job, "Suspended")


class JobMetrics:
    """Counts what the status writes of this process end, and reports the caches."""

    def __init__(self, metrics: Metrics, clock: Clock) -> None:
        self._metrics = metrics
        self._clock = clock
        self._caches: Caches | None = None
        self._labels: set[str] = set()

    def attach(self, caches: Caches) -> None:
        """Takes the caches of the controller, which tell which Pipelines there are."""
        self._caches = caches

    def written(self, before: Obj, now: Obj) -> None:
        """Counts what a status write ended: a wait, or the job."""
        if _stage(before) == _stage(now):
            return
        at = _entered(now)
        if cause := cause_of(before):
            self._metrics.observe(WAITED, _seconds(at, _entered(before)), cause)
        phase = _stage(now)[0]
        if phase not in TERMINAL or _stage(before)[0] in TERMINAL:
            return
        pipeline = self._label(now)
        self._metrics.add(ENDED, pipeline, phase)
        began, _ = run_times(now)
        if began and pipeline != LOCK_ONLY:
            self._metrics.observe(DURATION, _seconds(at, _time_or(began, at)), pipeline, phase)

    def report(self) -> None:
        """Sets the gauges from the caches.  Every phase and cause is set, if only to 0."""
        assert self._caches is not None
        metrics, jobs = self._metrics, tuple(self._caches[FOURNOS_JOB])
        now = self._clock.now()
        phases = Counter(_stage(job)[0] or NEW for job in jobs)
        for phase in (NEW, *Phase):
            metrics.set(BY_PHASE, phases[str(phase)], str(phase))
        waits: dict[str, list[float]] = defaultdict(list)

        def waited(job: Obj) -> tuple[str, float]:
            cause = cause_of(job)
            return cause, _seconds(now, _entered(job)) if cause else 0.0

        for cause, seconds in of_each(jobs, waited, "metrics of jobs"):
            waits[cause].append(seconds)
        for cause in CAUSES:
            metrics.set(WAITING, len(waits[cause]), cause)
            metrics.set(LONGEST, max(waits[cause], default=0.0), cause)
        metrics.clear(FAILURES)
        for pipeline, count in self._failures(jobs).items():
            metrics.set(FAILURES, count, pipeline)

    def _failures(self, jobs: Iterable[Obj]) -> dict[str, int]:
        """Returns the failures since the last success by label; of OTHER, those of the worst Pipeline."""
        ends: dict[str, list[tuple[str, str]]] = defaultdict(list)
        labels: dict[str, str] = {}
        for job in jobs:
            phase, spec = _stage(job)[0], job.get("spec") or {}
            if phase in TERMINAL and phase != Phase.STOPPED and not spec.get("lockOnly"):
                pipeline = str(spec.get("pipeline") or DEFAULT_PIPELINE)
                finished = str((job["status"].get("phaseTimes") or {}).get("finished") or "")
                ends[pipeline].append((finished, phase))
                labels[pipeline] = labels.get(pipeline) or self._label(job)
        failures: dict[str, int] = defaultdict(int)
        for pipeline, pairs in ends.items():
            succeeded = max((at for at, phase in pairs if phase == Phase.SUCCEEDED), default="")
            count = sum(phase == Phase.FAILED and at > succeeded for at, phase in pairs)
            failures[labels[pipeline]] = max(failures[labels[pipeline]], count)
        return failures

    def _label(self, job: Obj) -> str:
        """Returns the value of the label `pipeline`, of which there are at most PIPELINES_MAX + 2."""
        spec = job.get("spec") or {}
        if spec.get("lockOnly"):
            return LOCK_ONLY
        name = str(spec.get("pipeline") or DEFAULT_PIPELINE)
        assert self._caches is not None
        there = self._caches[PIPELINE].get(Key(job["metadata"]["namespace"], name)) is not None
        if name not in self._labels and there and len(self._labels) < PIPELINES_MAX:
            self._labels.add(name)
        return name if name in self._labels else OTHER


def _seconds(until: datetime, since: datetime) -> float:
    return max(0.0, (until - since).total_seconds())
