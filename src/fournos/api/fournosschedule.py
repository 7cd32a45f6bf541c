"""FournosSchedule (fournos.dev/v1): FournosJobs at certain times.  The single source of its CRD and page."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import Field, WithJsonSchema

from fournos.api.fournosjob import FournosJobSpec
from fournos.api.kinds import FOURNOS_SCHEDULE
from fournos.engine.api.crd import Column, Definition, Model, StatusCondition, described

MAX_JOBS: Final = 64
"""Maximum number of jobs of one fire."""
MAX_ACTIVE: Final = 10
"""Maximum number of fires that are active at once, with the policies Allow and Replace."""
MAX_TRIGGER: Final = 63
"""Maximum number of characters of a trigger's id."""

Expression = Annotated[str, WithJsonSchema({"type": "string", "maxLength": 256})]
Text = Annotated[str, WithJsonSchema({"type": "string", "maxLength": 4096})]
FieldPath = Annotated[str, WithJsonSchema({"type": "string", "maxLength": 256})]
Axis = Annotated[
    list[Any],
    WithJsonSchema(
        {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_JOBS,
            "items": {"x-kubernetes-preserve-unknown-fields": True},
        }
    ),
]


class ConcurrencyPolicy(StrEnum):
    FORBID = "Forbid"
    REPLACE = "Replace"
    ALLOW = "Allow"


class FireOutcome(StrEnum):
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    STOPPED = "Stopped"


class MissedReason(StrEnum):
    LATE = "Late"
    OVERLAP = "Overlap"


class TemplateMetadata(Model):
    """Labels and annotations of each job."""

    labels: dict[str, Text] = Field(
        default_factory=dict, description="Labels of each job.", json_schema_extra={"maxProperties": 64}
    )
    annotations: dict[str, Text] = Field(
        default_factory=dict, description="Annotations of each job.", json_schema_extra={"maxProperties": 64}
    )


class JobTemplate(Model):
    """The FournosJob that is created."""

    metadata: TemplateMetadata = described("Labels and annotations of each job.", TemplateMetadata())
    spec: FournosJobSpec = Field(
        description="Spec of each job. In texts of params, {{time}} becomes the scheduled time in UTC, such "
        "as 2026-11-28T02:00:00Z, and {{date}} its day in the time zone of the schedule."
    )


class Suspension(Model):
    """A pause."""

    reason: str | None = described("Why the schedule is suspended.", maxLength=1024)
    until: datetime | None = described("When it goes on by itself; absent: when this field is removed.")


class HistoryLimits(Model):
    """How many ended fires keep their jobs."""

    succeeded: int | None = described(
        "Fires that succeeded; absent: all.", minimum=0, maximum=1000, format="int32"
    )
    failed: int | None = described(
        "Fires that failed or were stopped; absent: all.", minimum=0, maximum=1000, format="int32"
    )


class FournosScheduleSpec(Model):
    """When which jobs are created."""

    schedules: tuple[Expression, ...] = Field(
        description="Times as cron expressions of five fields (minute, hour, day of month, month, day of "
        "week), or @hourly, @daily, @weekly, @monthly, @yearly. A time that several name counts once.",
        json_schema_extra={"minItems": 1, "maxItems": 16, "x-kubernetes-list-type": "atomic"},
    )
    time_zone: str = Field(
        description="IANA time zone of the times, such as Europe/Berlin or Etc/UTC.",
        json_schema_extra={"maxLength": 64},
    )
    job_template: JobTemplate = Field(description="The FournosJob that is created.")
    matrix: dict[str, Axis] = Field(
        default_factory=dict,
        description="Fields of the job's spec by path, such as params.model or hardware.gpuCount, each with "
        f"its values: one job for each combination, at most {MAX_JOBS}.",
        json_schema_extra={"maxProperties": 8},
    )
    concurrency_policy: ConcurrencyPolicy = described(
        "What happens at a time at which a fire before it is still active. Forbid: the time is skipped. "
        "Replace: the older jobs are stopped. Allow: they run side by side.",
        ConcurrencyPolicy.FORBID,
        crd_default=True,
    )
    starting_deadline_seconds: int | None = described(
        "How late jobs may be created; absent: half the interval to the next time, at most 12 hours.",
        minimum=1,
        maximum=604800,
        format="int32",
    )
    suspend: Suspension | None = described(
        "No job is created while this is set; what runs goes on. Times in between are not made up for."
    )
    stop_after_failures: int = described(
        "Suspend the schedule after so many failures in a row; 0: never.",
        5,
        crd_default=True,
        minimum=0,
        maximum=1000,
        format="int32",
    )
    history_limits: HistoryLimits | None = described(
        "How many ended fires keep their jobs; absent: all, until spec.ttl of each job."
    )


class ActiveFire(Model):
    """A fire whose jobs have not all ended."""

    time: datetime = Field(description="The scheduled time.")
    started_at: datetime = Field(description="When the operator took it up.")
    jobs: int = Field(description="How many jobs it has.", json_schema_extra={"format": "int32"})
    created: bool = described("Whether its jobs were created; from then on none is created again.", False)
    refused: tuple[int, ...] = described(
        "Numbers of the jobs that could not be created, from 0.", (), maxItems=MAX_JOBS
    )
    trigger: str | None = described(
        "Id of the trigger that asked for it; absent: its time came.", maxLength=MAX_TRIGGER
    )


class LastFire(Model):
    """The fire that ended last."""

    time: datetime = Field(description="The scheduled time.")
    outcome: FireOutcome = Field(description="Failed if one of its jobs failed, else Stopped if one was.")
    message: str | None = described("Which jobs did not succeed.")


class Missed(Model):
    """Times at which no job was created."""

    count: int = Field(
        description="How many since the schedule exists.", json_schema_extra={"format": "int64"}
    )
    reason: MissedReason = Field(description="Why the newest of them was.")
    time: datetime = Field(description="The newest of them.")


class FournosScheduleStatus(Model):
    """What the schedule did last; written by the operator when a fire begins, ends or is skipped."""

    last_schedule_time: datetime | None = described(
        "The newest time that was dealt with: taken up or skipped."
    )
    next_time: datetime | None = described("When the next jobs are created.")
    active: tuple[ActiveFire, ...] = described(
        "Fires whose jobs have not all ended, oldest first.", (), maxItems=MAX_ACTIVE, list_type="atomic"
    )
    last_fire: LastFire | None = described("The fire that ended last.")
    last_success_time: datetime | None = described("The scheduled time of the last fire that succeeded.")
    last_start_time: datetime | None = described("The scheduled time of the last fire.")
    missed: Missed | None = described("Times at which no job was created.")
    last_trigger: str | None = described("Id of the last trigger that was taken up.", maxLength=MAX_TRIGGER)
    failures: int | None = described("Fires that failed since one succeeded.", format="int32")
    effective_since: datetime | None = described(
        "When the operator saw this generation of the spec: earlier times are not made up for."
    )
    conditions: tuple[StatusCondition, ...] = described(
        "Facts about the schedule, by type.", (), maxItems=32, list_type="map", list_map_keys=("type",)
    )
    observed_generation: int | None = described(
        "Generation of the spec that this status speaks of.", format="int64"
    )


class FournosSchedule(Model):
    """FournosJobs at certain times: nightly and weekly benchmarks."""

    spec: FournosScheduleSpec = Field(description="When which jobs are created.")
    status: FournosScheduleStatus = described(
        "What the schedule did last; written by the operator.", FournosScheduleStatus()
    )


DEFINITION = Definition(
    model=FournosSchedule,
    resource=FOURNOS_SCHEDULE,
    singular="fournosschedule",
    short_names=("fs", "fschedule"),
    columns=(
        Column("Schedules", "string", ".spec.schedules"),
        Column("Time Zone", "string", ".spec.timeZone"),
        Column("Last", "date", ".status.lastStartTime"),
        Column("Outcome", "string", ".status.lastFire.outcome"),
        Column("Next", "string", ".status.nextTime"),
        Column("Failures", "integer", ".status.failures", priority=1),
        Column("Missed", "integer", ".status.missed.count", priority=1),
        Column("Age", "date", ".metadata.creationTimestamp"),
    ),
)
