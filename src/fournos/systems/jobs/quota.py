"""The quota that a job holds.  Its cluster is read from a Workload's admission, never from the job's status.

The cluster is the flavor of the slots in the admission of the job's own Workload.
"""

from __future__ import annotations

from dataclasses import dataclass

from fournos.engine.kube.resource import Key, Obj, controls
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.state import QueueState, view
from fournos.engine.runtime.decision import Absent, LiveGet, Present
from fournos.systems.jobs import names
from fournos.systems.jobs.context import Context


def own_cluster(workload: Obj) -> str | None:
    """Returns the cluster to which the job's own Workload was admitted, or None."""
    return view(workload).flavor(names.POD_SET, names.SLOT_RESOURCE)


@dataclass(frozen=True, slots=True)
class Granted:
    """The quota that a job with a started attempt holds.  All fields empty: not known in this pass."""

    cluster: str | None = None
    evicted: Obj | None = None
    """The job's Workload, if Kueue has evicted it."""
    lost: str = ""
    """Why the job holds no quota."""


def granted(ctx: Context) -> Granted:
    """Returns the quota that the job holds in this pass, by its Workload."""
    workload = ctx.workload
    if workload is not None:
        if view(workload).state is not QueueState.ADMITTED:
            return Granted(evicted=workload)
        return Granted(own_cluster(workload))
    name = ctx.draft.last_attempt.workload or names.attempt_name(ctx.name, ctx.draft.attempt)
    # A live read: losing quota ends the run, so a Workload that only the cache lacks must not count as lost.
    answer = ctx.facts.require(LiveGet(WORKLOAD, Key(ctx.namespace, name)))
    if isinstance(answer, Absent) and not answer.no_kind:
        return Granted(lost="Its Workload was deleted, so its quota is gone")
    if not isinstance(answer, Present) or controls(ctx.job, answer.value):
        return Granted()  # the cache does not show it yet
    return Granted(lost=f"Workload '{name}' is not its own")
