"""What happens next to a Workload that is to run on a worker: nothing there, a choice, or a run.

no quota, evicted, over, gone      →  withdraw: what workers have of it goes
quota, no winner                   →  nominate: twins on workers; the first to be admitted wins
quota, a winner                    →  follow: the copy of the job runs there, its status comes back
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from fournos.api.times import parse_time
from fournos.kube.errors import NotFoundError
from fournos.kube.resource import controller_of, is_terminating, uid_of
from fournos.multikueue import names
from fournos.multikueue.context import Context, Observed, Remote
from fournos.multikueue.job_status import follow
from fournos.multikueue.nominate import leftover, nominate
from fournos.multikueue.settings import MultiKueueSettings
from fournos.multikueue.withdraw import Why, clear, over, withdraw
from fournos.runtime.decision import Absent, Decision, Facts, LiveGet, StepFailure
from fournos.runtime.steps import Patch


def decide(observed: Observed, facts: Facts, now: datetime, *, settings: MultiKueueSettings) -> Decision:
    """Pure; see `fournos.runtime.decision`."""
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
    # The job's status was refused, by another schema than the worker's.
    if facts.failure.count == 1:
        ctx.draft.event(
            "StatusRefused", f"the worker's status cannot be written: {facts.failure.message}", warning=True
        )
    steps = tuple(step for step in decision.steps if step != facts.failure.step)
    return Decision(steps, decision.status, tuple(ctx.draft.events), decision.wake_at, retry=True)


def _without_subresource(ctx: Context, failure: StepFailure) -> Patch | None:
    """The same write of a status to a kind whose CRD has no status subresource, such as Argo's Workflow."""
    step = failure.step
    # The API server answers as if the object were not there.
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
    why = over(ctx.observed)
    if why is not None:
        return withdraw(ctx, why)
    if ctx.draft.check_state in ("Retry", "Rejected"):
        return ctx.decision()  # Kueue is about to evict it
    if not ctx.draft.other_checks_ready:
        return ctx.decision()  # their verdict may still change
    unfit = _unfit(ctx)
    if unfit is not None:
        return unfit
    earlier = [remote for remote in ctx.observed.remotes if _has_earlier(ctx, remote)]
    for remote in earlier:
        clear(ctx, remote, Why("an earlier attempt", hard=not _is_ours(ctx, remote), at=ctx.reserved_at))
    if ctx.draft.cluster_name:
        return follow(ctx)
    left = [remote for remote in earlier if remote.usable]
    if left and not _waited(ctx, left):
        return ctx.decision()  # it must not run twice
    return nominate(ctx, left)


def _waited(ctx: Context, left: list[Remote]) -> bool:
    """Whether what an earlier attempt left had time enough to go: it was asked to stop, and then deleted.

    What stays beyond that, such as an object whose finalizer is in the hands of a controller that is no
    more, keeps its worker from being asked, not the others.
    """
    grace = timedelta(seconds=ctx.settings.stop_grace_sec)
    slow = parse_time(ctx.reserved_at) + grace
    if ctx.now < slow:
        ctx.wake(slow)
        return False
    if ctx.now < slow + grace:
        ctx.wake(slow + grace)
        ctx.draft.check("Pending", "; ".join(["waits for an earlier attempt to go", *map(leftover, left)]))
        return False
    return True


def _has_earlier(ctx: Context, remote: Remote) -> bool:
    """What is there is not of this attempt, or was asked to stop."""
    twin = remote.workload
    if twin is not None and (not ctx.is_current(twin) or twin["spec"].get("active", True) is False):
        return True
    return any(not ctx.is_current(job) for _, job in remote.jobs)


def _is_ours(ctx: Context, remote: Remote) -> bool:
    """An earlier attempt of this very Workload is stopped gently, one of another is only in the way."""
    found = (remote.workload or {"metadata": {}})["metadata"].get("annotations") or {}
    return bool(found.get(names.WORKLOAD_UID) == uid_of(ctx.workload))


def _unfit(ctx: Context) -> Decision | None:
    """Whether the job is one that can be taken to a worker at all."""
    owner, kind, job = controller_of(ctx.workload), ctx.observed.kind, ctx.observed.job
    if owner is None or kind is None:
        whose = f"{owner['apiVersion']}, Kind={owner['kind']}" if owner else "none"
        ctx.draft.check("Rejected", f"No multikueue adapter found for owner kind {whose}")
        return ctx.decision()
    if job is None:
        live = ctx.facts.require(LiveGet(kind, ctx.observed.key._replace(name=str(owner["name"]))))
        # Gone: its Workload goes with it.  There: the cache is about to show it.
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
        return ctx.decision()
    return None
