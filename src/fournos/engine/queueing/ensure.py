"""Exactly one Workload for each job: the matching one is kept or named, all others are changed or deleted.

This is Kueue's rule.  Workloads belong to a job by owner name and kind.  A pending Workload that does not
match is rewritten; one that holds quota is replaced after the job has stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fournos.engine.api.conditions import is_true
from fournos.engine.api.values import parse_count, parse_quantity
from fournos.engine.kube.resource import (
    Key,
    Obj,
    controller_of,
    is_terminating,
    key_of,
    owner_reference,
    uid_of,
)
from fournos.engine.queueing.job import (
    GenericJob,
    JobWithCustomWorkload,
    QueueInputs,
    UnusableClass,
    kind_name_hash,
    priority_of,
    runs_elsewhere,
    workload_class_of,
)
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.podsets import queue_name
from fournos.engine.queueing.report import finalizer_patch, finish_patch
from fournos.engine.queueing.workload import IN_USE, JOB_UID_LABEL, PodSet, Priority, WorkloadRequest, build
from fournos.engine.runtime.decision import Delete, Patch, Step

# --- whether a Workload fits its job ----------------------------------------------------------------
# Whether a Workload still requests what its job needs, by the rule of Kueue's job framework.

_DEFAULTS: dict[str, Any] = {
    # The Workload CRD sets these defaults in the stored copy; the job's own template may leave them out.
    "protocol": "TCP",
    "service": "",
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}


def equivalent(
    pod_sets: Sequence[PodSet],
    max_execution_seconds: int | None,
    workload: Obj,
    *,
    suspended: bool,
) -> bool:
    """Compares containers, counts and tolerations by position; names, labels and selectors are ignored.

    A running job that was admitted with fewer pods is compared by the admitted count.
    """
    spec = workload["spec"]
    if max_execution_seconds != spec.get("maximumExecutionTimeSeconds"):
        return False
    stored: list[Obj] = list(spec["podSets"])
    tolerations = not is_true(workload, "Admitted")
    if is_true(workload, "QuotaReserved"):
        assigned = ((workload.get("status") or {}).get("admission") or {}).get("podSetAssignments") or ()
        counts = {one["name"]: one.get("count") for one in assigned}
        running = [_running(pod_set, counts.get(pod_set["name"])) for pod_set in stored]
        if _alike(pod_sets, running, tolerations):
            return True
        return suspended and _alike(pod_sets, stored, tolerations)
    return _alike(pod_sets, stored, tolerations)


def _running(pod_set: Obj, granted: int | None) -> Obj:
    """Returns the pod set with the admitted count; only partial admission (`minCount`) changes a count."""
    if granted is None or pod_set.get("minCount") is None:
        return pod_set
    return {**pod_set, "count": granted}


def _alike(pod_sets: Sequence[PodSet], stored: Sequence[Obj], tolerations: bool) -> bool:
    return len(pod_sets) == len(stored) and all(
        _same(wanted, present, tolerations) for wanted, present in zip(pod_sets, stored, strict=True)
    )


def _same(pod_set: PodSet, present: Obj, tolerations: bool) -> bool:
    if pod_set.count != present.get("count", 1) or pod_set.min_count != present.get("minCount"):
        return False
    fields = ("initContainers", "containers", *(("tolerations",) if tolerations else ()))
    a, b = pod_set.template.get("spec") or {}, (present.get("template") or {}).get("spec") or {}
    return all(_normal(a.get(field)) == _normal(b.get(field)) for field in fields)


def _normal(value: Any, key: str = "") -> Any:
    """Returns the value without empty parts and defaults, for comparison.

    Quantities are compared by value; of two environment variables with one name the last counts.
    """
    if isinstance(value, Mapping):
        if key in ("requests", "limits"):
            return {name: _number(amount) for name, amount in value.items()} or None
        inner = {name: _normal(child, name) for name, child in value.items()}
        return {
            name: child for name, child in inner.items() if child is not None and child != _DEFAULTS.get(name)
        } or None
    if isinstance(value, list | tuple):
        if key == "env":
            value = list({one.get("name"): one for one in value}.values())
        return [_normal(child) for child in value] or None
    return value


def _number(amount: Any) -> Any:
    """Returns the quantity's value; an unreadable quantity equals only itself."""
    try:
        return parse_quantity(amount)
    except ValueError:
        return amount


PREBUILT_LABEL = "kueue.x-k8s.io/prebuilt-workload-name"
MAX_EXECUTION_LABEL = "kueue.x-k8s.io/max-exec-time-seconds"
OUT_OF_SYNC = "OutOfSync"
"""Kueue's reason for finishing a prebuilt Workload that its job does not match."""
_PROVISIONING = "provreq.kueue.x-k8s.io/"


@dataclass(frozen=True, slots=True)
class Ensured:
    """The job's Workload, or the steps that make job and Workloads match."""

    workload: Obj | None = None
    steps: tuple[Step, ...] = ()
    """The steps that make job and Workloads match; the pass does nothing else while there are any."""
    event: str = ""
    reason: str = ""
    message: str = ""
    stop_first: bool = False
    restore_from: Obj | None = None


def prebuilt_name(job: Obj) -> str:
    """Returns the name of the job's prebuilt Workload (label or annotation), "" for none."""
    labels = job["metadata"].get("labels") or {}
    annotations = job["metadata"].get("annotations") or {}
    return str(labels.get(PREBUILT_LABEL) or annotations.get(PREBUILT_LABEL) or "")


def max_execution_seconds(job: Obj) -> int | None:
    """Returns the limit from the job's label.

    A value that is not a positive 32-bit number is ignored here, because admission refuses it.
    """
    return parse_count((job["metadata"].get("labels") or {}).get(MAX_EXECUTION_LABEL)) or None


def queue_of(job: GenericJob) -> str:
    """Returns the name of the job's LocalQueue, "" for none."""
    return job.workload_request(None).queue if isinstance(job, JobWithCustomWorkload) else queue_name(job.obj)


def request_of(job: GenericJob, priority: Priority | None) -> WorkloadRequest:
    """Returns the properties of the Workload that the job needs."""
    if isinstance(job, JobWithCustomWorkload):
        return job.workload_request(priority)
    meta = job.obj["metadata"]
    annotations = meta.get("annotations") or {}
    return WorkloadRequest(
        key=Key(meta["namespace"], kind_name_hash(job)),
        queue=queue_name(job.obj),
        pod_sets=tuple(job.pod_sets()),
        owner=owner_reference(job.resource, job.obj),
        labels={JOB_UID_LABEL: uid_of(job.obj)},
        priority=priority,
        annotations={k: v for k, v in annotations.items() if k.startswith(_PROVISIONING)},
        # On a MultiKueue manager no controller would remove the finalizer after the job is gone.
        finalizers=() if runs_elsewhere(job) else (IN_USE,),
        max_execution_seconds=max_execution_seconds(job.obj),
    )


def ensure(job: GenericJob, inputs: QueueInputs, now: datetime, *, finished: bool) -> Ensured:
    """Returns the job's Workload, or the steps that lead to exactly one matching Workload."""
    if prebuilt_name(job.obj):
        return _prebuilt(job, inputs, now)
    match, others = None, []
    for workload in inputs.workloads:
        if match is None and _fits(job, workload):
            match = workload
        elif not (is_terminating(workload) and IN_USE not in (workload["metadata"].get("finalizers") or ())):
            others.append(workload)
    if match is None and others and finished and not is_terminating(others[0]):
        return Ensured(others[0])  # a finished job: its Workload ends with it, even if it no longer matches
    if match is None and others and job.is_suspended() and _rewritable(others[0]):
        return _rewritten(job, others[0], inputs)
    if others:
        steps = [step for workload in others for step in removed(workload)]
        message = (
            "No matching Workload; restoring pod templates according to existent Workload"
            if match is None
            else f"Deleted not matching Workload: {key_of(others[0])}"
        )
        return Ensured(
            steps=tuple(steps),
            event="DeletedWorkload",
            message=message,
            stop_first=match is None and not finished,
            restore_from=others[0] if len(others) == 1 else None,
        )
    if match is not None and not is_terminating(match) and not is_true(match, "Finished"):
        changed = _kept_up(job, match, inputs)
        if changed is not None:
            return changed
    return Ensured(match)


def _fits(job: GenericJob, workload: Obj) -> bool:
    """True if the Workload is the job's and requests what the job needs."""
    owner = controller_of(workload) or {}
    if owner.get("uid") != uid_of(job.obj):
        return False  # the Workload of an earlier job with this name
    if isinstance(job, JobWithCustomWorkload):
        return job.fits(workload)
    return equivalent(
        tuple(job.pod_sets()), max_execution_seconds(job.obj), workload, suspended=job.is_suspended()
    )


def _rewritable(workload: Obj) -> bool:
    return not (
        is_true(workload, "QuotaReserved") or is_true(workload, "Finished") or is_terminating(workload)
    )


def _rewritten(job: GenericJob, workload: Obj, inputs: QueueInputs) -> Ensured:
    owner = controller_of(workload) or {}
    priority = priority_of(job, inputs.workload_classes, inputs.pod_classes)
    if owner.get("uid") != uid_of(job.obj) or isinstance(priority, UnusableClass):
        return Ensured(
            steps=removed(workload), event="DeletedWorkload", message="Deleted not matching Workload"
        )
    rebuilt = build(request_of(job, priority))
    spec = {
        "maximumExecutionTimeSeconds": None,
        "priorityClassRef": None,
        **rebuilt["spec"],
    }
    text = f"Updated not matching Workload for suspended job: {key_of(workload)}"
    return Ensured(steps=(_spec_patch(workload, spec),), event="UpdatedWorkload", message=text)


def removed(workload: Obj) -> tuple[Step, ...]:
    """Deletes the Workload; a later pass removes the finalizer, which holds the quota until then."""
    if not is_terminating(workload):
        return (Delete(WORKLOAD, key_of(workload), uid_of(workload)),)
    patch = finalizer_patch(workload)
    return (patch,) if patch is not None else ()


def _kept_up(job: GenericJob, workload: Obj, inputs: QueueInputs) -> Ensured | None:
    """Updates queue and priority from the job's labels where Kueue allows a change."""
    spec: dict[str, Any] = {}
    if queue_of(job) != workload["spec"].get("queueName") and not is_true(workload, "QuotaReserved"):
        spec["queueName"] = queue_of(job)
    label = workload_class_of(job)
    reference = workload["spec"].get("priorityClassRef") or {}
    if label and reference.get("kind", "WorkloadPriorityClass") == "WorkloadPriorityClass":
        priority = priority_of(job, inputs.workload_classes, inputs.pod_classes)
        # A class cannot be added to a Workload that holds quota, only exchanged.
        allowed = reference or not is_true(workload, "QuotaReserved")
        if isinstance(priority, Priority) and label != reference.get("name") and allowed:
            spec |= {"priorityClassRef": priority.reference, "priority": priority.value}
    if not spec:
        return None
    text = f"Updated workload priority class: {key_of(workload)}" if "priority" in spec else ""
    return Ensured(
        steps=(_spec_patch(workload, spec),), event="UpdatedWorkload" if text else "", message=text
    )


def _spec_patch(workload: Obj, spec: Mapping[str, Any]) -> Patch:
    # The precondition: Kueue may reserve quota meanwhile, and then the spec must stay.
    version = workload["metadata"]["resourceVersion"]
    return Patch(WORKLOAD, key_of(workload), {"metadata": {"resourceVersion": version}, "spec": dict(spec)})


def _prebuilt(job: GenericJob, inputs: QueueInputs, now: datetime) -> Ensured:
    """Uses a Workload that another client has created: taken over if it has no owner, kept if it matches."""
    workload = inputs.prebuilt
    if workload is None:
        return Ensured()
    owner = controller_of(workload)
    if owner is not None and owner["uid"] != uid_of(job.obj):
        return Ensured()
    if owner is None:
        # The precondition: two jobs may claim the Workload at once, and the list of owners is replaced.
        meta = workload["metadata"]
        body = {
            "metadata": {
                "resourceVersion": meta["resourceVersion"],
                "labels": {JOB_UID_LABEL: uid_of(job.obj)},
                "ownerReferences": [
                    *(meta.get("ownerReferences") or ()),
                    owner_reference(job.resource, job.obj),
                ],
            }
        }
        return Ensured(
            steps=(Patch(WORKLOAD, key_of(workload), body),), message="Takes the prebuilt Workload"
        )
    if is_true(workload, "Finished") or _fits(job, workload):
        return Ensured(workload)
    text = "The prebuilt workload is out of sync with its user job"
    patch = finish_patch(workload, OUT_OF_SYNC, text, now)
    return Ensured(steps=(patch,), reason=OUT_OF_SYNC, message=text)
