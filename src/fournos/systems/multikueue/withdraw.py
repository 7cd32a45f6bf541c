"""Withdrawal of a Workload from workers.

A run is stopped before it is deleted.  The remote Workload is deactivated, Kueue evicts it, and
its controller stops the job and releases the quota.  Then the job is deleted, then the Workload.
Every deletion has the UID as a precondition.  Only objects with our origin label are deleted,
because the watches select by that label.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from fournos.engine.api.conditions import is_true
from fournos.engine.api.values import parse_time
from fournos.engine.kube.resource import Obj, is_terminating, key_of, uid_of
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.report import finalizer_patch
from fournos.engine.runtime.decision import Absent, Decision, Delete, LiveGet, Patch, Present
from fournos.systems.multikueue import names
from fournos.systems.multikueue.observe import Observed, Remote
from fournos.systems.multikueue.status import Context, holds_quota, since

STOP_GRACE: Final = timedelta(minutes=5)
"""How long an evicted job may take to stop on its worker before it is deleted."""


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """How a withdrawal proceeds."""

    hard: bool = False
    """True: delete at once, without time to stop."""
    final: bool = False
    """True: the state cannot be reversed, so a stale cache cannot be wrong about it."""
    at: str = ""
    """The time from which the grace period counts, as an RFC 3339 text; "": from the eviction there."""


def over(observed: Observed) -> Withdrawal | None:
    """Returns how the objects of this Workload are withdrawn from workers, or None if they may stay."""
    workload = observed.workload
    if workload is None or is_terminating(workload):
        return Withdrawal(hard=True, final=workload is not None)
    if is_true(workload, "Finished"):
        return Withdrawal(hard=True, final=True)
    if is_true(workload, "Evicted"):
        return Withdrawal(at=since(workload, "Evicted"))
    if not is_true(workload, "QuotaReserved"):
        return Withdrawal(at=since(workload, "QuotaReserved"))
    if observed.check is None or workload["spec"].get("active", True) is False:
        return Withdrawal()  # nothing of it tells since when: it may hold its quota for hours
    return None


def withdraw(ctx: Context, withdrawal: Withdrawal) -> Decision:
    """Deletes all objects of the Workload from all workers."""
    for remote in ctx.observed.remotes:
        clear(ctx, remote, withdrawal)
    if ctx.steps and not _certain(ctx, withdrawal) and not _confirmed(ctx):
        return Decision(retry=True)
    if ctx.observed.workload is not None and not is_true(ctx.workload, "Finished"):
        # Kueue does not remove the fields that this adapter has written.
        ctx.draft.claim(None)
    return ctx.gathered()


def _certain(ctx: Context, withdrawal: Withdrawal) -> bool:
    """Returns True if no live read is needed: the end is final, all remote objects are of this Workload."""
    return withdrawal.final and all(
        ctx.is_current(obj)
        for remote in ctx.observed.remotes
        for obj in (remote.workload, *(job for _, job in remote.jobs))
        if obj is not None
    )


def _confirmed(ctx: Context) -> bool:
    """Confirms the withdrawal by a live read of the Workload: a stale cache must not cause a deletion."""
    answer = ctx.facts.require(LiveGet(WORKLOAD, ctx.observed.key))
    if isinstance(answer, Absent) and not answer.no_kind:
        return ctx.observed.workload is None
    if not isinstance(answer, Present) or ctx.observed.workload is None:
        return False
    same = uid_of(answer.value) == uid_of(ctx.workload)
    return same and over(replace(ctx.observed, workload=answer.value)) is not None


def clear(ctx: Context, remote: Remote, withdrawal: Withdrawal) -> None:
    """Sends the next step that removes the Workload's objects from this worker, if one is possible now."""
    if remote.empty or not remote.usable or remote.busy:
        return
    if not withdrawal.hard and not _stopped(ctx, remote, withdrawal):
        return
    # The job is deleted before its Workload, so that the quota is held as long as the job may run.
    for kind, job in remote.jobs:
        if not is_terminating(job):
            ctx.send(remote, Delete(kind, key_of(job), uid_of(job)))
    if remote.jobs or remote.workload is None:
        return
    if not is_terminating(remote.workload):
        ctx.send(remote, Delete(WORKLOAD, key_of(remote.workload), uid_of(remote.workload)))
    elif (patch := finalizer_patch(remote.workload)) is not None:
        ctx.send(remote, patch)


def _stopped(ctx: Context, remote: Remote, withdrawal: Withdrawal) -> bool:
    """Returns True if nothing of the Workload holds quota on this worker; otherwise requests a stop."""
    workload = remote.workload
    if ctx.draft.cluster_name in ("", remote.name):
        ctx.copy_status(_last(ctx, remote))
    if workload is None or not remote.jobs or not holds_quota(workload):
        return True
    begun = withdrawal.at or (since(workload, "Evicted") if is_true(workload, "Evicted") else "")
    if begun:
        due = parse_time(begun) + STOP_GRACE
        if due <= ctx.now:
            return True
        ctx.wake(due)
    if workload["spec"].get("active", True) is not False and not is_terminating(workload):
        version = workload["metadata"]["resourceVersion"]
        body = {"metadata": {"resourceVersion": version}, "spec": {"active": False}}
        ctx.send(remote, Patch(WORKLOAD, key_of(workload), body))
    return False


def _last(ctx: Context, remote: Remote) -> Obj | None:
    """Returns the job's copy of any attempt: the status of how it stopped is kept until the next run."""
    if ctx.observed.job is None:
        return None
    own = uid_of(ctx.observed.job)
    found = (job for _, job in remote.jobs)
    return next(
        (job for job in found if (job["metadata"].get("annotations") or {}).get(names.JOB_UID) == own), None
    )
