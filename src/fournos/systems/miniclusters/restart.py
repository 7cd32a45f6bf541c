"""Restarts a MiniCluster whose lead broker was stopped together with its workers.

A lead broker that receives SIGTERM shuts its workers down, and the Job controller never runs an index again
that has succeeded. The replaced lead broker would wait for these workers forever. Nothing of the instance is
left, so the whole Job is created again, as soon as the pod of the stopped lead broker has ended: then its
successor need not be stopped in the middle of its start.

At a regular end, too, workers end before their lead broker, which may take long to write an archive or to run
the user's `post`. What counts is therefore whether a lead broker is still to start, or started after its
workers had ended.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from fournos.engine.api.values import parse_count, parse_time
from fournos.engine.kube.resource import Obj, is_terminating
from fournos.engine.runtime.decision import Decision
from fournos.systems.miniclusters import names
from fournos.systems.miniclusters.context import Context, index_of, over, terminal
from fournos.systems.miniclusters.exit_code import runner
from fournos.systems.miniclusters.health import ended_well, lead_of
from fournos.systems.miniclusters.status import READY, RUNNING
from fournos.systems.miniclusters.teardown import remove

_GRACE: Final = timedelta(seconds=15)
"""The Job's pods and its status come from different caches, which may lag behind each other."""
_LATEST: Final = 253402300799
"""The last second that a datetime can represent."""


def due(ctx: Context) -> datetime | None:
    """Returns when to restart, or None.

    A restart is due if workers that the next lead broker needs had ended before it starts.
    """
    lead = lead_of(ctx)
    if (ctx.spec.get("flux") or {}).get("completeWorkers") or lead is None:
        return None
    since = _since(ctx, lead)
    if since is None:
        return None
    at, started = since
    ends = [end for pod in ctx.pods if (end := _worker_ended(ctx, pod)) is not None]
    if any(end <= (at if started else ctx.now) for end in ends):
        return at
    first = ctx.draft.started_at
    if first is not None and first < at and _without_pods(ctx):
        return at + _GRACE
    return None


def _since(ctx: Context, lead: Obj) -> tuple[datetime, bool] | None:
    """Returns since when the lead broker runs (True), or since when another is to start (False).

    None if it has a result, or is about to end.
    """
    if is_terminating(lead) and not terminal(lead):
        return None
    state = runner(lead, ctx.name).get("state") or {}
    ended = state.get("terminated") or {}
    if "running" in state:
        at, started = state["running"].get("startedAt"), True
    elif ended:
        at, started = ended.get("finishedAt") if ended.get("exitCode") == names.STOPPED else None, False
    elif terminal(lead):
        return None
    else:
        at, started = lead["metadata"].get("creationTimestamp"), False
    return (parse_time(at), started) if at else None


def _worker_ended(ctx: Context, pod: Obj) -> datetime | None:
    """Returns when a worker's broker ended with 0.

    The termination message has the time (worker.sh), because the container may have run on after it. Without
    a message the container's end counts.
    """
    if not index_of(pod) or not terminal(pod):
        return None
    ended = ended_well(pod, ctx.name)
    if (second := parse_count(ended.get("message"), most=_LATEST)) is not None:
        return datetime.fromtimestamp(second, UTC)
    return parse_time(ended["finishedAt"]) if ended.get("finishedAt") else None


def _without_pods(ctx: Context) -> set[int]:
    """Returns the workers' indexes that the Job counts as finished and whose pods were deleted.

    A node drain, for example, deletes finished pods.
    """
    job = ctx.job
    if job is None:
        return set()
    size = int(job["spec"].get("parallelism", 1))
    return {index for index in over(job) if 0 < index < size} - {index_of(pod) for pod in ctx.pods}


def begin_again(ctx: Context) -> Decision:
    """Deletes the Job. It is created again when its pods are gone."""
    removal = remove(ctx)
    at = due(ctx)
    if at is None or ctx.now < at:
        return Decision(retry=True)  # the live read contradicts the cache
    text = "The lead broker was stopped and its workers have ended: the MiniCluster begins again"
    if removal.steps:
        ctx.draft.event("Restarted", text, warning=True)
    ctx.draft.condition(RUNNING, False, "LeadKilled", text).condition(READY, False, "LeadKilled", text)
    ctx.draft.phased("Waiting", text).put(ready=0, startedAt=None)
    return ctx.decision(removal.steps, retry=removal.unsure)
