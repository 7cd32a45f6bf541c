"""Names, labels and annotations of FournosSchedules and of the jobs that they create.  Pure."""

from __future__ import annotations

from datetime import UTC, datetime
from hashlib import sha256
from typing import Final

SCHEDULES: Final = "schedules"
"""The name of part and controller."""
LEASE: Final = "fournos-schedules"
"""The Lease of the part; it lies in the namespace of the jobs."""
SCHEDULE_LABEL: Final = "fournos.dev/schedule"
"""Label of a job: the name of its schedule."""
SCHEDULE_UID_LABEL: Final = "fournos.dev/schedule-uid"
"""Label of a job: the UID of its schedule, which makes it a child.  Only the operator may set it (the policy
fournos-job-schedule)."""
TIME_LABEL: Final = "fournos.dev/schedule-time"
"""Label of a job: the scheduled time in UTC, such as 202611280200."""
GENERATION_ANNOTATION: Final = "fournos.dev/schedule-generation"
"""Annotation of a job: the generation of its schedule."""
TIME_ANNOTATION: Final = "fournos.dev/scheduled-at"
"""Annotation of a job: the scheduled time."""
TRIGGER_ANNOTATION: Final = "fournos.dev/trigger"
"""Annotation of a schedule: asks for a fire now, by an id that is used once; of a job: that id."""
ACCEPTED: Final = "Accepted"
"""The condition that says whether the spec can be used."""
OVERLAPPING: Final = "Overlapping"
"""The condition that is True while the newest fire was skipped because of one before it."""
CONFIRMS_LABEL: Final = "fournos.dev/confirms"
"""Label of a rerun that confirms a suspected regression; it has the labels of its job, too."""

MAX_JOB_NAME: Final = 55
"""The maximum length of a FournosJob's name."""
MAX_NAME: Final = 63
"""The maximum length of a schedule's name: it is a label of its jobs."""
_DIGEST: Final = 8


def stamp(time: datetime) -> str:
    """Returns the time as in names and labels: UTC, to the minute.

    Only the time of a fire that was triggered has seconds, so that it is the time of no other fire.
    """
    return time.astimezone(UTC).strftime("%Y%m%d%H%M%S" if time.second else "%Y%m%d%H%M")


def job_names(schedule: str, uid: str, time: datetime, jobs: int) -> tuple[str, ...]:
    """Returns the names of a fire's jobs, the same whenever they are asked for."""
    numbers = [""] if jobs == 1 else [f"-{number}" for number in range(jobs)]
    return tuple(_job_name(schedule, uid, f"-{stamp(time)}{number}") for number in numbers)


def _job_name(schedule: str, uid: str, suffix: str) -> str:
    if len(schedule) + len(suffix) <= MAX_JOB_NAME:
        return schedule + suffix
    suffix = f"-{sha256(uid.encode()).hexdigest()[:_DIGEST]}{suffix}"
    return schedule[: MAX_JOB_NAME - len(suffix)].rstrip("-.") + suffix
