"""A lead broker that was killed, and its workers with it.

A lead that is asked to stop shuts its workers down, and Kubernetes never runs an index again that has ended
well: the lead that takes its place would wait for them for ever.  Nothing of the instance is left, so all of
it begins again.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from fournos.api.conditions import condition
from fournos.api.times import parse_time
from fournos.miniclusters.context import Context, index_of, over, terminal
from fournos.miniclusters.judge import broker_up, ended_well, lead_of
from fournos.miniclusters.remove import remove
from fournos.miniclusters.status import READY, RUNNING
from fournos.runtime.decision import Decision

_GRACE: Final = timedelta(seconds=15)
"""At the regular end, too, workers end before their lead: it is ready until its next probe, 5 s later."""


def due(ctx: Context) -> datetime | None:
    """When to begin again: the lead is up, and workers have ended that it needs."""
    lead = lead_of(ctx)
    if (ctx.spec.get("flux") or {}).get("completeWorkers") or lead is None or not broker_up(lead, ctx.name):
        return None
    ended = [
        parse_time(end["finishedAt"])
        for pod in ctx.pods
        if index_of(pod) and terminal(pod) and (end := ended_well(pod, ctx.name)).get("finishedAt")
    ]
    if _without_pods(ctx):
        ended.append(_not_ready_since(ctx))
    return max(ended) + _GRACE if ended else None


def _without_pods(ctx: Context) -> set[int]:
    """Indexes of workers that the Job counts as over and whose pods are deleted, as a drain does it."""
    job = ctx.job
    if job is None:
        return set()
    size = int(job["spec"].get("parallelism", 1))
    return {index for index in over(job) if 0 < index < size} - {index_of(pod) for pod in ctx.pods}


def _not_ready_since(ctx: Context) -> datetime:
    """Where no pod is left to say when it ended: from when on not all brokers were ready."""
    ready = condition(ctx.minicluster, READY) or {}
    seen = ready.get("status") == "False" and ready.get("lastTransitionTime")
    return parse_time(seen) if seen else ctx.now


def begin_again(ctx: Context) -> Decision:
    """The Job goes, and is made anew when its pods are gone."""
    removal = remove(ctx)
    at = due(ctx)
    if at is None or ctx.now < at:
        return Decision(retry=True)  # the cache is of another time
    text = "The lead broker was killed and its workers have ended: the MiniCluster begins again"
    if removal.steps:
        ctx.draft.note("Restarted", text, warning=True)
    ctx.draft.condition(RUNNING, False, "LeadKilled", text).condition(READY, False, "LeadKilled", text)
    ctx.draft.phased("Waiting", text).put(ready=0, startedAt=None)
    return ctx.decision(removal.steps, retry=removal.unsure)
