"""The job in Kueue's queue: the GPUs that it asks for, its Workload, and the quota that it holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import ClassVar, Final

from fournos.api.fournosjob_values import Gpus
from fournos.api.kinds import FOURNOS_JOB
from fournos.api.phase import HOLDING, TERMINAL
from fournos.engine.api.conditions import is_true
from fournos.engine.api.values import parse_quantity
from fournos.engine.kube.resource import Key, Obj, Resource, controls
from fournos.engine.queueing.ensure import OUT_OF_SYNC, prebuilt_name
from fournos.engine.queueing.job import Ended, QueueInputs, QueueOptions, QueueOutcome, runs_elsewhere
from fournos.engine.queueing.kinds import LOCAL_QUEUE, WORKLOAD, WORKLOAD_PRIORITY_CLASS
from fournos.engine.queueing.observe import quotas_of, reserved
from fournos.engine.queueing.reconcile import reconcile
from fournos.engine.queueing.workload import PodSet, Priority, QueueState, WorkloadRequest, view
from fournos.engine.runtime.decision import Absent, Create, LiveGet, Present, Step
from fournos.systems.jobs import build, names
from fournos.systems.jobs.build import slots_and_gpus
from fournos.systems.jobs.status import Context, Flavors, FreeQuota

# --- GPUs by preference --------------------------------------------------------------------------------
# A GPU type is a resource and a cluster is a flavor, so one Workload cannot ask Kueue for one of two types.
# While the job waits, its Workload is rewritten instead, and keeps its place in the queue.  The Workload is
# the only record of the choice: the job's status names the GPUs when they are admitted.

CHOOSING_AT_MOST: Final = 50
"""The maximum number of jobs, the oldest first, that a change of a ClusterQueue lets choose again."""


def gpus_to_ask_for(ctx: Context) -> Gpus | None:
    """Returns the first GPUs that are free while the job waits; if none are, those that it asks for now.

    The job's LocalQueue is read live, and only if GPUs of the job are free in any ClusterQueue.
    """
    if len(ctx.choices) < 2 or not _may_choose(ctx):
        return ctx.hardware
    anywhere = _added(ctx.observed.free_quota)
    if not any(_are_free(ctx, gpus, anywhere) for gpus in ctx.choices):
        return ctx.hardware
    free = free_to(_cluster_queue(ctx), ctx.observed.free_quota)
    return next((gpus for gpus in ctx.choices if _are_free(ctx, gpus, free)), ctx.hardware)


def _may_choose(ctx: Context) -> bool:
    """Returns False where another request would cost the job its quota or its place in the queue."""
    if ctx.workload is not None and is_true(ctx.workload, "QuotaReserved"):
        return False  # also while admission checks last
    if ctx.spec.priority and ctx.observed.priority_value is None:
        return False  # a Workload cannot be rewritten without the value of its class
    return not prebuilt_name(ctx.job)  # it ends with a job that asks for something else


def _cluster_queue(ctx: Context) -> str:
    queue = LiveGet(LOCAL_QUEUE, Key(ctx.namespace, ctx.settings.kueue_local_queue_name))
    answer = ctx.facts.require(queue)
    return str(answer.value["spec"].get("clusterQueue") or "") if isinstance(answer, Present) else ""


def _are_free(ctx: Context, gpus: Gpus, free: Flavors) -> bool:
    """Returns True if one flavor has room for all that the job asks for."""
    requests = slots_and_gpus(ctx.spec, gpus, ctx.settings.gpu_resource_prefix)
    return any(
        all(quotas.get(resource, 0) >= parse_quantity(amount) for resource, amount in requests.items())
        for flavor, quotas in free.items()
        if ctx.spec.cluster in (None, "", flavor)
    )


def free_quota(cluster_queue: Obj) -> Flavors:
    """Returns what a ClusterQueue has left; nothing of one that cannot be read."""
    free: dict[str, dict[str, Decimal]] = {}
    try:
        used = reserved(cluster_queue)
        for (flavor, resource), quota in quotas_of(cluster_queue):
            unused = parse_quantity(quota["nominalQuota"]) - used.get((flavor, resource), Decimal(0))
            free.setdefault(flavor, {})[resource] = unused
    except (KeyError, ValueError):  # of a stranger: it must not stop the jobs of all queues
        return {}
    return free


def free_to(cluster_queue: str, quotas: Iterable[FreeQuota]) -> Flavors:
    """Returns what is free to a ClusterQueue: its own quota, and all that others of its cohort have left."""
    quotas = tuple(quotas)
    own = next((quota for quota in quotas if quota.cluster_queue == cluster_queue), None)
    if own is None:
        return {}
    return _added(quota for quota in quotas if quota is own or (own.cohort and quota.cohort == own.cohort))


def _added(quotas: Iterable[FreeQuota]) -> Flavors:
    free: dict[str, dict[str, Decimal]] = {}
    for quota in quotas:
        for flavor, resources in quota.flavors.items():
            together = free.setdefault(flavor, {})
            for resource, amount in resources.items():
                together[resource] = together.get(resource, Decimal(0)) + amount
    return free


# --- the job in its queue ------------------------------------------------------------------------------
# FournosJob as a GenericJob of the queueing framework.
#
# The job is suspended while no run of it is live.  `spec.suspend` is the user's hold, which the framework
# does not read.  The job starts by a claim in its status, on the verdict STARTING.  `interrupt` ends an
# interrupted run, because the framework has no time limits and messages for it.


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

        A local suspended job has no Workload.  A start time has no effect on a job that holds quota.
        """
        spec, workload = self.ctx.spec, self.ctx.workload
        early = self.ctx.is_early and not (workload is not None and is_true(workload, "QuotaReserved"))
        return bool(runs_elsewhere(self) and (spec.suspend or spec.shutdown or early))

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
        if self._was_held(workload):
            return False
        if state is QueueState.WAITING:
            return bool(self.ctx.spec.priority) or not spec.get("priorityClassRef")
        return state is not QueueState.ADMITTED or spec.get("queueName") == request.queue

    def _was_held(self, workload: Obj) -> bool:
        """Returns True for a lock that waits again with the priority that it had while it was held."""
        if not self.ctx.spec.lock_only or is_true(workload, "QuotaReserved"):
            return False
        raised = workload["spec"].get("priority") == names.LOCK_PRIORITY
        own = self.ctx.observed.priority_value if self.ctx.spec.priority else 0
        return raised and own is not None and own < names.LOCK_PRIORITY


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


# --- the quota that it holds ---------------------------------------------------------------------------
# The quota that a job holds.  Its cluster is read from a Workload's admission, never from the job's status.
#
# The cluster is the flavor of the slots in the admission of the job's own Workload.


def own_cluster(workload: Obj) -> str | None:
    """Returns the cluster to which the job's own Workload was admitted, or None."""
    return view(workload).flavor(names.POD_SET, names.SLOT_RESOURCE)


@dataclass(frozen=True, slots=True)
class Granted:
    """The quota that a job with a started attempt holds.  All fields empty: not known in this pass."""

    cluster: str | None = None
    evicted: Obj | None = None
    """The job's Workload, if Kueue has evicted it."""
    lost: str = ""
    """Why the job holds no quota."""


def granted(ctx: Context) -> Granted:
    """Returns the quota that the job holds in this pass, by its Workload."""
    workload = ctx.workload
    if workload is not None:
        if view(workload).state is not QueueState.ADMITTED:
            return Granted(evicted=workload)
        return Granted(own_cluster(workload))
    name = ctx.draft.last_attempt.workload or names.attempt_name(ctx.name, ctx.draft.attempt)
    # A live read: losing quota ends the run, so a Workload that only the cache lacks must not count as lost.
    answer = ctx.facts.require(LiveGet(WORKLOAD, Key(ctx.namespace, name)))
    if isinstance(answer, Absent) and not answer.no_kind:
        return Granted(lost="Its Workload was deleted, so its quota is gone")
    if not isinstance(answer, Present) or controls(ctx.job, answer.value):
        return Granted()  # the cache does not show it yet
    return Granted(lost=f"Workload '{name}' is not its own")
