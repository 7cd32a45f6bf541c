"""Jobs inside jobs: what belongs to a queued job runs on its quota and gets no Workload of its own (Kueue's
rule; an AppWrapper's components are the usual case).

A queued owner is known by its Workload: Kueue's own kinds and ours label it with the owner's UID.
"""

from __future__ import annotations

from collections.abc import Iterable

from fournos.api.conditions import is_true
from fournos.kube.resource import Key, Obj, controller_of, key_of
from fournos.queueing.kinds import WORKLOAD
from fournos.queueing.surroundings import Ancestor
from fournos.queueing.workload import JOB_UID_LABEL
from fournos.runtime.decision import Facts, LiveList, Need, Present, Unknown


def ancestor_among(obj: Obj, workloads: Iterable[Obj]) -> Ancestor | None:
    """The controller of `obj`, if it has quota of its own to run on.

    `workloads`: those that this controller controls, as a cache or the API server has them.
    """
    owner = controller_of(obj)
    held = [one for one in workloads if owner and (controller_of(one) or {}).get("uid") == owner["uid"]]
    if owner is None or not held:
        return None
    going = [one for one in held if not is_true(one, "Finished")]
    newest = max(going, key=lambda one: str(one["metadata"].get("creationTimestamp", "")), default=None)
    return Ancestor(Key(key_of(obj).namespace, owner["name"]), str(owner["kind"]), newest)


def live_ancestor(obj: Obj, facts: Facts) -> Ancestor | Unknown | Need | None:
    """The same as the API server has it now: asked before a job with a controller gets a Workload, since a
    cache may show the job before its owner's Workload."""
    owner = controller_of(obj)
    if owner is None:
        return None
    question = LiveList(WORKLOAD, key_of(obj).namespace, f"{JOB_UID_LABEL}={owner['uid']}")
    if need := facts.ask([question]):
        return need
    answer = facts.answer(question)
    if isinstance(answer, Unknown):
        return answer
    return ancestor_among(obj, answer.value if isinstance(answer, Present) else ())
