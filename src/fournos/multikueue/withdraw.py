"""Taking back what workers have of a Workload.

A run is stopped before it is deleted: its Workload there is made inactive, Kueue evicts it, its controller
stops the job and gives the quota back; then the job goes, then the Workload.  Everything is deleted with
its UID as a precondition, and is ours by its origin label, by which alone the watches find it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from fournos.api.conditions import is_true
from fournos.api.times import parse_time
from fournos.kube.resource import Obj, is_terminating, key_of, uid_of
from fournos.multikueue import names
from fournos.multikueue.context import Context, Remote, holds_quota
from fournos.multikueue.over import Why, over
from fournos.multikueue.sync import sync
from fournos.multikueue.workers import Change, Remove
from fournos.queueing.kinds import WORKLOAD
from fournos.queueing.report import finalizer_patch
from fournos.runtime.decision import Absent, Decision, LiveGet, Need, Present


def withdraw(ctx: Context, why: Why) -> Decision | Need:
    """Everything of it, from all workers."""
    for remote in ctx.observed.remotes:
        clear(ctx, remote, why)
    if ctx.steps and not _certain(ctx, why) and (doubt := _doubt(ctx)) is not None:
        return doubt
    if ctx.observed.workload is not None and not is_true(ctx.workload, "Finished"):
        # Kueue cannot take out what we have written.
        ctx.put(cluster=None)
    return ctx.decision()


def _certain(ctx: Context, why: Why) -> bool:
    """The end of this very Workload is no hint, and workers have nothing of one that came after it."""
    return why.final and all(
        ctx.is_current(obj)
        for remote in ctx.observed.remotes
        for obj in (remote.workload, *(job for _, job in remote.jobs))
        if obj is not None
    )


def _doubt(ctx: Context) -> Decision | Need | None:
    """The cache is a hint: before anything is destroyed the manager's Workload is read live."""
    question = LiveGet(WORKLOAD, ctx.observed.key)
    if need := ctx.facts.ask([question]):
        return need
    answer = ctx.facts.answer(question)
    if isinstance(answer, Absent) and not answer.no_kind:
        return None if ctx.observed.workload is None else Decision(retry=True)
    if not isinstance(answer, Present) or ctx.observed.workload is None:
        return Decision(retry=True)
    same = uid_of(answer.value) == uid_of(ctx.workload)
    if not same or over(replace(ctx.observed, workload=answer.value)) is None:
        return Decision(retry=True)
    return None


def clear(ctx: Context, remote: Remote, why: Why) -> None:
    """The next thing that brings this worker's part of it to its end, if there is one to be done now."""
    if remote.empty or not remote.usable or remote.busy:
        return
    if why.kept and (due := parse_time(why.at) + timedelta(seconds=ctx.settings.keep_finished_sec)) > ctx.now:
        ctx.wake(due)
        return
    if not why.hard and not _stopped(ctx, remote, why):
        return
    for kind, job in remote.jobs:
        if not is_terminating(job):
            ctx.send(remote, Remove(kind, key_of(job), uid_of(job)))
    if remote.jobs or remote.workload is None:
        return
    if not is_terminating(remote.workload):
        ctx.send(remote, Remove(WORKLOAD, key_of(remote.workload), uid_of(remote.workload)))
    elif (patch := finalizer_patch(remote.workload)) is not None:
        ctx.send(remote, Change(WORKLOAD, patch.key, patch.body))


def _stopped(ctx: Context, remote: Remote, why: Why) -> bool:
    """Whether nothing of it holds quota there any more; if not, it is asked to stop."""
    workload = remote.workload
    if not ctx.claim or ctx.claim == remote.name:
        sync(ctx, _last(ctx, remote))
    if workload is None or not remote.jobs or not holds_quota(workload):
        return True
    if why.at:
        due = parse_time(why.at) + timedelta(seconds=ctx.settings.stop_grace_sec)
        if due <= ctx.now:
            return True
        ctx.wake(due)
    if workload["spec"].get("active", True) is not False and not is_terminating(workload):
        version = workload["metadata"]["resourceVersion"]
        body = {"metadata": {"resourceVersion": version}, "spec": {"active": False}}
        ctx.send(remote, Change(WORKLOAD, key_of(workload), body))
    return False


def _last(ctx: Context, remote: Remote) -> Obj | None:
    """The job's copy there, of whatever attempt: how it stopped is told until the next one runs."""
    if ctx.observed.job is None:
        return None
    mine = uid_of(ctx.observed.job)
    found = (job for _, job in remote.jobs)
    return next(
        (job for job in found if (job["metadata"].get("annotations") or {}).get(names.JOB_UID) == mine), None
    )
