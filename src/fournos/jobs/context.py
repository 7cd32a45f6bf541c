"""What one pass of the job system works with: facts in, a status draft and a decision out."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from fournos.api.conditions import condition
from fournos.api.fournosjob import FournosJobSpec, Hardware
from fournos.jobs import names
from fournos.jobs.build import slots_and_gpus
from fournos.jobs.kinds import FOURNOS_JOB
from fournos.jobs.settings import JobSettings
from fournos.jobs.status import StatusDraft
from fournos.jobs.template import Template
from fournos.kube.resource import Key, Obj, newest, uid_of
from fournos.queueing.state import QueueState, view
from fournos.runtime.context import PassContext
from fournos.runtime.decision import Facts


@dataclass(frozen=True, slots=True)
class Observed:
    """A FournosJob and what the caches hold about it."""

    key: Key
    job: Obj
    spec: FournosJobSpec
    problem: str = ""
    """Why the spec cannot be read; `spec` then is an empty one."""
    prebuilt: Obj | None = None
    """The Workload that a label of the job names, whoever made it."""
    workloads: tuple[Obj, ...] = ()
    """Workloads whose controller is this job (by UID)."""
    runs: tuple[Obj, ...] = ()
    """PipelineRuns whose controller is this job."""
    resolve_jobs: tuple[Obj, ...] = ()
    """Resolve Jobs of this job; also ones of the right name that nobody controls."""
    pipeline: Obj | None = None
    flavors: frozenset[str] = frozenset()
    gpu_resources: frozenset[str] = frozenset()
    """Resource names with the GPU prefix that some ClusterQueue covers."""
    checks: bool = False
    """Some ClusterQueue has admission checks: jobs may run elsewhere."""
    priority_value: int | None = None
    """The value of `spec.priority`'s class, if the cache holds the class."""
    holders: tuple[str, ...] = ()
    """Other jobs that occupy the wanted cluster."""
    exclusive_holders: tuple[str, ...] = ()
    """Those of them that hold it alone."""
    may_name_holder: bool = True
    """Few enough jobs name the holder in their messages."""
    all_locked: bool = False
    """Every cluster is held exclusively."""


@dataclass(slots=True)
class Context(PassContext):
    resource = FOURNOS_JOB
    finalizer_name = names.FINALIZER

    observed: Observed
    facts: Facts
    now: datetime
    settings: JobSettings
    template: Template
    draft: StatusDraft = field(init=False)

    def __post_init__(self) -> None:
        self.draft = StatusDraft(self.observed.job, self.now)

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
    def hardware(self) -> Hardware | None:
        """Complete hardware, or None."""
        wanted = self.spec.hardware
        return wanted if wanted and wanted.gpu_type and wanted.gpu_count else None

    @property
    def requests(self) -> dict[str, str]:
        """What it asks Kueue for: slots of a cluster, and GPUs."""
        return slots_and_gpus(self.spec, self.hardware, self.settings)

    # --- its children ---

    @property
    def run(self) -> Obj | None:
        """The PipelineRun of the current attempt."""
        wanted = self.run_name
        return next((run for run in self.observed.runs if run["metadata"]["name"] == wanted), None)

    @property
    def run_name(self) -> str:
        """As it was written before it was made, if that can be the name of this attempt."""
        possible = names.attempt_names(self.name, max(1, self.draft.attempt), uid_of(self.job))
        written = self.draft.last_attempt.pipeline_run
        return written if written in possible else possible[0]

    @property
    def workload(self) -> Obj | None:
        """The Workload that counts: not one that is going away, the newest if there are several."""
        alive = [w for w in self.observed.workloads if view(w).state is not QueueState.GONE]
        return newest(alive)


def succeeded_condition(run: Obj) -> Obj:
    """Tekton's one condition; {} while it has written none."""
    return condition(run, "Succeeded") or {}


def run_ended(run: Obj) -> bool:
    """Whether a PipelineRun is over: failed ones only once Tekton has stopped all it started."""
    status = succeeded_condition(run).get("status")
    if status == "True":
        return True
    return status == "False" and bool((run.get("status") or {}).get("completionTime"))


def run_succeeded(run: Obj) -> bool:
    return succeeded_condition(run).get("status") == "True"
