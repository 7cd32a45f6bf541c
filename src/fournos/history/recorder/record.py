"""The record of an object: its row, from the object and its dependents.  Pure."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import orjson

from fournos.api.fournosjob import DEFAULT_PIPELINE
from fournos.api.kinds import FOURNOS_JOB
from fournos.api.phase import CAUSE_OF_REASON, TERMINAL, Cause, run_times
from fournos.engine.api.conditions import condition, is_true
from fournos.engine.api.values import creation_time
from fournos.engine.kube.resource import Obj, Resource, uid_of
from fournos.engine.kube.store import version_of
from fournos.engine.queueing.workload import named_reason
from fournos.history.fingerprint import Fingerprint
from fournos.history.recorder.documents import flavors_of
from fournos.history.recorder.observe import ObservedObject
from fournos.history.records import Ending, Identity, Record, Run
from fournos.insight.children import started_at
from fournos.insight.failure import failure
from fournos.insight.values import maps_in, moment, name_of, one_line, phase_of, spec_of, status_of
from fournos.systems.jobs.metrics import cause_of


@dataclass(frozen=True, slots=True)
class ObjectState:
    """The state of an object of any kind, as far as its status shows it."""

    phase: str
    message: str = ""
    ended_at: datetime | None = None
    """When it ended; None while it has not."""
    started_at: datetime | None = None


_ENDS: Final = {
    "Succeeded": {"True": "Succeeded", "False": "Failed"},
    "Complete": {"True": "Succeeded"},
    "Completed": {"True": "Succeeded"},
    "Finished": {"True": "Finished"},
    "JobFinished": {"True": "Finished"},
    "Failed": {"True": "Failed"},
}
"""Condition → status → phase: the ways in which kinds show their end (Tekton, batch, Kubeflow, Flux)."""
_ENDED_PHASES: Final = TERMINAL | {"Finished", "Completed"}
_FINISHED: Final = ("finishedAt", "completionTime", "endTime")


def state_of(obj: Obj) -> ObjectState:
    """Returns the state of an object that is not a FournosJob."""
    status = status_of(obj)
    started = moment(status.get("startedAt") or status.get("startTime") or _deployed(obj))
    phase, message = str(status.get("phase") or ""), one_line(status.get("message"))
    finished = next((at for name in _FINISHED if (at := moment(status.get(name)))), None)
    for type_, meanings in _ENDS.items():
        present = condition(obj, type_) or {}
        meaning = meanings.get(str(present.get("status")))
        if meaning:
            at = finished or moment(present.get("lastTransitionTime"))
            return ObjectState(phase or meaning, message or one_line(present.get("message")), at, started)
    if phase in _ENDED_PHASES:
        return ObjectState(phase, message, finished or _last_transition(obj), started)
    held = "Suspended" if spec_of(obj).get("suspend") else ("Running" if started else "New")
    return ObjectState(phase or held, message, None, started)


def _deployed(obj: Obj) -> object:
    """Returns when the resources of an AppWrapper existed: from then on it runs, and waits for nothing."""
    found = condition(obj, "ResourcesDeployed") or {}
    return found.get("lastTransitionTime") if found.get("status") == "True" else None


def _last_transition(obj: Obj) -> datetime | None:
    """Returns the last transition of any condition, for kinds that have no time of their end."""
    moments = [moment(one.get("lastTransitionTime")) for one in maps_in(status_of(obj).get("conditions"))]
    return max(filter(None, moments), default=moment(obj["metadata"].get("creationTimestamp")))


def object_state(resource: Resource, obj: Obj) -> ObjectState:
    """Returns phase and end of the object; a FournosJob has more exact fields than other kinds."""
    if resource != FOURNOS_JOB:
        return state_of(obj)
    phase, times = phase_of(obj), status_of(obj).get("phaseTimes") or {}
    ended = None
    if phase in TERMINAL:
        ended = moment(times.get("finished")) or creation_time(obj)
    return ObjectState(phase, one_line(status_of(obj).get("message")), ended)


def _started(observed: ObservedObject, state: ObjectState) -> datetime | None:
    """Returns the first start, which later attempts overwrite in the object."""
    if observed.stored is not None and observed.stored.run.started_at is not None:
        return observed.stored.run.started_at
    if observed.resource != FOURNOS_JOB:
        return state.started_at
    return _not_before(_start(observed), creation_time(observed.obj))


def waits_for(observed: ObservedObject) -> tuple[str, str] | None:
    """Returns the cause and the text of what the object waits for by its status; None if it does not wait."""
    if observed.resource == FOURNOS_JOB:
        cause = cause_of(observed.obj)
        return (str(cause), one_line(status_of(observed.obj).get("message"))) if cause else None
    quota = condition(observed.workload or {}, "QuotaReserved") or {}
    if quota.get("status") != "False" or is_true(observed.workload or {}, "Finished"):
        return None
    text = one_line(quota.get("message"))
    reason = named_reason(str(quota.get("reason") or ""), text)
    return CAUSE_OF_REASON.get(reason, Cause.QUOTA).value, text


def _start(observed: ObservedObject) -> datetime | None:
    """Returns the first start of a container; a lock holds its cluster from its admission on."""
    job = observed.obj
    return _held_since(job) if spec_of(job).get("lockOnly") else started_at(observed.children)


def _held_since(lock: Obj) -> datetime | None:
    """Returns when a job that only holds a cluster got it; it never runs."""
    return moment((status_of(lock).get("phaseTimes") or {}).get("admitted"))


def run_of(observed: ObservedObject, now: datetime, what: Fingerprint | None) -> Run:
    """Returns the row of an object that exists.  Times that were observed before are kept.

    `what`: the fingerprint of a FournosJob; None for other kinds.
    """
    obj = observed.obj
    state = object_state(observed.resource, obj)
    spec, meta = spec_of(obj), obj["metadata"]
    before = observed.stored.run if observed.stored else None
    cause, text = waits_for(observed) or ((before.waited_for, before.waited_for_text) if before else ("", ""))
    row = Run(
        identity=Identity(observed.cluster, meta["namespace"], uid_of(obj)),
        kind=observed.resource.kind,
        name=name_of(obj),
        namespace_uid=observed.namespace_uid,
        submitted_at=creation_time(obj),
        observed_at=now,
        resource_version=version_of(obj),
        phase=state.phase,
        message=state.message,
        owner=str(spec.get("owner") or ""),
        target=str(status_of(obj).get("cluster") or ""),
        started_at=_started(observed, state),
        ended_at=state.ended_at,
        ending=Ending.OBSERVED if state.ended_at is not None else Ending.OPEN,
        labels=dict(meta.get("labels") or {}),
        waited_for=cause,
        waited_for_text=text,
    )
    return _of_job(row, observed, what) if what is not None else _of_queued(row, observed)


def _first(observed: ObservedObject, name: str, now: datetime | None) -> datetime | None:
    """Returns the recorded time of this name, else the present one: later attempts overwrite the latter."""
    before: datetime | None = getattr(observed.stored.run, name) if observed.stored else None
    return before or now


def _of_job(row: Run, observed: ObservedObject, what: Fingerprint) -> Run:
    obj = observed.obj
    spec, status = spec_of(obj), status_of(obj)
    times = status.get("phaseTimes") or {}
    failed = row.phase == "Failed"
    return replace(
        row,
        display_name=str(status.get("displayName") or spec.get("displayName") or row.name),
        pipeline="" if spec.get("lockOnly") else str(spec.get("pipeline") or DEFAULT_PIPELINE),
        project=what.project,
        gpu_type=what.gpu_type,
        gpu_count=_held_gpus(observed) if spec.get("lockOnly") else what.gpu_count,
        attempts=int(status.get("attempt") or 0),
        queued_at=_first(observed, "queued_at", moment(times.get("pending"))),
        admitted_at=_first(observed, "admitted_at", moment(times.get("admitted"))),
        running_at=_held_since(obj) if spec.get("lockOnly") else moment(run_times(obj)[0]),
        fingerprint="" if spec.get("lockOnly") else what.id,
        failure=failure(obj, observed.children).category.value if failed else "",
    )


def _held_gpus(observed: ObservedObject) -> int:
    """Returns the GPUs of the cluster that a lock holds, as first recorded; 0 if nobody counts them."""
    if observed.stored and observed.stored.run.gpu_count:
        return observed.stored.run.gpu_count
    target = observed.target or {}
    hardware = status_of(target).get("hardware") or spec_of(target).get("hardware") or {}
    return int(hardware.get("totalGPUs") or 0)


def _of_queued(row: Run, observed: ObservedObject) -> Run:
    """Adds the times of the Workload to the row of a kind other than FournosJob."""
    workload = observed.workload
    if workload is None:
        queued, admitted = None, None
    else:
        queued = creation_time(workload)
        admission = condition(workload, "Admitted") or {}
        admitted = moment(admission.get("lastTransitionTime")) if admission.get("status") == "True" else None
    return replace(
        row,
        queued_at=_first(observed, "queued_at", queued),
        admitted_at=_first(observed, "admitted_at", admitted),
        target=row.target or (", ".join(sorted(flavors_of(workload))) if workload is not None else ""),
    )


def _not_before(at: datetime | None, begin: datetime) -> datetime | None:
    """Times of a node's clock can precede the submission; a negative wait would be nonsense."""
    return None if at is None else max(at, begin)


def deleted(run: Run, now: datetime) -> Run:
    """Returns the row of a run whose object is gone, closed from what is known."""
    text = f"Deleted in phase {run.phase or 'New'}"
    message = f"{text}: {run.message}" if run.message else text
    end = max(now, run.submitted_at)
    return replace(run, ended_at=end, observed_at=now, ending=Ending.DELETED, message=message)


def digest_of(record: Record) -> bytes:
    """Returns a digest of what the record shows, without the times and versions of the observation.

    A cause's text changes with each move of the queue: it is written with the next other change."""
    row = (
        *(getattr(record.run, name) for name in _SHOWN),
        sorted(record.run.labels.items()),
    )
    body = {name.value: record.documents[name] for name in sorted(record.documents)}
    results = [(one.slot, one.content_key) for one in record.results]
    hashed = hashlib.blake2b(orjson.dumps([row, body, results], default=str), digest_size=16)
    return hashed.digest()


_SHOWN = tuple(
    name
    for name in Run.__dataclass_fields__
    if name not in ("identity", "observed_at", "resource_version", "labels", "waited_for_text")
)
