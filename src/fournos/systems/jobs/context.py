"""State of one reconcile pass of a FournosJob: observed objects, facts and a status draft."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import TypeAlias

from fournos.api.fournosjob import FournosJobSpec
from fournos.api.fournosjob_values import Gpus
from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.api.conditions import condition
from fournos.engine.kube.resource import Key, Obj, is_terminating, newest, uid_of
from fournos.engine.runtime.context import PassContext
from fournos.engine.runtime.decision import Facts
from fournos.systems.jobs import names
from fournos.systems.jobs.build import gpu_resource, requests_of, slots_and_gpus
from fournos.systems.jobs.settings import JobSettings
from fournos.systems.jobs.status import StatusDraft
from fournos.systems.jobs.template import Template

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
