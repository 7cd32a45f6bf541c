"""FournosJob (fournos.dev/v1): a benchmark job.  The single source of its CRD and reference page."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import Field, WithJsonSchema

from fournos.api.fournosjob_values import (
    MAX_REPEATS,
    Confirm,
    Engine,
    EnvValue,
    Gpus,
    Hardware,
    Name,
    Opaque,
    ParamValue,
    Retry,
    Timeouts,
)
from fournos.api.kinds import FOURNOS_JOB
from fournos.api.phase import Phase as Phase
from fournos.engine.api.crd import Column, Definition, Model, StatusCondition, described

DEFAULT_PIPELINE: Final = "fournos-full"
MAX_ATTEMPTS_KEPT: Final = 20
"""Maximum number of entries of `status.attempts`; the oldest are removed first."""

MAX_RESULTS: Final = 200
"""Maximum number of results in the status of a job."""
MAX_PARAMS: Final = 64
"""Maximum number of parameters that a job sets."""


class Shutdown(StrEnum):
    STOP = "Stop"
    TERMINATE = "Terminate"


class Outcome(StrEnum):
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    EVICTED = "Evicted"
    STOPPED = "Stopped"
    LOST = "Lost"


class FournosJobSpec(Model):
    """What is to run, and where."""

    owner: str | None = described("Team or person that the job belongs to.", maxLength=1024)
    display_name: str | None = described(
        "Name for people; the job's own name is shown when it is absent. At most 253 characters.",
        maxLength=4096,
    )
    pipeline: str = described(
        "Tekton Pipeline that runs the job. It carries the annotation fournos.dev/resolve-image. "
        "Fixed once the job is admitted.",
        DEFAULT_PIPELINE,
        crd_default=True,
        maxLength=253,
    )
    cluster: str | None = described(
        "Cluster to run on (a Kueue ResourceFlavor). With exclusive, which is the default, the job locks it. "
        "Fixed once the job is admitted.",
        maxLength=253,
    )
    hardware: Hardware | None = described(
        "GPUs that the job needs. The execution engine fills it in during Resolving if it is absent. "
        "Fixed once the job is resolved."
    )
    execution_engine: Engine | None = described(
        "Execution engine and its configuration. The single key names the engine; "
        "its value is passed on as it is. Not needed with lockOnly. Fixed once the job is admitted."
    )
    secret_refs: tuple[Name, ...] = described(
        "Vault entries to mount at /var/run/secrets/fournos/<entry>/, with or without the prefix vault-. "
        "The execution engine fills them in during Resolving. Fixed once the job is resolved.",
        (),
        maxItems=64,
        list_type="atomic",
    )
    params: dict[str, ParamValue] = Field(
        default_factory=dict,
        description="Parameters of the Pipeline, strings or lists of strings, which it has to declare. "
        "Fixed once the job is admitted.",
        json_schema_extra={"maxProperties": MAX_PARAMS},
    )
    env: dict[str, EnvValue] = Field(
        default_factory=dict,
        description="Variables for the execution engine, which reads them from this object.",
        json_schema_extra={"maxProperties": 256},
    )
    exclusive: bool = described(
        "Lock the cluster, so that no other job runs there. Needs cluster. Fixed once the job is admitted.",
        True,
        crd_default=True,
    )
    clusterless: bool = described(
        "Run without a target cluster and without quota. Needs exclusive: false and no cluster. "
        "Fixed once the job is admitted.",
        False,
    )
    lock_only: bool = described(
        "Run nothing: only hold the lock of the cluster until the job is stopped or deleted. "
        "Fixed once the job is resolved.",
        False,
    )
    priority: str | None = described(
        "Kueue WorkloadPriorityClass. Fixed once the job is admitted.", maxLength=4096
    )
    shutdown: Shutdown | None = described(
        "Stop ends the run and lets its finally tasks run; Terminate skips them. "
        "Stop may be raised to Terminate; it is never taken back."
    )
    ttl: str | None = described(
        "How long the finished job is kept, such as 30m, 12h or 7d; absent: until somebody deletes it.",
        maxLength=64,
    )
    timeouts: Timeouts | None = described("Time limits of each run.")
    retry: Retry | None = described("Runs after a failed one; absent: none.")
    confirm: Confirm | None = described(
        "Reruns of a job whose results are suspected to be a regression; absent: the operator's setting. "
        "They need a history."
    )
    suspend: bool = described(
        "Hold the job back: it is not queued while this is true, and a run that is under way is stopped and "
        "queued again later.",
        False,
    )
    scheduled_start_time: datetime | None = described(
        "Time before which the job is not queued, such as 2026-11-28T02:00:00Z; spec.timeouts.pending counts "
        "from then on. No effect once the job is admitted."
    )
    managed_by: str | None = described(
        "Controller that runs the job, such as kueue.x-k8s.io/multikueue; absent: Fournos. Never changes.",
        maxLength=1024,
    )


class Attempt(Model):
    """One run of the job."""

    number: int = Field(description="Counts from 1.", json_schema_extra={"format": "int32"})
    workload: str | None = described("Name of its Workload.")
    pipeline_run: str | None = described("Name of its PipelineRun.")
    cluster: str | None = described("Cluster that it was admitted to.")
    started_at: datetime | None = described("When its PipelineRun was made.")
    finished_at: datetime | None = described("When it ended.")
    outcome: Outcome | None = described("How it ended; absent while it runs.")
    message: str | None = described("Why it ended so.")


class PhaseTimes(Model):
    """When the job last entered each phase."""

    resolving: datetime | None = described("When resolving began.")
    pending: datetime | None = described("When the job was queued.")
    admitted: datetime | None = described("When a cluster was assigned.")
    running: datetime | None = described("When the PipelineRun was made.")
    stopping: datetime | None = described("When stopping began.")
    finished: datetime | None = described("When the job succeeded, failed or was stopped.")


class Resolved(Model):
    """What Resolving came to."""

    hardware: Gpus | None = described("GPUs asked for, and from the admission on those that the job has.")
    secret_refs: tuple[str, ...] = described("Vault entries that are mounted.", (), maxItems=64)
    resolve_image: str | None = described("Image of the resolve Job.")
    fingerprint: str | None = described(
        "What of params and env makes runs different, as the Pipeline's annotation fournos.dev/fingerprint "
        "says; absent: all params."
    )


class Returned(Model):
    """A result of the job's run."""

    name: str = Field(description="Name of the Tekton result.")
    value: Annotated[Any, WithJsonSchema({"x-kubernetes-preserve-unknown-fields": True})] = described(
        "Text, a list of texts, or an object."
    )


class Waiting(Model):
    """What a queued job waits for: its message, for programs."""

    cause: str = Field(description="Class of what it waits for: Lock, Quota or another, as in metrics.")
    cluster: str | None = described("Cluster whose slots it waits for.")
    holder: str | None = described("Job that holds this cluster exclusively, if the message names it.")


class FournosJobStatus(Model):
    """What became of the job; written by the operator, engineStatus by the execution engine."""

    phase: Phase | None = described("Where the job is in its life.")
    display_name: str | None = described("Name to show: spec.displayName, else the job's own name.")
    cluster: str | None = described("Cluster that Kueue assigned; [clusterless] when there is none.")
    pipeline_run: str | None = described("Name of the Tekton PipelineRun of the current attempt.")
    dashboard_url: str | None = Field(
        default=None, alias="dashboardURL", description="The PipelineRun in the Tekton Dashboard."
    )
    message: str | None = described("What the job waits for, or why it ended.")
    waiting: Waiting | None = described("What the job waits for in the queue.")
    engine_status: Opaque | None = described(
        "Written by the execution engine; the operator never touches it."
    )
    conditions: tuple[StatusCondition, ...] = described(
        "Facts about the job, by type.",
        (),
        maxItems=32,
        list_type="map",
        list_map_keys=("type",),
    )
    observed_generation: int | None = described(
        "Generation of the spec that this status speaks of.", format="int64"
    )
    attempt: int | None = described("Number of the current attempt, from 1.", format="int32")
    attempts: tuple[Attempt, ...] = described(
        f"{MAX_ATTEMPTS_KEPT} attempts at most, oldest first: those that failed, and the last of the others.",
        (),
        maxItems=MAX_ATTEMPTS_KEPT,
        list_type="atomic",
    )
    phase_times: PhaseTimes | None = described("When the job last entered each phase.")
    resolved: Resolved | None = described("What Resolving came to.")
    stop_requested_at: datetime | None = described("When the operator first saw spec.shutdown.")
    retry_at: datetime | None = described("When the next attempt is queued.")
    archived_at: datetime | None = described(
        "When the history recorded the end of the job; written by its recorder."
    )
    suspected_at: datetime | None = described(
        "When the history suspected a regression in the results; written by its recorder."
    )
    reruns: tuple[str, ...] = described(
        "Names of the jobs that measure a suspected regression again.",
        (),
        maxItems=MAX_REPEATS,
        list_type="atomic",
    )
    results: tuple[Returned, ...] = described(
        "What the Tekton results fournos-results of the run hold, of a job that another cluster has sent.",
        (),
        maxItems=MAX_RESULTS,
        list_type="atomic",
    )


class FournosJob(Model):
    """A benchmark job: resolved by its execution engine, queued by Kueue, run as a Tekton PipelineRun."""

    spec: FournosJobSpec = described("What is to run, and where.", FournosJobSpec())
    status: FournosJobStatus = described(
        "What became of the job; written by the operator.", FournosJobStatus()
    )


DEFINITION = Definition(
    model=FournosJob,
    resource=FOURNOS_JOB,
    singular="fournosjob",
    checked_by="fournos submit",
    short_names=("fj", "fjob", "fjobs"),
    columns=(
        Column("Owner", "string", ".spec.owner"),
        Column("Display Name", "string", ".status.displayName", priority=1),
        Column("Exclusive", "boolean", ".spec.exclusive", priority=1),
        Column("Phase", "string", ".status.phase"),
        Column("Cluster", "string", ".status.cluster"),
        Column("Message", "string", ".status.message"),
        Column("Age", "date", ".metadata.creationTimestamp"),
        Column("Priority", "string", ".spec.priority", priority=1),
        Column("Attempt", "integer", ".status.attempt", priority=1),
        Column("Running Since", "date", ".status.phaseTimes.running", priority=1),
        Column("Finished", "date", ".status.phaseTimes.finished", priority=1),
    ),
)
