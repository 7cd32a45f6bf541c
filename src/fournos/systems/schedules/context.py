"""The input of one pass over a FournosSchedule, and the place where its policies collect their results."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar

from fournos.api.fournosschedule import FournosScheduleSpec
from fournos.api.kinds import FOURNOS_JOB, FOURNOS_SCHEDULE
from fournos.api.phase import TERMINAL
from fournos.engine.kube.resource import Obj, Resource, key_of, uid_of
from fournos.engine.runtime.context import PassContext
from fournos.engine.runtime.decision import Facts, LiveList, Present
from fournos.engine.runtime.steps import Patch
from fournos.systems.schedules import names
from fournos.systems.schedules.observe import Observed
from fournos.systems.schedules.plan import suspended
from fournos.systems.schedules.settings import ScheduleSettings
from fournos.systems.schedules.status import StatusDraft

_REASON_MAX = 1024


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

    def suspension(self, reason: str) -> tuple[Patch, ...]:
        """Returns the step that suspends the schedule, with its Event; none if it is suspended already."""
        if suspended(self.spec, self.now):
            return ()
        self.draft.event("Suspended", reason, warning=True)
        version = self.obj["metadata"]["resourceVersion"]
        body = {
            "metadata": {"resourceVersion": version},
            "spec": {"suspend": {"reason": reason[:_REASON_MAX], "until": None}},
        }
        return (Patch(FOURNOS_SCHEDULE, key_of(self.obj), body),)


def phase(job: Obj) -> str:
    """Returns the phase of a job; "" if it has none yet."""
    return str((job.get("status") or {}).get("phase") or "")


def running(jobs: Iterable[Obj]) -> list[Obj]:
    """Returns the jobs that have not ended, waiting ones included."""
    return [job for job in jobs if phase(job) not in TERMINAL]


def time_of(job: Obj) -> str:
    """Returns the value of the label that says of which fire a job is."""
    return str((job["metadata"].get("labels") or {}).get(names.TIME_LABEL) or "")
