"""FournosJob as a GenericJob of the queueing framework.

The job is suspended while no run of it is live.  `spec.suspend` is the user's hold, which the framework does
not read.  The job starts by a claim in its status, on the verdict STARTING.  `interrupt` ends an interrupted
run, because the framework has no time limits and messages for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from fournos.api.kinds import FOURNOS_JOB
from fournos.api.phase import HOLDING, TERMINAL
from fournos.engine.api.conditions import is_true
from fournos.engine.kube.resource import Key, Obj, Resource
from fournos.engine.queueing.ensure import OUT_OF_SYNC, prebuilt_name
from fournos.engine.queueing.inputs import QueueInputs, QueueOutcome
from fournos.engine.queueing.job import Ended, QueueOptions
from fournos.engine.queueing.kinds import WORKLOAD_PRIORITY_CLASS
from fournos.engine.queueing.managed import runs_elsewhere
from fournos.engine.queueing.reconcile import reconcile
from fournos.engine.queueing.state import QueueState, view
from fournos.engine.queueing.workload import PodSet, Priority, WorkloadRequest
from fournos.engine.runtime.decision import LiveGet, Present
from fournos.engine.runtime.steps import Create, Step
from fournos.systems.jobs import build, names
from fournos.systems.jobs.alternatives import gpus_to_ask_for
from fournos.systems.jobs.context import Context


def queue(ctx: Context) -> QueueOutcome:
    """Reconciles the job's Workload.

    Applies to a job that is new or waiting, one that has ended, and one that another cluster runs.
    """
    workload = ctx.workload
    inputs = QueueInputs(
        # Only one: a stale cache may still show the Workload of the previous attempt, under another name.
        workloads=(workload,) if workload is not None else (),
        prebuilt=ctx.observed.prebuilt,
        workload_classes=_classes(ctx),
    )
    options = QueueOptions(
        without_queue_name=True,
        pods_ready=False,  # reported by `running`, together with the run
        confirm_start=ctx.draft.attempt > 0,
    )
    return reconcile(QueuedFournosJob(ctx), inputs, ctx.facts, ctx.now, options=options)


def _classes(ctx: Context) -> Mapping[str, Obj]:
    """Returns the job's WorkloadPriorityClass from the cache or from a live read, or {} if unknown."""
    name, value = ctx.spec.priority or "", ctx.observed.priority_value
    if name and value is not None:
        return {name: {"value": value}}
    answer = ctx.facts.get(class_question(ctx))
    return {name: answer.value} if isinstance(answer, Present) else {}


def class_question(ctx: Context) -> LiveGet:
    """Returns the live read of the job's WorkloadPriorityClass."""
    return LiveGet(WORKLOAD_PRIORITY_CLASS, Key("", ctx.spec.priority or ""))


@dataclass(frozen=True, slots=True)
class QueuedFournosJob:
    """GenericJob of a FournosJob; the framework detects its optional capabilities by method."""

    ctx: Context
    _requests: dict[Priority | None, WorkloadRequest] = field(default_factory=dict, compare=False)
    """The requested Workload by priority: built once, read several times a pass."""

    resource: ClassVar[Resource] = FOURNOS_JOB

    @property
    def obj(self) -> Obj:
        return self.ctx.job

    def pod_sets(self) -> Sequence[PodSet]:
        return self.workload_request(None).pod_sets

    def is_suspended(self) -> bool:
        return self.ctx.draft.phase not in HOLDING

    def is_active(self) -> bool:
        return not self.is_suspended()

    def finished(self) -> Ended | None:
        """Returns how the job ended, or None.

        MultiKueue writes the status of a job that another cluster runs.
        """
        draft = self.ctx.draft
        if runs_elsewhere(self) or draft.phase not in TERMINAL:
            return None
        out_of_sync = draft.reason_of("WorkloadAdmitted") == OUT_OF_SYNC
        reason = OUT_OF_SYNC if out_of_sync else ""
        return Ended(draft.phase == "Succeeded", draft.message or draft.phase, reason)

    def pods_ready(self) -> bool:
        return self.is_active()

    def start_steps(self, workload: Obj) -> Sequence[Step]:
        return ()

    def managed_by(self) -> str | None:
        return self.ctx.spec.managed_by

    def held_back(self) -> bool:
        """Returns True on a manager cluster if the job must not start.

        A local suspended job has no Workload.
        """
        spec = self.ctx.spec
        return bool(runs_elsewhere(self) and (spec.suspend or spec.shutdown))

    # --- the requested Workload ---

    def workload_request(self, priority: Priority | None) -> WorkloadRequest:
        request = self._requests.get(priority)
        if request is None:
            ctx = self.ctx
            request = self._requests[priority] = build.workload_request(
                ctx.job,
                ctx.spec,
                hardware=gpus_to_ask_for(ctx),
                priority=priority,
                attempt=ctx.draft.attempt + 1,
                name_taken=name_is_taken(ctx),
                settings=ctx.settings,
            )
        return request

    def workload_priority_class(self) -> str:
        """Returns the requested class, or "" while the Workload holds quota.

        Hearth raises the priority of an admitted lock, which must not be reset.
        """
        workload = self.ctx.workload
        free = workload is None or view(workload).state in (QueueState.WAITING, QueueState.RELEASED)
        return self.ctx.spec.priority or "" if free else ""

    def fits(self, workload: Obj) -> bool:
        """Returns True if the Workload still matches the job.

        Another client may have created it in another queue or with another priority.  A
        prebuilt Workload ends with its job, whatever it requests.  A job that another cluster
        runs keeps what it was admitted with.
        """
        if self.finished() is not None or (runs_elsewhere(self) and is_true(workload, "QuotaReserved")):
            return True
        request, spec, state = self.workload_request(None), workload["spec"], view(workload).state
        if _pods(spec["podSets"][0]["template"]) != _pods(request.pod_sets[0].template):
            return False
        if prebuilt_name(self.obj):
            return True
        if state is QueueState.WAITING:
            return bool(self.ctx.spec.priority) or not spec.get("priorityClassRef")
        return state is not QueueState.ADMITTED or spec.get("queueName") == request.queue


def _pods(template: Obj) -> tuple[Mapping[str, str], Obj]:
    """Returns the compared parts of a pod template: slots and GPUs, and the cluster.

    Versions differ in the rest.
    """
    return build.requests_of(template), template["spec"].get("nodeSelector") or {}


def name_is_taken(ctx: Context) -> bool:
    """Returns True if creating the attempt's Workload failed because another object has its usual name."""
    failure = ctx.facts.failure
    return (
        failure is not None
        and failure.error == "ForeignObject"
        and isinstance(failure.step, Create)
        and failure.step.body["metadata"]["name"] == names.attempt_name(ctx.name, ctx.draft.attempt + 1)
        and ctx.draft.attempt > 0
    )
