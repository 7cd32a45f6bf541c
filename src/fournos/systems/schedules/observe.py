"""What a pass over a FournosSchedule reads, the schedule and the jobs with its UID, and what it writes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Final, Self

from pydantic import ValidationError

from fournos.api.fournosschedule import (
    ActiveFire,
    FireOutcome,
    FournosScheduleSpec,
    FournosScheduleStatus,
    LastFire,
    MissedReason,
)
from fournos.api.kinds import FOURNOS_JOB, FOURNOS_SCHEDULE
from fournos.api.phase import TERMINAL
from fournos.engine.api.values import format_time
from fournos.engine.kube.resource import Key, Obj, Resource, uid_of
from fournos.engine.runtime.context import Draft, PassContext, read
from fournos.engine.runtime.controller import Caches, Watch, metadata, of_label, own_key, pick, waking
from fournos.engine.runtime.decision import Facts, LiveList, Present
from fournos.systems.schedules import names
from fournos.systems.schedules.settings import ScheduleSettings

BY_SCHEDULE: Final = "schedule"
"""The index of jobs by the UID of their schedule."""
_MESSAGE_MAX: Final = 1024


# --- what is watched -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Observed:
    """A FournosSchedule and its jobs, as the caches hold them."""

    schedule: Obj
    spec: FournosScheduleSpec | None
    """None if the spec cannot be parsed."""
    unreadable: str
    """Why it cannot be parsed."""
    jobs: tuple[Obj, ...]


def observe(caches: Caches, key: Key) -> Observed | None:
    schedule = caches[FOURNOS_SCHEDULE].get(key)
    if schedule is None:
        return None
    spec, unreadable = None, ""
    try:
        spec = FournosScheduleSpec.model_validate(schedule.get("spec") or {})
    except ValidationError as error:
        first = error.errors()[0]
        unreadable = f"spec.{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return Observed(schedule, spec, unreadable, tuple(caches[FOURNOS_JOB].by(BY_SCHEDULE, uid_of(schedule))))


def watches(settings: ScheduleSettings) -> tuple[Watch, ...]:
    """Returns the watches: schedules, and the jobs of schedules alone."""
    return (
        Watch(FOURNOS_SCHEDULE, namespace=settings.namespace, wakes=own_key),
        Watch(
            FOURNOS_JOB,
            namespace=settings.namespace,
            selector=names.SCHEDULE_UID_LABEL,
            wakes=waking(lambda job: of_label(job, names.SCHEDULE_LABEL)),
            project=project_job,
            indexes={BY_SCHEDULE: _schedule_uid},
        ),
    )


def project_job(job: Obj) -> Obj:
    return {
        "metadata": metadata(job),
        "spec": pick(job.get("spec"), ("shutdown",)),
        "status": pick(job.get("status"), ("phase", "message", "archivedAt")),
    }


def _schedule_uid(job: Obj) -> Iterable[str]:
    return ((job["metadata"].get("labels") or {}).get(names.SCHEDULE_UID_LABEL, ""),)


def phase(job: Obj) -> str:
    """Returns the phase of a job; "" if it has none yet."""
    return str((job.get("status") or {}).get("phase") or "")


def running(jobs: Iterable[Obj]) -> list[Obj]:
    """Returns the jobs that have not ended, waiting ones included."""
    return [job for job in jobs if phase(job) not in TERMINAL]


def time_of(job: Obj) -> str:
    """Returns the value of the label that says of which fire a job is."""
    return str((job["metadata"].get("labels") or {}).get(names.TIME_LABEL) or "")


# --- what is written -------------------------------------------------------------------------------------


class StatusDraft(Draft):
    """A copy of the status with the changes of this pass, and the events to record with them."""

    @property
    def active(self) -> tuple[ActiveFire, ...]:
        return self._read("active").active

    @property
    def last_fire(self) -> LastFire | None:
        return self._read("lastFire").last_fire

    @property
    def last_schedule_time(self) -> datetime | None:
        return self._read("lastScheduleTime").last_schedule_time

    @property
    def next_time(self) -> datetime | None:
        return self._read("nextTime").next_time

    @property
    def effective_since(self) -> datetime | None:
        return self._read("effectiveSince").effective_since

    @property
    def failures(self) -> int:
        return self._read("failures").failures or 0

    @property
    def last_trigger(self) -> str | None:
        return self._read("lastTrigger").last_trigger

    @property
    def observed_generation(self) -> int | None:
        return self._read("observedGeneration").observed_generation

    def _read(self, name: str) -> FournosScheduleStatus:
        return read(FournosScheduleStatus, self._status, name)

    def times(self, **fields: datetime | None) -> Self:
        """Sets top-level times by their JSON names; None removes a field."""
        return self.put(**{name: format_time(time) if time else None for name, time in fields.items()})

    def fires(self, active: Iterable[ActiveFire]) -> Self:
        return self.put(active=[_rendered(fire) for fire in active] or None)

    def replace(self, fire: ActiveFire) -> Self:
        """Writes an active fire anew."""
        return self.fires(fire if other.time == fire.time else other for other in self.active)

    def ended(self, fire: ActiveFire, outcome: FireOutcome, message: str) -> Self:
        """Takes a fire from the active ones, and counts its outcome."""
        self.fires(other for other in self.active if other.time != fire.time)
        before = self.last_fire
        if before is None or before.time <= fire.time:  # with the policy Allow an older one may end later
            last = LastFire(time=fire.time, outcome=outcome, message=message[:_MESSAGE_MAX] or None)
            self.put(lastFire=_rendered(last))
        if fire.trigger is not None:
            return self  # a try by hand moves no time, and suspends no schedule
        if outcome is FireOutcome.SUCCEEDED:
            self.times(lastSuccessTime=fire.time)
            return self.put(failures=None)
        return self.put(failures=self.failures + 1) if outcome is FireOutcome.FAILED else self

    def missed(self, number: int, reason: MissedReason, newest: datetime) -> Self:
        """Counts times at which no job was created."""
        if not number:
            return self
        count = int((self._status.get("missed") or {}).get("count") or 0) + number
        return self.put(missed={"count": count, "reason": reason.value, "time": format_time(newest)})

    def overlapping(self, text: str) -> Self:
        """Sets the condition Overlapping; without a text to False, if it is there."""
        if text:
            return self.condition(names.OVERLAPPING, "True", "Active", text[:_MESSAGE_MAX])
        return (
            self.condition(names.OVERLAPPING, "False", "Ended") if self.is_true(names.OVERLAPPING) else self
        )


def _rendered(entry: ActiveFire | LastFire) -> dict[str, Any]:
    """Returns the JSON of an entry, with times as Kubernetes has them and without what is not set."""
    values: dict[str, Any] = entry.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True)
    return {
        name: format_time(value) if isinstance(value, datetime) else value
        for name, value in (
            (name, list(value) if isinstance(value, tuple) else value) for name, value in values.items()
        )
    }


# --- one pass --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Context(PassContext):
    """The state of one pass: what was observed, the facts, and the status draft."""

    resource: ClassVar[Resource] = FOURNOS_SCHEDULE
    observed: Observed
    facts: Facts
    now: datetime
    settings: ScheduleSettings
    draft: StatusDraft = field(init=False)

    def __post_init__(self) -> None:
        self.draft = StatusDraft(self.observed.schedule, self.now)

    @property
    def obj(self) -> Obj:
        return self.observed.schedule

    @property
    def spec(self) -> FournosScheduleSpec:
        """The spec; only for a schedule whose spec can be parsed."""
        assert self.observed.spec is not None
        return self.observed.spec

    @property
    def jobs(self) -> tuple[Obj, ...]:
        """The schedule's jobs, as this pass has read them live; else as the cache has them."""
        answer = self.facts.get(self._all_jobs)
        return answer.value if isinstance(answer, Present) else self.observed.jobs

    def live_jobs(self) -> tuple[Obj, ...] | None:
        """Returns the schedule's jobs by a live list, in one request a pass; None: they could not be read."""
        answer = self.facts.require(self._all_jobs)
        return answer.value if isinstance(answer, Present) else None

    @property
    def _all_jobs(self) -> LiveList:
        selector = f"{names.SCHEDULE_UID_LABEL}={uid_of(self.obj)}"
        return LiveList(FOURNOS_JOB, self.namespace, selector)
