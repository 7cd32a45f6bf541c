"""Restarts a MiniCluster whose lead broker was killed together with its workers.

A lead broker that receives SIGTERM shuts its workers down, and the Job controller never runs an index again
that has succeeded. The replaced lead broker would wait for these workers forever. Nothing of the instance is
left, so the whole Job is created again.

At a regular end, too, workers end before their lead broker, which may take long to write an archive or to run
the user's `post`. What counts is therefore whether the lead broker started after its workers had ended.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from fournos.api.quantities import parse_count
from fournos.api.times import parse_time
from fournos.kube.resource import Obj
from fournos.miniclusters.context import Context, index_of, over, terminal
from fournos.miniclusters.health import broker_up, ended_well, lead_of, runner
from fournos.miniclusters.status import READY, RUNNING
from fournos.miniclusters.teardown import remove
from fournos.runtime.decision import Decision

_GRACE: Final = timedelta(seconds=15)
"""The Job's pods and its status come from different caches, which may lag behind each other."""
_LATEST: Final = 253402300799
"""The last second that a datetime can represent."""


def due(ctx: Context) -> datetime | None:
    """Returns when to restart, or None.

    A restart is due if the lead broker is up and workers that it needs had ended before it started.
    """
    lead = lead_of(ctx)
    if (ctx.spec.get("flux") or {}).get("completeWorkers") or lead is None or not broker_up(lead, ctx.name):
        return None
    began = _began(ctx, lead)
    if began is None:
        return None
    if any(at <= began for pod in ctx.pods if (at := _worker_ended(ctx, pod)) is not None):
        return began
    first = ctx.draft.started_at
    if first is not None and first < began and _without_pods(ctx):
        return began + _GRACE
    return None


def _began(ctx: Context, lead: Obj) -> datetime | None:
    running = (runner(lead, ctx.name).get("state") or {}).get("running") or {}
    return parse_time(running["startedAt"]) if running.get("startedAt") else None


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
    text = "The lead broker was killed and its workers have ended: the MiniCluster begins again"
    if removal.steps:
        ctx.draft.event("Restarted", text, warning=True)
    ctx.draft.condition(RUNNING, False, "LeadKilled", text).condition(READY, False, "LeadKilled", text)
    ctx.draft.phased("Waiting", text).put(ready=0, startedAt=None)
    return ctx.decision(removal.steps, retry=removal.unsure)
