"""Builders of the objects on a worker, as pure functions.

Only name, namespace, labels, annotations and spec are copied.  An ownerReference would name an owner that
does not exist on the worker, whose garbage collector would delete the copy.  A finalizer would wait for a
controller that does not run there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fournos.engine.kube.resource import Obj, Resource, uid_of
from fournos.engine.queueing.ensure import MAX_EXECUTION_LABEL
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.workload import JOB_UID_LABEL
from fournos.systems.multikueue import names
from fournos.systems.multikueue.config import held_back

_STAYS = ("kubectl.kubernetes.io/last-applied-configuration",)
_CONFIRMS = "fournos.dev/confirms"
"""Label of a rerun: the UID of a job of the manager cluster, where its results count, not on the worker."""
_RECORDED = ("archivedAt", "suspectedAt")
"""Fields of a FournosJob's status that the recorder of a history writes: each cluster has its own."""
_EXPIRES = ("ttlSecondsAfterFinished", "ttlStrategy")
"""Fields by which a job deletes itself after its end.  On a worker it stays until its end is known here."""
_EXPIRES_OF = {"fournos.dev": ("ttl",), "flux-framework.org": ("cleanup",)}
"""The same of kinds of these API groups alone: elsewhere the names may mean anything."""
_POLICY_EXPIRES = "ttlSecondsAfterFinished"
"""The same in `spec.runPolicy`, as the kinds of Kubeflow have it."""
_HELD = ("fournos.dev/held", "queue")
"""Annotation of a copy that the queue holds back.

It is for kinds whose users hold a job in the same field: the queue may release this hold.
"""


def remote_workload(workload: Obj, *, worker: str, origin: str, attempt: str) -> Obj:
    """Returns the copy of a Workload for a worker.

    The copy is active, even if the Workload has been deactivated in the meantime.  Its time is limited by the
    manager cluster alone: a worker that stops it first would look like one that has evicted it.
    """
    meta = workload["metadata"]
    labels = {name: value for name, value in (meta.get("labels") or {}).items() if name != JOB_UID_LABEL}
    here = ("active", "maximumExecutionTimeSeconds")
    own = {name: value for name, value in workload["spec"].items() if name not in here}
    spec = {"priority": 0, **own}  # without one, Kueue's visibility API would fail for the whole queue
    return {
        "apiVersion": WORKLOAD.api_version,
        "kind": WORKLOAD.kind,
        "metadata": {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "labels": {**labels, names.ORIGIN_LABEL: origin},
            "annotations": {
                **_annotations(meta),
                names.WORKER: worker,
                names.WORKLOAD_UID: uid_of(workload),
                names.ATTEMPT: attempt,
            },
        },
        "spec": spec,
    }


def mirror(job: Obj, kind: Resource, *, workload: str, worker: str, origin: str, attempt: str) -> Obj:
    """Returns the copy of a job for a worker: bound to the Workload there, without managedBy and expiry."""
    meta, left_out = job["metadata"], ("managedBy", *_EXPIRES, *_EXPIRES_OF.get(kind.group, ()))
    spec: dict[str, Any] = {
        name: value for name, value in (job.get("spec") or {}).items() if name not in left_out
    }
    if isinstance(policy := spec.get("runPolicy"), Mapping):
        spec["runPolicy"] = {name: value for name, value in policy.items() if name != _POLICY_EXPIRES}
    hold = held_back(kind, spec)
    here = (_CONFIRMS, MAX_EXECUTION_LABEL)
    labels = {name: value for name, value in (meta.get("labels") or {}).items() if name not in here}
    held = dict([_HELD]) if any(spec.get(field) != value for field, value in hold.items()) else {}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "labels": {**labels, names.PREBUILT: workload, names.ORIGIN_LABEL: origin},
            "annotations": {
                **_annotations(meta),
                **held,
                names.PREBUILT: workload,
                names.WORKER: worker,
                names.JOB_UID: uid_of(job),
                names.ATTEMPT: attempt,
            },
        },
        "spec": {**spec, **hold},
    }


def _annotations(meta: Mapping[str, Any]) -> dict[str, str]:
    return {name: value for name, value in (meta.get("annotations") or {}).items() if name not in _STAYS}


def mirrored_status(job: Obj, remote: Obj) -> dict[str, Any]:
    """Returns the status to write to the manager cluster's object: the worker's, with local values kept.

    Each API server counts generations separately: an observedGeneration that is current on the worker is
    replaced by the current generation here.  Conditions with a qualified type (`example.com/Audited`) that
    the worker does not have are kept, and so is what the history of this cluster writes.
    """
    status = {name: value for name, value in (remote.get("status") or {}).items() if name not in _RECORDED}
    status |= {name: value for name, value in (job.get("status") or {}).items() if name in _RECORDED}
    generation, current = remote["metadata"].get("generation"), job["metadata"].get("generation")

    def translated(part: Mapping[str, Any]) -> dict[str, Any]:
        if "observedGeneration" not in part:
            return dict(part)
        rest = {name: value for name, value in part.items() if name != "observedGeneration"}
        return {**rest, "observedGeneration": current} if part["observedGeneration"] == generation else rest

    status = translated(status)
    conditions = [translated(condition) for condition in status.get("conditions") or ()]
    types = {condition.get("type") for condition in conditions}
    conditions += [
        condition
        for condition in (job.get("status") or {}).get("conditions") or ()
        if "/" in str(condition.get("type")) and condition["type"] not in types
    ]
    if conditions:
        status["conditions"] = conditions
    return status
