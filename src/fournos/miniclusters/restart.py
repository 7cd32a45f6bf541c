"""A lead broker that was killed, and its workers with it.

A lead that is asked to stop shuts its workers down, and Kubernetes never runs an index again that has ended
well: the lead that takes its place would wait for them for ever.  Nothing of the instance is left, so all of
it begins again.

At the regular end, too, workers end before their lead, which may take long to write an archive or to run the
user's `post`.  So what counts is whether the lead has begun after they had ended.
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
"""The Job's pods and its status are of different caches."""
_LATEST: Final = 253402300799
"""The last second that a date can have."""


def due(ctx: Context) -> datetime | None:
    """When to begin again: the lead is up, and workers that it needs had ended before it began."""
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
    """When a worker's broker ended well; its container may have had more to do, and says when (worker.sh)."""
    if not index_of(pod) or not terminal(pod):
        return None
    ended = ended_well(pod, ctx.name)
    if (second := parse_count(ended.get("message"), most=_LATEST)) is not None:
        return datetime.fromtimestamp(second, UTC)
    return parse_time(ended["finishedAt"]) if ended.get("finishedAt") else None


def _without_pods(ctx: Context) -> set[int]:
    """Indexes of workers that the Job counts as over and whose pods are deleted, as a drain does it."""
    job = ctx.job
    if job is None:
        return set()
    size = int(job["spec"].get("parallelism", 1))
    return {index for index in over(job) if 0 < index < size} - {index_of(pod) for pod in ctx.pods}


def begin_again(ctx: Context) -> Decision:
    """The Job goes, and is made anew when its pods are gone."""
    removal = remove(ctx)
    at = due(ctx)
    if at is None or ctx.now < at:
        return Decision(retry=True)  # the cache is of another time
    text = "The lead broker was killed and its workers have ended: the MiniCluster begins again"
    if removal.steps:
        ctx.draft.event("Restarted", text, warning=True)
    ctx.draft.condition(RUNNING, False, "LeadKilled", text).condition(READY, False, "LeadKilled", text)
    ctx.draft.phased("Waiting", text).put(ready=0, startedAt=None)
    return ctx.decision(removal.steps, retry=removal.unsure)
