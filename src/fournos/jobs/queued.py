"""A FournosJob as Kueue's job framework sees it.

It is suspended while no run of it is live; `spec.suspend` is its user's hold, which the framework does not
see.  Its start is a claim in the status, made on the verdict STARTING.  An interrupted run is ended by
`interrupt`, whose bounds and messages the framework has no words for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from fournos.api.conditions import is_true
from fournos.jobs import build, names
from fournos.jobs.context import Context
from fournos.kube.resource import Key, Obj, Resource
from fournos.queueing.ensure import OUT_OF_SYNC, prebuilt_name
from fournos.queueing.inputs import Outcome, QueueInputs
from fournos.queueing.job import Ended, Options
from fournos.queueing.kinds import FOURNOS_JOB, WORKLOAD_PRIORITY_CLASS
from fournos.queueing.managed import runs_elsewhere
from fournos.queueing.reconcile import reconcile
from fournos.queueing.state import QueueState, view
from fournos.queueing.workload import PodSet, Priority, WorkloadRequest
from fournos.runtime.decision import LiveGet, Present
from fournos.runtime.steps import Create, Step


def queue(ctx: Context) -> Outcome:
    """Kueue's side of the job: of a new or waiting one, of one that has ended, of one that runs elsewhere."""
    workload = ctx.workload
    inputs = QueueInputs(
        # One: a cache may still show the Workload of the attempt before this one, under another name.
        workloads=(workload,) if workload is not None else (),
        prebuilt=ctx.observed.prebuilt,
        workload_classes=_classes(ctx),
    )
    options = Options(
        without_queue_name=True,
        pods_ready=False,  # reported with the run
        confirm_start=ctx.draft.attempt > 0,
    )
    return reconcile(QueuedFournosJob(ctx), inputs, ctx.facts, ctx.now, options=options)


def _classes(ctx: Context) -> Mapping[str, Obj]:
    """Its WorkloadPriorityClass, as the cache has it or as it was read live."""
    name, value = ctx.spec.priority or "", ctx.observed.priority_value
    if name and value is not None:
        return {name: {"value": value}}
    answer = ctx.facts.get(class_question(ctx))
    return {name: answer.value} if isinstance(answer, Present) else {}


def class_question(ctx: Context) -> LiveGet:
    return LiveGet(WORKLOAD_PRIORITY_CLASS, Key("", ctx.spec.priority or ""))


@dataclass(frozen=True, slots=True)
class QueuedFournosJob:
    ctx: Context

    resource: ClassVar[Resource] = FOURNOS_JOB

    @property
    def obj(self) -> Obj:
        return self.ctx.job

    def pod_sets(self) -> Sequence[PodSet]:
        return self.workload_request(None).pod_sets

    def is_suspended(self) -> bool:
        return self.ctx.draft.phase not in names.HOLDING

    def is_active(self) -> bool:
        return not self.is_suspended()

    def finished(self) -> Ended | None:
        """The status of a job that runs elsewhere is MultiKueue's."""
        draft = self.ctx.draft
        if runs_elsewhere(self) or draft.phase not in names.TERMINAL:
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
        """On a manager only: here a suspended job has no Workload."""
        spec = self.ctx.spec
        return bool(runs_elsewhere(self) and (spec.suspend or spec.shutdown))

    # --- what it asks for ---

    def workload_request(self, priority: Priority | None) -> WorkloadRequest:
        ctx = self.ctx
        return build.workload_request(
            ctx.job,
            ctx.spec,
            hardware=ctx.hardware,
            priority=priority,
            attempt=ctx.draft.attempt + 1,
            name_taken=name_is_taken(ctx),
            settings=ctx.settings,
        )

    def workload_priority_class(self) -> str:
        """Not of one that holds quota: Hearth raises the priority of a lock that is admitted."""
        workload = self.ctx.workload
        free = workload is None or view(workload).state in (QueueState.WAITING, QueueState.RELEASED)
        return self.ctx.spec.priority or "" if free else ""

    def fits(self, workload: Obj) -> bool:
        """Another client may have made it, in another queue or with a priority of its own.

        A prebuilt one ends with its job, whatever it asks for; a job that another cluster runs keeps what it
        was admitted with.
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


def _pods(template: Obj) -> tuple[Obj, Obj]:
    """Slots and GPUs, and the cluster: the rest differs from version to version."""
    spec = template["spec"]
    return spec["containers"][0]["resources"]["requests"], spec.get("nodeSelector") or {}


def name_is_taken(ctx: Context) -> bool:
    """Whether the Workload of an attempt could not be made because another object has its usual name."""
    failure = ctx.facts.failure
    return (
        failure is not None
        and failure.error == "ForeignObject"
        and isinstance(failure.step, Create)
        and failure.step.body["metadata"]["name"] == names.attempt_name(ctx.name, ctx.draft.attempt + 1)
        and ctx.draft.attempt > 0
    )
