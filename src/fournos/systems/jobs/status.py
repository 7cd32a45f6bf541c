"""The status draft of a FournosJob: collects the changes of one pass, which are written once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Self, TypeAlias

from fournos.api.fournosjob import (
    MAX_ATTEMPTS_KEPT,
    Attempt,
    FournosJobSpec,
    FournosJobStatus,
    Outcome,
    PhaseTimes,
    Waiting,
)
from fournos.api.fournosjob_values import Gpus
from fournos.api.kinds import FOURNOS_JOB
from fournos.api.phase import PHASE_TIME
from fournos.engine.api.conditions import condition
from fournos.engine.api.values import format_time
from fournos.engine.kube.resource import Key, Obj, is_terminating, newest, uid_of
from fournos.engine.runtime.context import Draft, PassContext, read
from fournos.engine.runtime.decision import Facts
from fournos.systems.jobs import names
from fournos.systems.jobs.build import gpu_resource, requests_of, slots_and_gpus
from fournos.systems.jobs.names import display_name
from fournos.systems.jobs.settings import JobSettings, Template

MESSAGE_MAX = 4096

_EMPTY = FournosJobStatus()
"""What is read of a field that is absent."""


class StatusDraft(Draft):
    """A copy of a FournosJob's status with the changes and events of this pass."""

    def __init__(self, job: Obj, now: datetime) -> None:
        super().__init__(job, now)
        self._parsed: dict[str, tuple[Any, FournosJobStatus]] = {}
        """Field → its JSON value and the parsed status, because a pass reads a field often."""
        self._display_name = display_name(job)

    # --- reading: each field by its own type; an invalid field counts as absent ---

    def _read(self, name: str) -> FournosJobStatus:
        value = self._status.get(name)
        if value is None:
            return _EMPTY
        parsed = self._parsed.get(name)
        if parsed is None or parsed[0] is not value:  # a changed field is a new object
            parsed = self._parsed[name] = (value, read(FournosJobStatus, self._status, name))
        return parsed[1]

    @property
    def attempt(self) -> int:
        """The number of the current attempt; 0 before the first."""
        return self._read("attempt").attempt or 0

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """The most recent attempts, oldest first."""
        return self._read("attempts").attempts

    @property
    def last_attempt(self) -> Attempt:
        """The last attempt; before the first, an empty one with number 0."""
        return next(reversed(self.attempts), Attempt(number=0))

    @property
    def cluster(self) -> str:
        """The cluster that Kueue assigned; "" before that."""
        return self._read("cluster").cluster or ""

    @property
    def phase_times(self) -> PhaseTimes:
        return self._read("phaseTimes").phase_times or PhaseTimes()

    @property
    def is_resolved(self) -> bool:
        return self._read("resolved").resolved is not None

    @property
    def retry_at(self) -> datetime | None:
        return self._read("retryAt").retry_at

    @property
    def stop_requested_at(self) -> datetime | None:
        return self._read("stopRequestedAt").stop_requested_at

    @property
    def archived_at(self) -> datetime | None:
        return self._read("archivedAt").archived_at

    @property
    def suspected_at(self) -> datetime | None:
        return self._read("suspectedAt").suspected_at

    @property
    def observed_generation(self) -> int | None:
        return self._read("observedGeneration").observed_generation

    @property
    def resolved_hardware(self) -> Mapping[str, Any]:
        """The hardware that resolving came to, as JSON; empty if there is none."""
        return (self._status.get("resolved") or {}).get("hardware") or {}

    def resolve_hardware(self, hardware: Mapping[str, Any]) -> Self:
        """Sets the GPUs that the job has, of those that it accepts."""
        return self.put(resolved={**(self._status.get("resolved") or {}), "hardware": dict(hardware)})

    # --- changing ---

    def enter(self, phase: str, message: str) -> Self:
        """Sets the phase and the time of entering it; a phase that repeats keeps the last time."""
        if phase != self.phase:
            times = dict(self._status.get("phaseTimes") or {})
            times[PHASE_TIME[phase]] = format_time(self._now)
            self._status["phaseTimes"] = times
            self._status["phase"] = phase
            # What was recorded before is not the end that this phase leads to, or is.
            self._status.pop("archivedAt", None)
            self._status.pop("suspectedAt", None)
        return self.set_message(message)

    def started_running(self, at: datetime) -> Self:
        """Sets the start time of a run that was too short for a Running phase.

        An existing time is kept, unless it is that of an earlier attempt.
        """
        running, attempt = self.phase_times.running, self.last_attempt.started_at
        if running is None or (attempt is not None and running < attempt):
            times = self._status.get("phaseTimes") or {}
            self._status["phaseTimes"] = {**times, "running": format_time(at)}
        return self

    def set_message(self, message: str, waiting: Waiting | None = None) -> Self:
        """Sets the message, cut to MESSAGE_MAX characters, and with it what a queued job waits for."""
        self._status["message"] = message[:MESSAGE_MAX]
        return self.put(waiting=waiting and waiting.model_dump(by_alias=True, exclude_none=True))

    def begin_attempt(self, *, cluster: str, workload: str | None, run: str | None) -> Self:
        """Adds the next attempt; its number, cluster and object names are the claim.

        Only MAX_ATTEMPTS_KEPT attempts are kept: all that failed, as `spec.retry` counts them, and the last
        of the others.
        """
        number = self.attempt + 1
        entry: dict[str, Any] = {
            "number": number,
            "cluster": cluster,
            "startedAt": format_time(self._now),
        }
        if workload:
            entry["workload"] = workload
        if run:
            entry["pipelineRun"] = run
        self._status["attempt"] = number
        self.put(retryAt=None, pipelineRun=None, dashboardURL=None)  # those of the attempt before
        attempts = [*(self._status.get("attempts") or ()), entry]
        if len(attempts) > MAX_ATTEMPTS_KEPT:
            others = (place for place, each in enumerate(attempts) if each.get("outcome") != Outcome.FAILED)
            del attempts[next(others, 0)]
        self._status["attempts"] = attempts
        return self

    def amend_attempt(self, **fields: Any) -> Self:
        """Changes fields of the current attempt's entry."""
        attempts = list(self._status.get("attempts") or ())
        if attempts and attempts[-1].get("number") == self.attempt:
            attempts[-1] = {**attempts[-1], **fields}
            self._status["attempts"] = attempts
        return self

    def end_attempt(self, outcome: str, message: str = "") -> Self:
        """Records how the current attempt ended; an existing outcome is kept."""
        if self.last_attempt.outcome is not None:
            return self
        ended: dict[str, Any] = {"outcome": outcome, "finishedAt": format_time(self._now)}
        if message:
            ended["message"] = message[:1024]
        return self.amend_attempt(**ended)

    def render(self) -> Mapping[str, Any]:
        """Returns the status to write, with observedGeneration and displayName unless it is empty."""
        status = super().render()
        if self._generation is None or not status:
            return status
        return {**status, "observedGeneration": self._generation, "displayName": self._display_name}


# --- the state of a pass -------------------------------------------------------------------------------
# State of one reconcile pass of a FournosJob: observed objects, facts and a status draft.

Flavors: TypeAlias = Mapping[str, Mapping[str, Decimal]]
"""Flavor → resource → quota that no Workload has reserved; negative where it is borrowed."""


@dataclass(frozen=True, slots=True)
class FreeQuota:
    """What a ClusterQueue has left."""

    cluster_queue: str
    cohort: str
    """"" if it has none."""
    flavors: Flavors


@dataclass(frozen=True, slots=True)
class Observed:
    """A FournosJob and the related objects that the caches hold."""

    key: Key
    job: Obj
    spec: FournosJobSpec
    problem: str = ""
    """Why the spec cannot be parsed; `spec` is then an empty one."""
    prebuilt: Obj | None = None
    """The Workload that the job's prebuilt-workload label names, whatever its controller."""
    workloads: tuple[Obj, ...] = ()
    """Workloads whose controller is this job (by UID)."""
    queued_before: bool = False
    """True if an earlier pass of this process has seen the job Pending: it may have had a Workload."""
    runs: tuple[Obj, ...] = ()
    """PipelineRuns whose controller is this job (by UID)."""
    resolve_jobs: tuple[Obj, ...] = ()
    """Resolve Jobs of this job, including those of the expected name that have no controller."""
    pipeline: Obj | None = None
    flavors: frozenset[str] = frozenset()
    gpu_resources: frozenset[str] = frozenset()
    """Resource names with the GPU prefix that at least one ClusterQueue covers."""
    checks: bool = False
    """True if any ClusterQueue has admission checks: MultiKueue may then dispatch jobs to other clusters."""
    priority_value: int | None = None
    """The value of the WorkloadPriorityClass `spec.priority`, if the cache holds the class."""
    holders: tuple[str, ...] = ()
    """Names of other jobs that occupy the requested cluster.

    This and the next three fields are observed for a Pending job only.
    """
    exclusive_holders: tuple[str, ...] = ()
    """The holders that occupy the cluster exclusively."""
    may_name_holder: bool = True
    """True if the job's message may name the holder: the number of jobs that name it is limited."""
    all_locked: bool = False
    """True if every cluster is held exclusively."""
    free_quota: tuple[FreeQuota, ...] = ()
    """Of each ClusterQueue; observed for a waiting job that accepts several GPU types."""


@dataclass(slots=True)
class Context(PassContext):
    """The state of one pass: what was observed, the facts, and the status draft."""

    resource = FOURNOS_JOB
    finalizer_name = names.FINALIZER

    observed: Observed
    facts: Facts
    now: datetime
    settings: JobSettings
    template: Template
    draft: StatusDraft = field(init=False)
    workload: Obj | None = field(init=False)
    """The newest Workload of the job that is not being deleted, or None."""

    def __post_init__(self) -> None:
        self.draft = StatusDraft(self.observed.job, self.now)
        self.workload = newest(w for w in self.observed.workloads if not is_terminating(w))

    # --- the job ---

    @property
    def obj(self) -> Obj:
        return self.observed.job

    @property
    def job(self) -> Obj:
        return self.observed.job

    @property
    def spec(self) -> FournosJobSpec:
        return self.observed.spec

    @property
    def is_early(self) -> bool:
        """True before `spec.scheduledStartTime`, until which the job is not queued."""
        start_at = self.spec.scheduled_start_time
        return start_at is not None and self.now < start_at

    @property
    def choices(self) -> tuple[Gpus, ...]:
        """The GPUs that the job accepts, in the order of preference; empty if it asks for none."""
        return self.spec.hardware.choices if self.spec.hardware else ()

    @property
    def hardware(self) -> Gpus | None:
        """The GPUs that the job's Workload asks for, else those of the first choice, if there are any."""
        choices, workload = self.choices, self.workload or self.observed.prebuilt
        if len(choices) > 1 and workload is not None:
            asked = requests_of(workload["spec"]["podSets"][0]["template"])
            prefix = self.settings.gpu_resource_prefix
            for gpus in choices:
                if asked.get(gpu_resource(gpus, prefix)) == str(gpus.gpu_count):
                    return gpus
        return choices[0] if choices else None

    @property
    def requests(self) -> dict[str, str]:
        """The resources that the job requests from Kueue: slots of a cluster, and GPUs."""
        return slots_and_gpus(self.spec, self.hardware, self.settings.gpu_resource_prefix)

    # --- its children ---

    @property
    def run(self) -> Obj | None:
        """The PipelineRun of the current attempt."""
        if not self.observed.runs:
            return None
        wanted = self.run_name
        return next((run for run in self.observed.runs if run["metadata"]["name"] == wanted), None)

    @property
    def run_name(self) -> str:
        """The run's name in the status, written before the run was created, if valid for this attempt.

        Otherwise the default name of the attempt.
        """
        possible = names.attempt_names(self.name, max(1, self.draft.attempt), uid_of(self.job))
        written = self.draft.last_attempt.pipeline_run
        return written if written in possible else possible[0]


def succeeded_condition(run: Obj) -> Obj:
    """Returns Tekton's Succeeded condition, or {} if Tekton has not written it yet."""
    return condition(run, "Succeeded") or {}


def run_ended(run: Obj) -> bool:
    """Returns True if a PipelineRun has ended.

    A failed run has ended only when it has a completionTime: by then Tekton has
    stopped everything that it started.
    """
    status = succeeded_condition(run).get("status")
    if status == "True":
        return True
    return status == "False" and bool((run.get("status") or {}).get("completionTime"))


def run_succeeded(run: Obj) -> bool:
    """Returns True if Tekton's Succeeded condition is True."""
    return succeeded_condition(run).get("status") == "True"
