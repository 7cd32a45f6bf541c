"""The lock of a cluster as a state machine: Requested → Held → (Expiring | Releasing) → none.

A value in `spec.owner` requests the lock. A FournosJob with `lockOnly` then takes all slots of the cluster.
The lock is held once the job's Workload is admitted and has a priority that prevents its preemption. The ttl
counts from `status.ownerSetAt`, which is written before anything is created. A restart of the operator
therefore changes no time.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from fournos.api.fournoscluster import MAX_NAMED, LockState
from fournos.api.kinds import FOURNOS_JOB
from fournos.api.phase import TERMINAL
from fournos.engine.api.values import format_time, parse_ttl
from fournos.engine.kube.resource import Obj, is_terminating, key_of, uid_of
from fournos.engine.queueing.kinds import WORKLOAD, WORKLOAD_PRIORITY_CLASS
from fournos.engine.queueing.workload import QueueState, view
from fournos.engine.runtime.controller import pick
from fournos.engine.runtime.decision import Absent, Create, Delete, LiveGet, Patch, Present
from fournos.systems.clusters import build
from fournos.systems.clusters.quotas import is_lock
from fournos.systems.clusters.status import Context

_ENDING: Final = (LockState.EXPIRING, LockState.RELEASING)


def lock(ctx: Context) -> None:
    """Adds the lock's steps and status to the pass."""
    owner = ctx.spec.owner or ""
    if owner:
        _wanted(ctx, owner)
    else:
        release(ctx)


def _wanted(ctx: Context, owner: str) -> None:
    """Requests or keeps the lock for `owner`, and ends it when its ttl has passed."""
    before = ctx.draft.lock
    # A lock that is being released is over, also for the same owner: the new one has times of its own.
    ending = before is not None and before.state in _ENDING
    if before is None or ending or before.owner != owner or ctx.draft.owner_set_at is None:
        # Written in a pass of its own: ownerSetAt must be stored before the first object is created.
        state = (
            LockState.HELD if before is not None and before.state == LockState.HELD else LockState.REQUESTED
        )
        lock = _with(ctx, state, owner)
        if before is None and ctx.spec.drain and ctx.draft.is_true("Draining"):
            lock["drainedBefore"] = True
        ctx.draft.put(ownerSetAt=format_time(ctx.now), lock=lock)
        ctx.draft.put(locked=state == LockState.HELD)
        _expiry(ctx)
        ctx.draft.event("LockRequested", f"the cluster is to be locked for {owner}")
        if state != LockState.HELD:
            ctx.draft.condition("Locked", "False", "Requested", f"requested for {owner}")
        return
    expires = _expiry(ctx)
    if expires is not None and ctx.now >= expires:
        # The same change as a manual unlock: the cluster takes jobs again, unless it was drained before
        ctx.spec_changes |= {"owner": "", **({} if before.drained_before else {"drain": None})}
        ctx.draft.put(lock=_with(ctx, LockState.EXPIRING, owner))
        ctx.draft.put_condition("Locked", "False", "Expired", f"the ttl of {owner} has passed")
        ctx.draft.put(locked=False)
        return
    ctx.wake(expires)
    _hold(ctx, owner)


def _hold(ctx: Context, owner: str) -> None:
    """Creates the lock's FournosJob, or handles its current state."""
    job = ctx.observed.lock_job
    failure = ctx.facts.failure
    if failure is not None and isinstance(failure.step, Create) and failure.step.resource is FOURNOS_JOB:
        _requested(ctx, owner, "Refused", failure.message)
    elif job is None:
        _make(ctx, owner)
    elif not _is_ours(ctx, job):
        text = f"FournosJob {key_of(job)} has the lock's name and is somebody else's"
        _requested(ctx, owner, "NameTaken", text)
    elif is_terminating(job):
        ctx.retry = True  # in case the watch event of the deletion is lost
        _requested(ctx, owner, "Requested", "the lock before this one is still being released")
    elif (job.get("status") or {}).get("phase") in TERMINAL:
        message = str((job.get("status") or {}).get("message") or "it was stopped")
        ctx.steps.append(Delete(FOURNOS_JOB, key_of(job), uid_of(job)))
        ctx.retry = True
        _requested(ctx, owner, "LockJobEnded", f"the lock's FournosJob ended: {message}")
    else:
        _keep(ctx, owner, job)


def _make(ctx: Context, owner: str) -> None:
    """Creates the priority classes and the lock's FournosJob."""
    # Without a flavor Kueue has no quota to reserve, and the job could never be admitted.
    if ctx.observed.flavor is None:
        _requested(ctx, owner, "Requested", "the cluster has no ResourceFlavor yet")
        return
    # Created before the job, whose priority refers to them.
    for name in build.PRIORITY_CLASSES:
        if name not in ctx.observed.classes:
            body = build.priority_class(name)
            ctx.steps.append(Create(WORKLOAD_PRIORITY_CLASS, body, own_label=build.MANAGED_BY_LABEL))
    job = build.lock_job(ctx.name, owner, namespace=ctx.lock_key.namespace)
    ctx.steps.append(Create(FOURNOS_JOB, job, own_label=build.LOCK_LABEL))
    ctx.draft.put(lockJobName=ctx.lock_key.name)
    _requested(ctx, owner, "Requested", f"requested for {owner}")


def _keep(ctx: Context, owner: str, job: Obj) -> None:
    """Follows the lock's Workload until it is admitted, then raises its priority."""
    ctx.draft.put(lockJobName=ctx.lock_key.name)
    wanted = build.lock_owner(ctx.name, owner)
    if {name: job["spec"].get(name) for name in wanted} != wanted:
        ctx.steps.append(Patch(FOURNOS_JOB, key_of(job), {"spec": wanted}))
    workload = ctx.observed.lock_workload
    if workload is None or view(workload).state is not QueueState.ADMITTED:
        before = ctx.draft.lock
        if before is not None and before.state == LockState.HELD:
            ctx.draft.event("LockLost", "the lock lost its quota and is requested again", warning=True)
        _requested(ctx, owner, "Requested", _behind(ctx, job, workload))
        return
    held = build.held_priority()
    # Declared held only after the priority is written: until then another Workload may preempt it.
    if workload["spec"].get("priority") != held["priority"]:
        version = workload["metadata"]["resourceVersion"]
        body = {"metadata": {"resourceVersion": version}, "spec": held}
        ctx.steps.append(Patch(WORKLOAD, key_of(workload), body))
        _requested(ctx, owner, "Requested", "admitted; being made safe from preemption")
        return
    after = _with(ctx, LockState.HELD, owner)
    if ctx.observed.waiting:
        after["waiting"] = _named(ctx.observed.waiting)
    after.setdefault("heldSince", format_time(ctx.now))
    ctx.draft.put(locked=True, lock=after)
    ctx.draft.put_condition("Locked", "True", "Held", f"held for {owner}")


def _requested(ctx: Context, owner: str, reason: str, message: str) -> None:
    """Sets the state Requested with the given reason."""
    state = _with(ctx, LockState.REQUESTED, owner)
    behind = {"behind": _named(ctx.observed.occupants)} if ctx.observed.occupants else {}
    ctx.draft.put(locked=False, lock=state | behind)
    ctx.draft.condition("Locked", "False", reason, message)


def _behind(ctx: Context, job: Obj, workload: Obj | None) -> str:
    """Returns the message that explains what the lock waits for."""
    if ctx.observed.occupants:
        return f"waits for jobs to end: {', '.join(_named(ctx.observed.occupants))}"
    if workload is None and not (job.get("status") or {}).get("phase"):
        return f"waits for an operator of FournosJobs to queue {key_of(job)}"
    message = view(workload).message if workload is not None else ""
    return f"waits for admission: {message}" if message else "waits for admission"


def release(ctx: Context) -> None:
    """Deletes the lock, if there is one. `status.lock` is removed only after the FournosJob is gone."""
    job, before = ctx.observed.lock_job, ctx.draft.lock
    expires = ctx.draft.lock_expires_at
    # Also true if the state Expiring could not be written before.
    expired = before is not None and (
        before.state == LockState.EXPIRING or (expires is not None and ctx.now >= expires)
    )
    if before is not None and expires is not None and ctx.now >= expires:
        ctx.draft.put_condition("Locked", "False", "Expired", f"the ttl of {before.owner} has passed")
    if before is None and (job is None or not _is_ours(ctx, job)):
        ctx.draft.put(locked=False)
        if ctx.draft.reason_of("Locked") != "Expired":
            ctx.draft.condition("Locked", "False", "NoOwner", "nobody has locked it")
        return
    if job is None:
        # A live read: a job that is missing in the cache may still exist, and would keep its slots.
        answer = ctx.facts.require(LiveGet(FOURNOS_JOB, ctx.lock_key))
        if isinstance(answer, Absent):
            ctx.draft.event("LockReleased", "the cluster is unlocked")
            _released(ctx)
            return
        if not isinstance(answer, Present):
            ctx.retry = True
            return
        job = answer.value
    if not _is_ours(ctx, job):
        _released(ctx)
        return
    if not is_terminating(job):
        # The UID is a precondition: a job that was created since under this name must not be deleted.
        ctx.steps.append(Delete(FOURNOS_JOB, key_of(job), uid_of(job)))
    ctx.retry = True  # in case the watch event of the deletion is lost
    state = LockState.EXPIRING if expired else LockState.RELEASING
    ctx.draft.put(locked=False, lock=_with(ctx, state, before.owner if before is not None else None))
    if not expired:
        ctx.draft.condition("Locked", "False", "Releasing", "the lock is being released")


def _released(ctx: Context) -> None:
    ctx.draft.put(lock=None, lockJobName=None, lockExpiresAt=None, ownerSetAt=None, locked=False)
    if ctx.draft.reason_of("Locked") != "Expired":
        ctx.draft.condition("Locked", "False", "NoOwner", "nobody has locked it")


def _expiry(ctx: Context) -> datetime | None:
    """Returns the time at which the ttl ends, and writes it to the status; None without a valid ttl."""
    since = ctx.draft.owner_set_at
    try:
        length = parse_ttl(ctx.spec.ttl) if ctx.spec.ttl else None
        expires = since + length if since is not None and length is not None else None
    # A value that was stored before its rule existed; the lock has no expiry
    except (ValueError, OverflowError):
        expires = None
    ctx.draft.put(lockExpiresAt=format_time(expires) if expires else None)
    return expires


def _with(ctx: Context, state: LockState, owner: str | None) -> dict[str, Any]:
    """Returns `status.lock` in this state, with what stays of its earlier state."""
    stays = {"drainedBefore": bool(ctx.spec.drain), "heldSince": state is not LockState.REQUESTED}
    kept = pick(ctx.draft.group("lock"), [name for name, applies in stays.items() if applies])
    return {**kept, **({"owner": owner} if owner is not None else {}), "state": str(state)}


def _named(jobs: tuple[str, ...]) -> list[str]:
    return list(jobs[:MAX_NAMED])


def _is_ours(ctx: Context, job: Obj) -> bool:
    return is_lock(job, ctx.name)
