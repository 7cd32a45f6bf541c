"""Follows the job's copy on the winning worker and copies its status to the manager cluster."""

from __future__ import annotations

from datetime import timedelta

from fournos.engine.api.conditions import condition, is_true
from fournos.engine.api.values import parse_time
from fournos.engine.kube.resource import Obj, key_of
from fournos.engine.runtime.decision import Decision
from fournos.systems.multikueue.build import mirror
from fournos.systems.multikueue.context import Context, Remote, since
from fournos.systems.multikueue.kinds import has_ended
from fournos.systems.multikueue.nominate import keep_priority, runs
from fournos.systems.multikueue.withdraw import Withdrawal, clear
from fournos.systems.multikueue.workers import Read, create

_STATUS_DELAY = timedelta(seconds=30)
"""The maximum delay between the end of the remote Workload and the end in the copy's status."""


def follow(ctx: Context) -> Decision:
    """Returns the next steps of a Workload with a winner.

    Clears the other workers, creates the job's copy, and copies its status.  A lost or refusing worker
    returns the job to the queue.
    """
    # Only one worker may run the job, so the other workers are cleared first.
    name = ctx.draft.cluster_name
    remote = next((one for one in ctx.observed.remotes if one.name == name), None)
    for other in ctx.observed.remotes:
        if other is not remote:
            clear(ctx, other, Withdrawal(hard=True))
    if remote is None or not remote.listed:
        return _again(ctx, f'"{name}" is not among the workers any more')
    if not remote.usable:
        return _lost(ctx, remote)
    twin = ctx.current(remote)
    if twin is None:
        return ctx.gathered() if remote.busy else _again(ctx, f'its Workload on "{name}" is gone')
    if is_true(twin, "Finished"):
        return _finished(ctx, remote, twin)
    if not runs(twin):
        ctx.copy_status(ctx.mirror(remote))
        evicted = condition(twin, "Evicted") or {}
        return _again(ctx, f'"{name}" has evicted it: {evicted.get("message") or "not admitted any more"}')
    keep_priority(ctx, remote, twin)
    return _running(ctx, remote)


def _running(ctx: Context, remote: Remote) -> Decision:
    kind, job = ctx.observed.kind, ctx.observed.job
    assert kind is not None and job is not None
    if ctx.mirror(remote) is None:
        if remote.failure is not None and ctx.refused(remote):
            return _again(ctx, f'"{remote.name}" does not take it: {remote.failure.message}')
        if not remote.busy:
            # Claim before make: the status already names the winner, so only one worker gets a copy.
            copy = mirror(
                job,
                kind,
                workload=ctx.observed.key.name,
                worker=remote.name,
                origin=ctx.settings.the_origin,
                attempt=ctx.attempt,
            )
            ctx.send(remote, create(kind, copy))
        return ctx.gathered()
    ctx.copy_status(ctx.mirror(remote))
    ctx.draft.check("Ready", f'The workload got reservation on "{remote.name}"')
    return ctx.gathered()


def _finished(ctx: Context, remote: Remote, twin: Obj) -> Decision:
    """Finishes the Workload after the job's last status has been copied.

    Job and Workload have separate watches, so the job's last status may arrive
    later.  A live read fetches it.
    """
    ended = condition(twin, "Finished") or {}
    reason, message = str(ended.get("reason") or "Succeeded"), str(ended.get("message") or "")
    if reason == "OutOfSync":
        return _again(ctx, f'on "{remote.name}" it does not fit its Workload: {message}', evict=True)
    kind, job, version = ctx.observed.kind, ctx.observed.job, str(twin["metadata"]["resourceVersion"])
    assert kind is not None and job is not None
    if remote.last_read != version:
        if not remote.busy:
            ctx.send(remote, Read(kind, key_of(job), version))
        return ctx.gathered()
    copy, due = ctx.mirror(remote), parse_time(since(twin, "Finished")) + _STATUS_DELAY
    ctx.copy_status(copy)
    if copy is not None and not has_ended(kind, copy.get("status") or {}) and ctx.now < due:
        ctx.wake(due)
        return ctx.gathered()
    ctx.draft.finish(reason, message)
    ctx.draft.event("FinishedOnWorker", f'{reason} on "{remote.name}": {message}')
    return ctx.gathered()


def _lost(ctx: Context, remote: Remote) -> Decision:
    """Requeues the job after the worker has been unusable for `worker_lost`.

    A short interruption has no effect.

    The time comes from the AdmissionCheck's condition, so that a restart of this process does not reset it.
    """
    if remote.lost_since is None:
        return ctx.gathered()  # the AdmissionCheck does not have the condition yet
    due = remote.lost_since + timedelta(seconds=ctx.settings.worker_lost)
    if ctx.now < due:
        ctx.wake(due)
        return ctx.gathered()
    return _again(ctx, f'"{remote.name}" is lost: {remote.unusable_reason or "not connected"}')


def _again(ctx: Context, why: str, *, evict: bool = False) -> Decision:
    """Starts the selection of a worker again.

    An admitted Workload is evicted and queued again by Kueue (check state Retry).  For another
    one only the claim is removed.
    """
    if evict or ctx.draft.check_state == "Ready":
        ctx.draft.check("Retry", why)
    else:
        ctx.draft.claim(None)
        ctx.draft.check("Pending", why)
    return ctx.gathered()
