"""Decides what the recorder writes: what has changed since the last record, and the end of a job at once.

An object that shows the same as its record is not written again.  The end of a FournosJob is committed with
its documents before `status.archivedAt` is patched: the job may be deleted from that moment on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.api.conditions import condition
from fournos.engine.api.values import format_time
from fournos.engine.kube.resource import key_of, uid_of
from fournos.engine.runtime.context import holds
from fournos.engine.runtime.decision import Decision, Facts, Patch, Step
from fournos.history.fingerprint import fingerprint_of
from fournos.history.recorder.documents import documents_of, quota_of, results_of
from fournos.history.recorder.observe import GoneObject, NotReady, Observed, ObservedObject, Sweep
from fournos.history.recorder.record import deleted, digest_of, object_state, run_of
from fournos.history.recorder.steps import (
    Compare,
    Forget,
    Load,
    LoadOpen,
    Remember,
    StoredRun,
    StoreLogs,
    Write,
)
from fournos.history.records import Record, Run
from fournos.history.results.read import ResultFile
from fournos.insight.values import status_of
from fournos.systems.jobs.names import FINALIZER, RERUNS_CREATED

INTERVAL: Final = timedelta(seconds=2)
"""A change of phase is written so long after the record before; the end of a run at once."""
DETAILS: Final = timedelta(seconds=30)
"""Other changes are written after so long, or with the next phase."""
LOG_DEADLINE: Final = timedelta(minutes=5)
"""How long `status.archivedAt` waits for the logs of an ended job at most."""
CLOSED_AT_ONCE: Final = 100
"""The maximum number of runs that one sweep closes; the next sweep follows at once."""


def decide(observed: Observed, facts: Facts, now: datetime) -> Decision:
    """Returns the writes to the history that a key needs.  Pure: see `fournos.engine.runtime.decision`."""
    if facts.failure is not None:
        return Decision(retry=True)
    if isinstance(observed, NotReady):
        load = LoadOpen(observed.cluster, observed.resource.kind)
        return Decision((load,)) if observed.cluster else Decision(retry=True)
    closed = tuple(_close(run, now) for run in observed.gone[:CLOSED_AT_ONCE])
    if isinstance(observed, GoneObject | Sweep):
        return Decision(closed)
    over = status_of(observed.obj).get("archivedAt")
    if over and observed.stored is None:
        return Decision(closed)  # an earlier process has recorded the end
    if not observed.looked_up and object_state(observed.resource, observed.obj).ended_at is not None:
        return Decision((*closed, Load(observed.identity)))  # a run that has ended is not open
    decision = _record(observed, now)
    readable = () if over else tuple(one.log for one in observed.unstored if one.readable)
    logs = (StoreLogs(observed.key, observed.identity, readable),) if readable else ()
    # After the record: logs belong to a row.
    return replace(
        decision,
        steps=(*closed, *decision.steps, *logs),
        wake_at=_earliest(decision.wake_at, _hand_over_at(observed, now)),
    )


def _hand_over_at(observed: ObservedObject, now: datetime) -> datetime | None:
    """Returns until when `status.archivedAt` waits for the logs of an ended job; None if it does not wait."""
    if not observed.unstored or status_of(observed.obj).get("archivedAt"):
        return None
    ended = object_state(observed.resource, observed.obj).ended_at
    if ended is None or not now - LOG_DEADLINE < ended <= now + LOG_DEADLINE:
        return None  # past, or an end far in the future, which no clock has written
    return ended + LOG_DEADLINE


def _earliest(*times: datetime | None) -> datetime | None:
    return min((one for one in times if one is not None), default=None)


def _close(stored: StoredRun, now: datetime) -> Step:
    """Returns the write that closes the run of an object that does not exist any more."""
    if not stored.open:
        return Forget(stored.run.identity)
    return Write(Record(deleted(stored.run, now)), b"", gone=True)


def _record(observed: ObservedObject, now: datetime) -> Decision:
    stored, state = observed.stored, object_state(observed.resource, observed.obj)
    patch = _archived(observed, now) if state.ended_at is not None else ()
    first_end = state.ended_at is not None and (stored is None or stored.open)
    if stored is not None and stored.digest and not first_end:
        if observed.versions == stored.versions:
            return Decision(patch)
        pause = INTERVAL if state.phase != stored.run.phase else DETAILS
        due = stored.run.observed_at + pause
        if stored.run.observed_at <= now < due:  # a clock that was set back must not delay the next record
            return Decision((*_quota(observed, stored), *patch), wake_at=due, settled=True)
    what = fingerprint_of(observed.obj, observed.target) if observed.resource == FOURNOS_JOB else None
    returned = results_of(observed) if state.ended_at is not None else ResultFile()
    documents = documents_of(observed, what, returned.problems)
    record = Record(run_of(observed, now, what), documents, returned.tests)
    digest = digest_of(record)
    if stored is not None and _same(stored, record.run, digest):
        return Decision(patch)
    return Decision((Write(record, digest, observed.versions), *patch), settled=True)


def _same(stored: StoredRun, run: Run, digest: bytes) -> bool:
    """True if the record shows the same as what is stored.

    Of a run that an earlier process recorded to its end only the row is compared.
    """
    if stored.digest or stored.open:
        return stored.digest == digest
    then = stored.run
    return replace(run, observed_at=then.observed_at, resource_version=then.resource_version) == then


def _quota(observed: ObservedObject, stored: StoredRun) -> tuple[Step, ...]:
    """Keeps a quota in memory until the next record: its Workload may be gone then."""
    quota: Mapping[str, object] = quota_of(observed)
    return () if quota == stored.quota else (Remember(observed.identity, quota),)


def _archived(observed: ObservedObject, now: datetime) -> tuple[Step, ...]:
    """Returns the patch that lets the operator delete the job; only this version of it is recorded.

    It waits for the logs, as the deletion takes the pods away.  The results of a job that is worth reruns are
    compared first: the verdict is in the same patch.
    """
    obj = observed.obj
    if observed.resource != FOURNOS_JOB or status_of(obj).get("archivedAt") or observed.deleting:
        return ()
    # The operator takes it off right after the end: one of the two writes would meet a conflict.
    if holds(obj, FINALIZER) or _hand_over_at(observed, now) is not None:
        return ()
    meta = {"uid": uid_of(obj), "resourceVersion": obj["metadata"]["resourceVersion"]}
    status = {"archivedAt": format_time(now)}
    if (condition(obj, RERUNS_CREATED) or {}).get("status") == "Unknown":
        if observed.suspected is None:
            return (Compare(observed.identity),)
        status |= {"suspectedAt": format_time(now)} if observed.suspected else {}
    body = {"metadata": meta, "status": status}
    return (Patch(FOURNOS_JOB, key_of(obj), body, subresource="status"),)
