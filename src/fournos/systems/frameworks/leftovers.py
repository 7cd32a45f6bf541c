"""Cleanup of Workloads whose object is gone, or has left the queue.

Kueue's rule: the integration that runs a job removes the finalizer of its Workload.  An object without a
finalizer of its own is gone before that.
"""

from __future__ import annotations

from fournos.engine.kube.resource import Obj, controller_of, is_terminating, key_of, uid_of
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.podsets import queue_name
from fournos.engine.queueing.report import finalizer_patch
from fournos.engine.runtime.decision import Decision, Facts, LiveGet, Present, Unknown
from fournos.engine.runtime.steps import Delete, Step
from fournos.systems.frameworks.context import Observed
from fournos.systems.frameworks.kind_spec import Framework


def left_behind(observed: Observed, framework: Framework, facts: Facts) -> Decision:
    """Releases Workloads whose object the cache does not have.

    A live read confirms that the object is gone or has left the queue.
    """
    answer = facts.require(LiveGet(framework.resource, observed.key))
    if isinstance(answer, Unknown) or facts.failure is not None:
        return Decision(retry=True)
    if isinstance(answer, Present) and queue_name(answer.value):
        return Decision(retry=True)  # the cache does not show it yet
    there = uid_of(answer.value) if isinstance(answer, Present) else ""
    steps: list[Step] = []
    for workload in observed.inputs.workloads:
        steps += _let_go(workload, left=(controller_of(workload) or {}).get("uid") == there)
    return Decision(steps=tuple(steps))


def _let_go(workload: Obj, *, left: bool) -> list[Step]:
    """Removes the finalizer of a terminating Workload; deletes one whose object has left the queue.

    Kubernetes collects the Workloads of a deleted object.
    """
    if is_terminating(workload):
        patch = finalizer_patch(workload)
        return [patch] if patch is not None else []
    return [Delete(WORKLOAD, key_of(workload), uid_of(workload))] if left else []
