"""Finds why pods do not start when no status shows it, such as a volume that cannot be mounted.

Kubernetes reports such failures in Events only. Events are listed only if a pod has been waiting for a while
and no status shows a reason, because every list is a live read.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from fournos.engine.api.values import parse_time
from fournos.engine.kube.resource import EVENT, Obj, is_terminating, uid_of
from fournos.engine.runtime.decision import LiveList, Present
from fournos.systems.miniclusters.context import Context, index_of, over, terminal
from fournos.systems.miniclusters.health import cause_of

_PATIENCE: Final = timedelta(seconds=15)
_AGAIN: Final = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class StartObstacle:
    """The reason why pods do not start, if one was found."""

    text: str = ""
    look_at: datetime | None = None
    """The time of the next check; None if no pod waits."""


def cause(ctx: Context, job: Obj) -> StartObstacle:
    """Returns the newest warning about the Job or pod that waits."""
    held = _held(ctx, job)
    if held is None:
        return StartObstacle()
    since = parse_time(held["metadata"].get("creationTimestamp") or job["metadata"]["creationTimestamp"])
    if ctx.now < since + _PATIENCE:
        return StartObstacle(look_at=since + _PATIENCE)
    # Selected by UID, not by name: an earlier Job and the MiniCluster itself have the same name.
    question = LiveList(EVENT, ctx.namespace, fields=f"regarding.uid={uid_of(held)},type=Warning")
    answer = ctx.facts.require(question)
    found = answer.value if isinstance(answer, Present) else ()
    newest = max(found, key=_time, default=None)
    text = f"{newest.get('reason')}: {newest.get('note') or ''}" if newest else ""
    return StartObstacle(text, ctx.now + _AGAIN)


def _held(ctx: Context, job: Obj) -> Obj | None:
    """Returns the Job if it has not created all its pods; otherwise the first pod that does not start.

    Pods whose status shows a reason are left out. None if there is nothing to explain.
    """
    if job["spec"].get("suspend") or is_terminating(job):
        return None
    pods = {index_of(pod): pod for pod in sorted(ctx.pods, key=lambda pod: not terminal(pod))}
    ended = over(job)
    for index in range(int(job["spec"].get("parallelism", 1))):
        pod = pods.get(index)
        if pod is None and index in ended:
            continue
        if pod is None:
            return job
        if terminal(pod) or is_terminating(pod) or cause_of(pod):
            continue
        statuses = (pod.get("status") or {}).get("containerStatuses") or ()
        # The Events of a pod that has started are those of its start, and explain nothing any more.
        if not any({"running", "terminated"} & set(one.get("state") or {}) for one in statuses):
            return pod
    return None


def _time(event: Obj) -> str:
    """Returns the time of the event's latest occurrence, as text."""
    series = (event.get("series") or {}).get("lastObservedTime")
    core = event.get("deprecatedLastTimestamp") or event.get("eventTime")
    return str(series or core or event["metadata"].get("creationTimestamp") or "")
