"""Takes up the time that is due: skips it, lets it wait, or writes the fire to the status.  Pure.

Claim before make: the fire is in the status before its first job is created, by a write that fails if the
schedule has changed.  So two operators, or one that restarts, never take up one time twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from fournos.api.fournosschedule import (
    MAX_ACTIVE,
    ActiveFire,
    ConcurrencyPolicy,
    FireOutcome,
    MissedReason,
)
from fournos.api.kinds import FOURNOS_JOB
from fournos.api.phase import Phase
from fournos.engine.kube.resource import Obj, key_of, uid_of
from fournos.engine.runtime.decision import Decision
from fournos.engine.runtime.steps import Delete, Patch, Step
from fournos.systems.schedules import names
from fournos.systems.schedules.author import lost_right
from fournos.systems.schedules.author_rights import rights_to_end
from fournos.systems.schedules.children import count
from fournos.systems.schedules.context import Context, phase, running, time_of
from fournos.systems.schedules.due import Due, Plan, due
from fournos.systems.schedules.plan import floor, suspended
from fournos.systems.schedules.unchanged import Measured, measured

_LOOK_AGAIN: Final = timedelta(days=1)
"""When to look again at a schedule whose next time is beyond what `due` looks at, behind excluded days."""


def fire(ctx: Context, plan: Plan) -> Decision:
    """Looks at the clock, and takes up what is due."""
    draft, since = ctx.draft, ctx.draft.effective_since
    assert since is not None
    if suspended(ctx.spec, ctx.now):
        until = ctx.spec.suspend.until if ctx.spec.suspend else None
        coming = until and due(plan, floor=until, last_start=draft.last_start_time, now=ctx.now).next
        draft.times(nextTime=coming)
        return ctx.decision(wake_at=coming)
    start = floor(ctx.spec, since, draft.last_schedule_time, ctx.now)
    verdict = due(plan, floor=start, last_start=draft.last_start_time, now=ctx.now)
    draft.times(nextTime=verdict.next)
    if verdict.time is None:
        if verdict.dealt_with is not None:
            draft.times(lastScheduleTime=verdict.dealt_with).add_missed(verdict.missed, verdict.dealt_with)
        return ctx.decision(wake_at=verdict.next or ctx.now + _LOOK_AGAIN)
    jobs = ctx.live_jobs()
    if jobs is None:
        return Decision(retry=True)
    return _take_up(ctx, verdict, verdict.time, jobs)


def _take_up(ctx: Context, verdict: Due, time: datetime, jobs: Sequence[Obj]) -> Decision:
    draft, policy = ctx.draft, ctx.spec.concurrency_policy
    full = len(draft.active) >= MAX_ACTIVE
    behind = [] if policy is ConcurrencyPolicy.ALLOW and not full else running(jobs)
    if behind and policy is ConcurrencyPolicy.QUEUE:
        draft.overlapping(f"The fire of {names.stamp(time)} waits for {_named(behind)}")
        moments = [moment for moment in (verdict.next, verdict.deadline) if moment is not None]
        return ctx.decision(wake_at=min(moments, default=None))
    draft.times(lastScheduleTime=time)
    if behind and (full or policy is not ConcurrencyPolicy.REPLACE):
        draft.overlapping(f"The fire of {names.stamp(time)} was skipped, because of {_named(behind)}")
        return _skipped(ctx, verdict, time, MissedReason.OVERLAP)
    draft.overlapping("")
    measures = measured(ctx)
    if measures is None:
        return Decision(retry=True)
    if _ran_before(ctx, measures):
        return _skipped(ctx, verdict, time, MissedReason.UNCHANGED)
    claim = ActiveFire(time=time, started_at=ctx.now, jobs=count(ctx.spec), digest=measures.digest)
    steps = (*_stops(behind), *_trimmed(ctx, jobs))
    if steps:
        lost = lost_right(ctx, rights_to_end(ctx.obj))
        if lost:
            pause = ctx.suspension(lost)
            draft.ended(claim, FireOutcome.FAILED, lost)
            return ctx.decision(pause)
        if lost is None or not ctx.up_to_date():
            # An old view takes the jobs of this very time for older ones.
            return Decision(retry=True)
    draft.add_missed(verdict.missed, time).times(lastStartTime=time)
    if measures.unknown:
        text = f"The fire of {names.stamp(time)} is not compared with the last one: {measures.unknown}"
        draft.event("NotComparable", text)
    draft.fires((*draft.active, claim))
    return ctx.decision(steps, wake_at=verdict.next)


def _skipped(ctx: Context, verdict: Due, time: datetime, reason: MissedReason) -> Decision:
    missed = {**verdict.missed, reason: verdict.missed.get(reason, 0) + 1}
    ctx.draft.add_missed(missed, time)
    return ctx.decision(wake_at=verdict.next)


def _named(jobs: Sequence[Obj]) -> str:
    job = min(jobs, key=lambda job: (time_of(job), job["metadata"]["name"]))
    more = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
    return f"FournosJob {job['metadata']['name']} ({phase(job) or 'new'}){more}"


def _ran_before(ctx: Context, measures: Measured) -> bool:
    """True if the last fire has measured the same with success."""
    last = ctx.draft.last_fire
    if last is None or measures.digest is None or last.outcome is not FireOutcome.SUCCEEDED:
        return False
    return last.digest == measures.digest


def _stops(jobs: Sequence[Obj]) -> tuple[Step, ...]:
    """Returns the steps that stop the jobs of earlier fires, with the policy Replace."""
    return tuple(
        Patch(FOURNOS_JOB, key_of(job), _stop(job))
        for job in jobs
        if not (job.get("spec") or {}).get("shutdown")
    )


def _stop(job: Obj) -> Obj:
    # The precondition: never a later job of this name.
    return {"metadata": {"resourceVersion": job["metadata"]["resourceVersion"]}, "spec": {"shutdown": "Stop"}}


def _trimmed(ctx: Context, jobs: Sequence[Obj]) -> tuple[Step, ...]:
    """Returns the steps that delete the jobs of ended fires beyond `spec.historyLimits`.

    A refusal of one must not hold the schedule back, so none is sent again in that pass.
    """
    limits = ctx.spec.history_limits
    failure = ctx.facts.failure
    if limits is None or (failure is not None and isinstance(failure.step, Delete)):
        return ()
    fires: dict[str, list[Obj]] = defaultdict(list)
    for job in jobs:
        fires[time_of(job)].append(job)
    for active in ctx.draft.active:
        fires.pop(names.stamp(active.time), None)
    left = {True: limits.succeeded, False: limits.failed}
    steps: list[Step] = []
    for _, ended in sorted(fires.items(), reverse=True):
        if running(ended):
            continue
        succeeded = all(phase(job) == Phase.SUCCEEDED for job in ended)
        remaining = left[succeeded]
        if remaining is None:
            continue
        if remaining > 0:
            left[succeeded] = remaining - 1
            continue
        steps += [_deletion(job) for job in ended if _may_go(ctx, job)]
    return tuple(steps)


def _may_go(ctx: Context, job: Obj) -> bool:
    """True unless the history has not recorded the job yet."""
    return not ctx.settings.archived_first or bool((job.get("status") or {}).get("archivedAt"))


def _deletion(job: Obj) -> Delete:
    return Delete(FOURNOS_JOB, key_of(job), uid_of(job), why="spec.historyLimits of its FournosSchedule")
