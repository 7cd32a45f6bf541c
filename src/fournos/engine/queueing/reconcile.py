"""One pass of the Kueue job framework: job, Workloads and time in; steps and a verdict out.

Pure.  The order of the checks is that of Kueue's own reconciler.  In one point this code is more careful: it
starts a job or releases quota only after the API server has confirmed the cached state by a live read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.resource import Obj, is_terminating, key_of, uid_of
from fournos.engine.queueing.ensure import (
    OUT_OF_SYNC,
    Ensured,
    ensure,
    prebuilt_name,
    queue_of,
    removed,
    request_of,
)
from fournos.engine.queueing.job import (
    Ancestor,
    GenericJob,
    JobWithCustomStart,
    JobWithCustomStop,
    JobWithCustomWorkloadActivation,
    JobWithReclaimablePods,
    JobWithStartPatch,
    QueueInputs,
    QueueOptions,
    QueueOutcome,
    UnusableClass,
    Verdict,
    priority_of,
    runs_elsewhere,
)
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.observe import live_ancestor
from fournos.engine.queueing.podsets import (
    MissingFlavorError,
    PodSetInfo,
    PodSetInfoError,
    infos_of,
    original_infos,
)
from fournos.engine.queueing.report import (
    finalizer_patch,
    finish_patch,
    pods_ready_patch,
    reclaim_patch,
    release_quota,
)
from fournos.engine.queueing.workload import HELD_BACK, QueueState, build, view
from fournos.engine.runtime.decision import Create, EventRecord, Facts, LiveGet, Patch, Present, Step, Unknown

_DEFAULTS = QueueOptions()


def reconcile(
    job: GenericJob, inputs: QueueInputs, facts: Facts, now: datetime, *, options: QueueOptions = _DEFAULTS
) -> QueueOutcome:
    """Returns the next steps for the Workload of this job.

    The verdict on a job that another cluster runs is always ELSEWHERE; its kind then does nothing else.
    """
    outcome = _reconcile(job, inputs, facts, now, options)
    if runs_elsewhere(job):
        return replace(outcome, verdict=Verdict.ELSEWHERE)
    return outcome


def _reconcile(
    job: GenericJob, inputs: QueueInputs, facts: Facts, now: datetime, options: QueueOptions
) -> QueueOutcome:
    """Checks the state in the order of Kueue's reconciler; the first check that applies decides."""
    if is_terminating(job.obj):
        if _active(job):  # the Workload, and so the quota, must stay until the job has stopped
            return QueueOutcome(Verdict.STOPPING, "Deleted")
        return QueueOutcome(Verdict.GONE, steps=_let_go(inputs.workloads))
    if inputs.ancestor is not None:
        return _nested(job, inputs.ancestor)
    if not queue_of(job) and not options.without_queue_name:
        return _without_queue(job, inputs, facts)
    ended = job.finished()
    ensured = ensure(job, inputs, now, finished=ended is not None)
    if ensured.steps:
        return _changed(job, ensured, facts)
    workload = ensured.workload
    if workload is None:
        if ended is not None:
            return QueueOutcome(Verdict.FINISHED, message=ended.message)
        return _without_workload(job, inputs, facts)
    if isinstance(job, JobWithCustomWorkloadActivation) and (
        patch := _switched(workload, active=not job.held_back())
    ):
        return QueueOutcome(Verdict.WAITING, "Activity", steps=(patch,))
    if is_true(workload, "Finished"):
        return _finished(job, workload)
    if is_terminating(workload):
        return _deleted(job, workload, facts)
    if ended is not None:  # before the reports below: the end makes them unnecessary
        reason = ended.reason or ("Succeeded" if ended.succeeded else "Failed")
        finish = finish_patch(workload, reason, ended.message, now)
        note = EventRecord(
            "Normal", "FinishedWorkload", f"Workload '{key_of(workload)}' is declared finished"
        )
        return QueueOutcome(Verdict.FINISHED, reason, ended.message, steps=(finish,), events=(note,))
    report = _reported(job, workload, options, now)
    if report is not None:
        return report
    return _follow(job, workload, inputs, facts, now, options)


def _follow(
    job: GenericJob, workload: Obj, inputs: QueueInputs, facts: Facts, now: datetime, options: QueueOptions
) -> QueueOutcome:
    """Starts an admitted job and stops a job that lost its admission."""
    queue = view(workload)
    if queue.state in (QueueState.EVICTED, QueueState.RELEASED):
        return _evicted(job, workload, facts, now)
    if queue.state is QueueState.ADMITTED:
        if job.is_suspended() and not runs_elsewhere(job):
            return _start(job, workload, inputs, facts, now, options)
        return QueueOutcome(Verdict.ADMITTED, "Admitted", queue.message)
    if not job.is_suspended():
        stopping = _stop(job, workload, "NotAdmitted", "Not admitted by cluster queue")
        if stopping is not None:
            return stopping
    return QueueOutcome(Verdict.WAITING, queue.reason, queue.message)


# --- starting and stopping -----------------------------------------------------------------------------


def _start(
    job: GenericJob, workload: Obj, inputs: QueueInputs, facts: Facts, now: datetime, options: QueueOptions
) -> QueueOutcome:
    # A live read: the cache may still show an earlier admission, whose quota is released already.
    live = workload
    if options.confirm_start:
        answer = facts.require(LiveGet(WORKLOAD, key_of(workload)))
        if not isinstance(answer, Present) or uid_of(answer.value) != uid_of(workload):
            text = "Waiting to see the Workload as it is now"
            return QueueOutcome(Verdict.WAITING, "Unconfirmed", text, retry=True)
        live = answer.value
    if view(live).state is not QueueState.ADMITTED:
        return QueueOutcome(Verdict.WAITING, "Unconfirmed", "The admission is over already", retry=True)
    if isinstance(job, JobWithCustomStart):
        return QueueOutcome(Verdict.STARTING, "Started", steps=tuple(job.start_steps(live)), workload=live)
    assert isinstance(job, JobWithStartPatch)
    try:
        body = job.start(infos_of(live, inputs.flavors))
    except MissingFlavorError as error:
        return QueueOutcome(Verdict.BLOCKED, "FlavorNotFound", str(error), retry=True)
    except PodSetInfoError as error:
        patch = finish_patch(live, "FailedToStart", str(error), now)
        return QueueOutcome(Verdict.FINISHED, "FailedToStart", str(error), steps=(patch,))
    cluster_queue = live["status"]["admission"]["clusterQueue"]
    note = EventRecord("Normal", "Started", f"Admitted by clusterQueue {cluster_queue}")
    return QueueOutcome(
        Verdict.STARTING, "Started", note.message, steps=(_strict(job, body),), events=(note,)
    )


def _switched(workload: Obj, *, active: bool) -> Patch | None:
    """Returns the patch that deactivates the Workload for its job, or activates it again.

    Kueue evicts an inactive Workload.  Only a Workload that the job itself has deactivated is activated
    again.
    """
    meta = workload["metadata"]
    held_here = HELD_BACK in (meta.get("annotations") or {})
    is_active = workload["spec"].get("active", True) is not False
    if is_active == active or (active and not held_here):
        return None
    body = {
        "metadata": {
            "resourceVersion": meta["resourceVersion"],
            "annotations": {HELD_BACK: None if active else "true"},
        },
        "spec": {"active": active},
    }
    return Patch(WORKLOAD, key_of(workload), body)


def _strict(job: GenericJob, body: Obj) -> Patch:
    """Returns the patch with the observed resourceVersion: refused if the job has changed since."""
    version = {"resourceVersion": job.obj["metadata"]["resourceVersion"]}
    return Patch(
        job.resource, key_of(job.obj), {**body, "metadata": {**(body.get("metadata") or {}), **version}}
    )


def _stop(job: GenericJob, workload: Obj | None, reason: str, message: str) -> QueueOutcome | None:
    """Stops the job; None: it is suspended, or was never started here."""
    if runs_elsewhere(job):
        return None
    infos: Sequence[PodSetInfo] | None = original_infos(workload) if workload is not None else None
    if isinstance(job, JobWithCustomStop):
        steps: tuple[Step, ...] = tuple(job.stop_steps(infos, reason, message))
    elif isinstance(job, JobWithStartPatch) and not job.is_suspended():
        steps = (_strict(job, job.stop(infos)),)
    else:
        return None
    if not steps:
        return None
    note = EventRecord("Normal", "Stopped", message)
    return QueueOutcome(Verdict.STOPPING, reason, message, steps=steps, events=(note,))


def _evicted(job: GenericJob, workload: Obj, facts: Facts, now: datetime) -> QueueOutcome:
    evicted = condition(workload, "Evicted") or {}
    reason, message = str(evicted.get("reason") or "Evicted"), str(evicted.get("message") or "")
    if not is_true(workload, "QuotaReserved"):
        return _stop(job, workload, "WorkloadEvicted", message) or QueueOutcome(
            Verdict.WAITING, reason, message
        )
    unconfirmed = _confirm_stopped(job, workload, facts, "WorkloadEvicted", message)
    if unconfirmed is not None:
        return unconfirmed
    return QueueOutcome(Verdict.STOPPING, reason, message, steps=(release_quota(workload, now),))


def _confirm_stopped(
    job: GenericJob, workload: Obj | None, facts: Facts, reason: str, message: str
) -> QueueOutcome | None:
    """Stops the job first; returns None once nothing of it runs and a live read has confirmed the cache.

    The live read: a stale cache could hide a start, and released quota would then be used twice.
    """
    stopping = _stop(job, workload, reason, message)
    if stopping is not None:
        return stopping
    if _active(job):
        return QueueOutcome(Verdict.STOPPING, reason, message)
    answer = facts.require(LiveGet(job.resource, key_of(job.obj)))
    version = job.obj["metadata"]["resourceVersion"]
    if not isinstance(answer, Present) or answer.value["metadata"]["resourceVersion"] != version:
        return QueueOutcome(Verdict.STOPPING, reason, message, retry=True)
    return None


def _active(job: GenericJob) -> bool:
    """True if the job uses quota of this cluster; the status of a job on another cluster does not count."""
    return job.is_active() and not runs_elsewhere(job)


def _nested(job: GenericJob, ancestor: Ancestor) -> QueueOutcome:
    """Lets a nested job run only while its ancestor is admitted."""
    held = ancestor.workload
    if job.finished() is None and not job.is_suspended() and (held is None or not is_true(held, "Admitted")):
        stopping = _stop(job, None, "NotAdmitted", "Kueue managed child job suspended")
        if stopping is not None:
            return QueueOutcome(
                Verdict.NESTED,
                "Suspended",
                steps=stopping.steps,
                events=(EventRecord("Normal", "Suspended", stopping.message),),
            )
    text = f"Runs on the quota of {ancestor.kind} {ancestor.key}"
    return QueueOutcome(Verdict.NESTED, message=text, ancestor=ancestor)


def _without_queue(job: GenericJob, inputs: QueueInputs, facts: Facts) -> QueueOutcome:
    """Deletes the Workloads of a job whose queue name was removed; the job goes on as one without a queue.

    After a live read: a cache may show the job as it was before it was queued.
    """
    own = [workload for workload in inputs.workloads if not is_true(workload, "Finished")]
    steps = [step for workload in own for step in removed(workload)]
    if not steps or prebuilt_name(job.obj):
        return QueueOutcome(Verdict.NOT_QUEUED)
    answer = facts.require(LiveGet(job.resource, key_of(job.obj)))
    version = job.obj["metadata"]["resourceVersion"]
    if not isinstance(answer, Present) or answer.value["metadata"]["resourceVersion"] != version:
        return QueueOutcome(Verdict.NOT_QUEUED, retry=True)
    note = EventRecord("Normal", "DeletedWorkload", "The job has no queue any more: its Workload is deleted")
    going = all(is_terminating(workload) for workload in own)
    return QueueOutcome(Verdict.NOT_QUEUED, steps=tuple(steps), events=() if going else (note,))


# --- the Workload itself -------------------------------------------------------------------------------


def _without_workload(job: GenericJob, inputs: QueueInputs, facts: Facts) -> QueueOutcome:
    prebuilt = prebuilt_name(job.obj)
    if prebuilt or not job.is_suspended():
        message = "missing workload" if prebuilt else "Missing Workload; unable to restore pod templates"
        stopping = _stop(job, None, "NoMatchingWorkload", message)
        if stopping is not None:
            return stopping
    if _active(job):
        return QueueOutcome(
            Verdict.STOPPING, "NoMatchingWorkload", "Waiting for what runs without quota to stop"
        )
    if prebuilt:
        text = f"prebuilt Workload '{prebuilt}' not found"
        return QueueOutcome(Verdict.BLOCKED, "PrebuiltWorkloadNotFound", text, retry=True)
    # Live, because a cache may show the job before the Workload of its owner; two would take quota twice.
    ancestor = live_ancestor(job.obj, facts)
    if isinstance(ancestor, Ancestor):
        return _nested(job, ancestor)
    if isinstance(ancestor, Unknown):
        return QueueOutcome(Verdict.BLOCKED, "OwnerUnknown", ancestor.reason, retry=True)
    priority = priority_of(job, inputs.workload_classes, inputs.pod_classes)
    if isinstance(priority, UnusableClass):
        return QueueOutcome(Verdict.BLOCKED, priority.reason, str(priority), retry=True)
    body = build(request_of(job, priority))
    note = EventRecord("Normal", "CreatedWorkload", f"Created Workload: {key_of(body)}")
    return QueueOutcome(Verdict.WAITING, "Pending", steps=(Create(WORKLOAD, body),), events=(note,))


def _deleted(job: GenericJob, workload: Obj, facts: Facts) -> QueueOutcome:
    """Handles a Workload's deletion: our finalizer keeps it and its quota until the job has stopped."""
    unconfirmed = _confirm_stopped(job, workload, facts, "WorkloadDeleted", "Workload is deleted")
    if unconfirmed is not None:
        return unconfirmed
    return QueueOutcome(Verdict.STOPPING, "WorkloadDeleted", steps=_let_go((workload,)))


def _changed(job: GenericJob, ensured: Ensured, facts: Facts) -> QueueOutcome:
    """Changes a Workload that does not match the job; a running job stops before its Workload is deleted."""
    if ensured.stop_first:
        unconfirmed = _confirm_stopped(
            job, ensured.restore_from, facts, "NoMatchingWorkload", ensured.message
        )
        if unconfirmed is not None:
            return unconfirmed
    events = (EventRecord("Normal", ensured.event, ensured.message),) if ensured.event else ()
    reason = ensured.reason or ensured.event
    return QueueOutcome(Verdict.WAITING, reason, ensured.message, steps=ensured.steps, events=events)


def _finished(job: GenericJob, workload: Obj) -> QueueOutcome:
    """Handles a finished Workload, whose quota is free.

    A job out of sync with its prebuilt Workload must stop, because it has no quota.
    """
    ended = condition(workload, "Finished") or {}
    reason, message = str(ended.get("reason") or ""), str(ended.get("message") or "")
    if reason == OUT_OF_SYNC and job.finished() is None:
        stopping = _stop(job, workload, "NoMatchingWorkload", message)
        if stopping is not None:
            return stopping
    return QueueOutcome(Verdict.FINISHED, reason, message, steps=_let_go((workload,)))


def _let_go(workloads: Sequence[Obj]) -> tuple[Step, ...]:
    """Returns the patches that remove our finalizer, so that the Workloads can be deleted."""
    return tuple(patch for patch in map(finalizer_patch, workloads) if patch is not None)


def _reported(job: GenericJob, workload: Obj, options: QueueOptions, now: datetime) -> QueueOutcome | None:
    """Writes reclaimable pods or PodsReady: one status patch a pass, since each needs the last version."""
    patch = (
        reclaim_patch(workload, job.reclaimable_pods()) if isinstance(job, JobWithReclaimablePods) else None
    )
    if (
        patch is None
        and options.pods_ready
        and (is_true(workload, "Admitted") or condition(workload, "PodsReady"))
    ):
        patch = pods_ready_patch(workload, job.pods_ready(), now)
    if patch is None:
        return None
    verdict = Verdict.ADMITTED if is_true(workload, "Admitted") else Verdict.WAITING
    return QueueOutcome(verdict, "Reported", steps=(patch,))
