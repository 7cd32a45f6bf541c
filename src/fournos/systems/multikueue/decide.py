"""The decision for a Workload that is dispatched to a worker.

no quota, evicted, over, gone      →  withdraw: its objects on workers are deleted
quota, no winner                   →  nominate: copies of the Workload on workers; the first admitted wins
quota, a winner                    →  follow: the job's copy runs there, its status is copied back
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from fournos.engine.api.conditions import condition, is_true
from fournos.engine.api.values import parse_time
from fournos.engine.kube.errors import NotFoundError
from fournos.engine.kube.resource import Obj, controller_of, is_terminating, key_of, uid_of
from fournos.engine.runtime.decision import Absent, Decision, Facts, LiveGet, Patch, StepFailure
from fournos.systems.multikueue import names
from fournos.systems.multikueue.build import mirror
from fournos.systems.multikueue.config import has_ended, has_succeeded
from fournos.systems.multikueue.nominate import keep_priority, leftover, nominate, runs
from fournos.systems.multikueue.observe import Observed, Remote
from fournos.systems.multikueue.remote import Read, create
from fournos.systems.multikueue.settings import MultiKueueSettings
from fournos.systems.multikueue.status import Context, since
from fournos.systems.multikueue.withdraw import STOP_GRACE, Withdrawal, clear, over, withdraw

_STATUS_DELAY = timedelta(seconds=30)
"""The maximum delay between the end of the remote Workload and the end in the copy's status."""


def decide(observed: Observed, facts: Facts, now: datetime, *, settings: MultiKueueSettings) -> Decision:
    """Returns the next steps and status of a Workload.  Pure; see `fournos.engine.runtime.decision`."""
    if facts.failure is not None and facts.failure.transient:
        return Decision(retry=True)
    ctx = Context(observed, facts, now, settings)
    decision = _next(ctx)
    if facts.failure is None:
        return decision
    plain = _without_subresource(ctx, facts.failure)
    if plain is not None:
        steps = tuple(plain if step == facts.failure.step else step for step in decision.steps)
        return Decision(steps, decision.status, tuple(ctx.draft.events), decision.wake_at)
    # The API server refused the job's status, because its schema differs from the worker's.
    if facts.failure.count == 1:
        ctx.draft.event(
            "StatusRefused", f"the worker's status cannot be written: {facts.failure.message}", warning=True
        )
    steps = tuple(step for step in decision.steps if step != facts.failure.step)
    return Decision(steps, decision.status, tuple(ctx.draft.events), decision.wake_at, retry=True)


def _without_subresource(ctx: Context, failure: StepFailure) -> Patch | None:
    """Returns the same status patch without the subresource, or None if that is not the cause of the failure.

    The kind's CRD may have no status subresource, such as Argo's Workflow.
    """
    step = failure.step
    # The API server answers 404 for a missing subresource, as for a missing object.
    missing = failure.error == NotFoundError.__name__
    if (
        not missing
        or not isinstance(step, Patch)
        or (step.resource, step.subresource)
        != (
            ctx.observed.kind,
            "status",
        )
    ):
        return None
    return replace(step, subresource=None)


def _next(ctx: Context) -> Decision:
    withdrawal = over(ctx.observed)
    if withdrawal is not None:
        return withdraw(ctx, withdrawal)
    if ctx.draft.check_state in ("Retry", "Rejected"):
        return ctx.gathered()  # Kueue evicts it next
    if not ctx.draft.other_checks_ready:
        return ctx.gathered()  # another check may still reject the Workload
    unfit = _unfit(ctx)
    if unfit is not None:
        return unfit
    earlier = [remote for remote in ctx.observed.remotes if _has_earlier(ctx, remote)]
    for remote in earlier:
        twin = remote.workload
        # One of this attempt that was deactivated there may have run for hours.
        at = "" if twin is not None and ctx.is_current(twin) else ctx.reserved_at
        clear(ctx, remote, Withdrawal(hard=not _is_ours(ctx, remote), at=at))
    if ctx.draft.cluster_name:
        return follow(ctx)
    left = [remote for remote in earlier if remote.usable]
    if left and not _waited(ctx, left):
        return ctx.gathered()  # the job must not run twice
    return nominate(ctx, left)


def _waited(ctx: Context, left: list[Remote]) -> bool:
    """Returns True if the leftovers of an earlier attempt had enough time to stop and to be deleted.

    An object that stays longer, for example because the controller of its finalizer is gone, excludes only
    its own worker from the nomination.
    """
    slow = parse_time(ctx.reserved_at) + STOP_GRACE
    if ctx.now < slow:
        ctx.wake(slow)
        return False
    if ctx.now < slow + STOP_GRACE:
        ctx.wake(slow + STOP_GRACE)
        ctx.draft.check("Pending", "; ".join(["waits for an earlier attempt to go", *map(leftover, left)]))
        return False
    return True


def _has_earlier(ctx: Context, remote: Remote) -> bool:
    """Returns True if the worker has objects of another attempt, or a deactivated remote Workload."""
    twin = remote.workload
    if twin is not None and (not ctx.is_current(twin) or twin["spec"].get("active", True) is False):
        return True
    return any(not ctx.is_current(job) for _, job in remote.jobs)


def _is_ours(ctx: Context, remote: Remote) -> bool:
    """Returns True if the remote Workload belongs to this Workload (by UID), possibly to an earlier attempt.

    An earlier attempt of this Workload is stopped gracefully; objects of another
    Workload are deleted at once.
    """
    found = (remote.workload or {"metadata": {}})["metadata"].get("annotations") or {}
    return bool(found.get(names.WORKLOAD_UID) == uid_of(ctx.workload))


def _unfit(ctx: Context) -> Decision | None:
    """Rejects or delays a job that cannot be dispatched; None if it can."""
    owner, kind, job = controller_of(ctx.workload), ctx.observed.kind, ctx.observed.job
    if owner is None or kind is None:
        whose = f"{owner['apiVersion']}, Kind={owner['kind']}" if owner else "none"
        ctx.draft.check("Rejected", f"No multikueue adapter found for owner kind {whose}")
        return ctx.gathered()
    if job is None:
        # A live read, because the caches of jobs and Workloads are not in step.
        live = ctx.facts.require(LiveGet(kind, ctx.observed.key._replace(name=str(owner["name"]))))
        # Absent: Kubernetes deletes the Workload with it.  Present: the cache does not show it yet.
        return Decision(retry=not isinstance(live, Absent))
    if uid_of(job) != str(owner["uid"]) or is_terminating(job):
        return Decision()
    managed_by = (job.get("spec") or {}).get("managedBy")
    if managed_by != names.MULTIKUEUE:
        ctx.draft.check(
            "Rejected",
            "The owner is not managed by Kueue: "
            f'Expecting .spec.managedBy to be "{names.MULTIKUEUE}" not "{managed_by or ""}"',
        )
        return ctx.gathered()
    return None


# --- a Workload with a winner ----------------------------------------------------------------------------


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
    gone = f'"{name}" is not among the workers any more'
    if remote is None:
        return _again(ctx, gone)
    if not remote.usable:  # first: what runs there cannot be stopped now
        return _lost(ctx, remote)
    if not (remote.listed or ctx.observed.config_missing):
        return _again(ctx, gone)
    twin = ctx.current(remote)
    if twin is None:
        return _without_twin(ctx, remote)
    if is_true(twin, "Finished"):
        return _finished(ctx, remote, twin)
    if not runs(twin):
        ctx.copy_status(ctx.mirror(remote))
        evicted = condition(twin, "Evicted") or {}
        return _again(ctx, f'"{name}" has evicted it: {evicted.get("message") or "not admitted any more"}')
    keep_priority(ctx, remote, twin)
    return _running(ctx, remote)


def _without_twin(ctx: Context, remote: Remote) -> Decision:
    """Takes the end from the job's copy, if Kueue has removed the finished Workload of an ended one there."""
    copy, kind = ctx.mirror(remote), ctx.observed.kind
    if remote.busy:
        return ctx.gathered()
    if copy is None or kind is None or not has_ended(kind, copy.get("status") or {}):
        return _again(ctx, f'its Workload on "{remote.name}" is gone')
    ctx.copy_status(copy)
    reason = "Succeeded" if has_succeeded(copy["status"]) else "Failed"
    ctx.draft.finish(reason, f'Its Workload on "{remote.name}" is gone; the job itself has ended')
    ctx.draft.event("FinishedOnWorker", f'{reason} on "{remote.name}"')
    return ctx.gathered()


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
                origin=ctx.settings.origin,
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
    if copy is not None and has_ended(kind, copy.get("status") or {}) is False and ctx.now < due:
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

    A Workload that is admitted, or whose job is on a worker, is evicted and queued again by Kueue (check
    state Retry): what runs is stopped before it runs elsewhere.  For another one only the claim is removed.
    """
    copies = any(remote.usable and ctx.mirror(remote) for remote in ctx.observed.remotes)
    if evict or copies or ctx.draft.check_state == "Ready":
        ctx.draft.check("Retry", why)
    else:
        ctx.draft.claim(None)
        ctx.draft.check("Pending", why)
    return ctx.gathered()
