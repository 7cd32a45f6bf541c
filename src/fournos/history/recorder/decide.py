"""Decides what the recorder writes: what has changed since the last record, and the end of a job at once.

An object that shows the same as its record is not written again.  The end of a FournosJob is committed with
its documents before `status.archivedAt` is patched: the job may be deleted from that moment on.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from fournos.api.kinds import FOURNOS_JOB
from fournos.api.phase import RUNS, Cause
from fournos.engine.api.conditions import condition
from fournos.engine.api.values import format_time
from fournos.engine.kube.resource import key_of, uid_of
from fournos.engine.runtime.context import holds
from fournos.engine.runtime.decision import Decision, Facts, Patch, Step
from fournos.history.fingerprint import fingerprint_of
from fournos.history.recorder import archive
from fournos.history.recorder.context import Gap, GoneObject, NotReady, Observed, ObservedObject, Sweep
from fournos.history.recorder.documents import documents_of, quota_of, results_of
from fournos.history.recorder.journal import StoredRun
from fournos.history.recorder.ledger import (
    NOT_OBSERVED,
    Observation,
    WaitReason,
    Waits,
    advance,
    close,
    observe,
    reason_of,
)
from fournos.history.recorder.record import Life, deleted, digest_of, life_of, object_state, run_of
from fournos.history.records import Record, Run
from fournos.history.results.read import ResultFile
from fournos.history.settings import HistorySettings
from fournos.insight.queue_reasons import Words, in_queue
from fournos.insight.reasons import explain
from fournos.insight.values import status_of
from fournos.systems.jobs.names import FINALIZER, RERUNS_CREATED

DETAILS = 15
"""Other changes than those of the phase are written after this many intervals, or with the next phase."""
CLOSED_AT_ONCE = 100
"""The maximum number of runs that one sweep closes; the next sweep follows at once."""


def decide(observed: Observed, facts: Facts, now: datetime, *, settings: HistorySettings) -> Decision:
    """Returns the writes to the history that a key needs.  Pure: see `fournos.engine.runtime.decision`."""
    if facts.failure is not None:
        return Decision(retry=True)
    if isinstance(observed, NotReady):
        load = archive.LoadOpen(observed.cluster, observed.resource.kind)
        return Decision((load,)) if observed.cluster else Decision(retry=True)
    closed = tuple(step for run in observed.gone[:CLOSED_AT_ONCE] for step in _close(run, observed.down, now))
    if isinstance(observed, GoneObject):
        return Decision(closed)
    if isinstance(observed, Sweep):
        return Decision((*closed, *(_sign_of_life(observed.quiet, now) if observed.quiet else ())))
    if not observed.looked_up and _may_be_recorded(observed):
        return Decision((*closed, archive.Load(observed.identity)))
    decision = _record(observed, now, settings)
    if not closed and observed.resource != FOURNOS_JOB:
        return decision
    unstored = () if status_of(observed.obj).get("archivedAt") else observed.unstored
    readable = tuple(one.log for one in unstored if one.readable)
    logs = (archive.StoreLogs(observed.key, observed.identity, readable),) if readable else ()
    # After the record: logs belong to a row.
    return replace(
        decision,
        steps=(*closed, *decision.steps, *logs),
        wake_at=_earliest(decision.wake_at, _hand_over_at(observed, now, settings)),
    )


def _hand_over_at(observed: ObservedObject, now: datetime, settings: HistorySettings) -> datetime | None:
    """Returns until when `status.archivedAt` waits for the logs of an ended job; None if it does not wait."""
    if not observed.unstored or status_of(observed.obj).get("archivedAt"):
        return None
    ended = object_state(observed.resource, observed.obj).ended_at
    deadline = now if ended is None else ended + timedelta(seconds=settings.log_deadline_sec)
    return deadline if now < deadline else None


def _earliest(*times: datetime | None) -> datetime | None:
    return min((one for one in times if one is not None), default=None)


def _may_be_recorded(observed: ObservedObject) -> bool:
    """True for an object that an earlier process may have recorded to its end: such a run is not open."""
    return object_state(observed.resource, observed.obj).ended_at is not None


def _sign_of_life(stored: StoredRun, now: datetime) -> tuple[Step, ...]:
    """Writes an open run again, so that its time of observation shows how long this process ran."""
    run = replace(stored.run, observed_at=now)
    return (archive.Write(Record(run, stored.waits), stored.digest),)


def _close(stored: StoredRun, gap: Gap | None, now: datetime) -> tuple[Step, ...]:
    """Returns the write that closes the run of an object that does not exist any more."""
    if not stored.open:
        return (archive.Forget(stored.run.identity),)
    down = gap if stored.resumed else None
    run = deleted(stored.run, now, gap=down)
    waits = stored.waits
    if run.started_at is None:
        if down is not None:
            reason = WaitReason(Cause.UNKNOWN, f"{NOT_OBSERVED}; the object was deleted then.")
            waits = observe(waits, reason, down[0], begin=run.submitted_at)
        waits = close(waits, run.ended_at or now)
    else:
        waits = observe(waits, None, now, begin=now)
    return (archive.Write(Record(run, waits), b"", gone=True),)


def _record(observed: ObservedObject, now: datetime, settings: HistorySettings) -> Decision:
    stored, life = observed.stored, life_of(observed)
    waits = _waits(observed, life, now)
    patch = _archived(observed, now, settings) if life.ended_at is not None else ()
    first_end = life.ended_at is not None and (stored is None or stored.open)
    if stored is not None and stored.digest and not first_end:
        if observed.versions == stored.versions and waits == stored.waits:
            return Decision(patch)
        pause = settings.interval_sec * (1 if life.phase != stored.run.phase else DETAILS)
        due = stored.run.observed_at + timedelta(seconds=pause)
        if stored.run.observed_at <= now < due:  # a clock that was set back must not delay the next record
            return _later(observed, stored, waits, patch, due)
    what = fingerprint_of(observed.obj, observed.target) if observed.resource == FOURNOS_JOB else None
    returned = results_of(observed) if life.ended_at is not None else ResultFile()
    documents = documents_of(observed, what, returned.problems)
    record = Record(run_of(observed, now, what), waits, documents, returned.tests)
    digest = digest_of(record)
    if stored is not None and _same(stored, record.run, digest) and waits == stored.waits:
        return Decision(patch)
    return Decision((archive.Write(record, digest, observed.versions), *patch), settled=True)


def _same(stored: StoredRun, run: Run, digest: bytes) -> bool:
    """True if the record shows the same as what is stored.

    Of a run that an earlier process recorded to its end only the row is compared.
    """
    if stored.digest:
        return stored.digest == digest
    if stored.open:
        return False
    then = stored.run
    return replace(run, observed_at=then.observed_at, resource_version=then.resource_version) == then


def _later(
    observed: ObservedObject, stored: StoredRun, waits: Waits, patch: tuple[Step, ...], due: datetime
) -> Decision:
    """Delays the record until `due`.  Keeps ledger and quota in memory: their sources may be gone then."""
    quota = quota_of(observed)
    same = waits == stored.waits and quota == stored.quota
    steps = () if same else (archive.Remember(observed.identity, waits, quota),)
    return Decision((*steps, *patch), wake_at=due, settled=True)


def _waits(observed: ObservedObject, life: Life, now: datetime) -> Waits:
    """Returns the waiting ledger with the reason that is observed now."""
    stored = observed.stored
    observation = Observation(
        now,
        life.submitted_at,
        _reason(observed, life, now),
        life.waited_until,
        life.ended_at,
        observed.gap,
        status_of(observed.obj).get("phaseTimes") or {},
    )
    ran_before = stored is not None and (stored.run.started_at is not None or not stored.open)
    return advance(stored.waits if stored else (), observation, ran_before=ran_before)


_NO_ADVICE = Words(unqueued=(), uncovered="", impossible="")


def _reason(observed: ObservedObject, life: Life, now: datetime) -> WaitReason | None:
    if observed.facts is None or (life.started_at is not None and life.phase in RUNS):
        return None
    if observed.resource == FOURNOS_JOB:
        return reason_of(explain(observed.facts, now))
    return reason_of(in_queue(observed.obj, observed.facts.workload, observed.facts, _NO_ADVICE))


def _archived(observed: ObservedObject, now: datetime, settings: HistorySettings) -> tuple[Step, ...]:
    """Returns the patch that lets the operator delete the job; only this version of it is recorded.

    It waits for the logs, as the deletion takes the pods away.  The results of a job that is worth reruns are
    compared first: the verdict is in the same patch.
    """
    obj = observed.obj
    if observed.resource != FOURNOS_JOB or status_of(obj).get("archivedAt") or observed.deleting:
        return ()
    # The operator takes it off right after the end: one of the two writes would meet a conflict.
    if holds(obj, FINALIZER) or _hand_over_at(observed, now, settings) is not None:
        return ()
    meta = {"uid": uid_of(obj), "resourceVersion": obj["metadata"]["resourceVersion"]}
    status = {"archivedAt": format_time(now)}
    if (condition(obj, RERUNS_CREATED) or {}).get("status") == "Unknown":
        if observed.suspected is None:
            return (archive.Compare(observed.identity),)
        status |= {"suspectedAt": format_time(now)} if observed.suspected else {}
    body = {"metadata": meta, "status": status}
    return (Patch(FOURNOS_JOB, key_of(obj), body, subresource="status"),)
