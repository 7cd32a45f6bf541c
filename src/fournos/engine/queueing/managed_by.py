"""Sets `spec.managedBy` of a new job whose queue dispatches to other clusters, as Kueue does for its kinds.

The operator writes the field before anything else, so that no webhook is needed.  Later it never changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fournos.engine.api.rules import Json, Rule, same_field
from fournos.engine.kube.resource import Key, Obj, Resource, key_of
from fournos.engine.queueing.ensure import prebuilt_name
from fournos.engine.queueing.job import MULTIKUEUE, MULTIKUEUE_ADAPTER
from fournos.engine.queueing.kinds import ADMISSION_CHECK, CLUSTER_QUEUE, LOCAL_QUEUE
from fournos.engine.queueing.observe import live_ancestor
from fournos.engine.runtime.decision import Decision, EventRecord, Facts, LiveGet, Patch, Present, Unknown

# --- a queue, read live -----------------------------------------------------------------------------
# Live reads of a queue for admission webhooks: its ClusterQueue, and whether its jobs run on other
# clusters.
#
# LocalQueue → ClusterQueue → AdmissionChecks → controllerName: Kueue's own rule for the default of
# `managedBy`.

DISPATCHERS: Final = frozenset({MULTIKUEUE, MULTIKUEUE_ADAPTER})
"""Controllers of AdmissionChecks that dispatch jobs to other clusters: Kueue's and ours."""


def queue_question(namespace: str, queue: str) -> LiveGet:
    """Returns the first question of `cluster_queue_of`."""
    return LiveGet(LOCAL_QUEUE, Key(namespace, queue))


def cluster_queue_of(namespace: str, queue: str, facts: Facts) -> Obj | Unknown | None:
    """Returns the ClusterQueue of a LocalQueue; None if one of them does not exist."""
    local = _object(queue_question(namespace, queue), facts)
    if local is None or isinstance(local, Unknown):
        return local
    return _object(LiveGet(CLUSTER_QUEUE, Key("", str(local["spec"]["clusterQueue"]))), facts)


def check_questions(cluster_queue: Obj) -> tuple[LiveGet, ...]:
    """Returns the questions of `dispatches`: all admission checks of the ClusterQueue."""
    return tuple(LiveGet(ADMISSION_CHECK, Key("", name)) for name in _checks(cluster_queue))


def dispatches(cluster_queue: Obj, facts: Facts) -> bool | Unknown:
    """True if the jobs of this ClusterQueue run on other clusters."""
    for answer in facts.require_all(check_questions(cluster_queue)):
        if isinstance(answer, Unknown):
            return answer
        if isinstance(answer, Present) and answer.value["spec"].get("controllerName") in DISPATCHERS:
            return True
    return False


def leads_elsewhere(namespace: str, queue: str, facts: Facts) -> bool | Unknown:
    """True if the jobs of a LocalQueue run on other clusters; False while its ClusterQueue does not exist."""
    behind = cluster_queue_of(namespace, queue, facts)
    if behind is None or isinstance(behind, Unknown):
        return False if behind is None else behind
    return dispatches(behind, facts)


def _checks(cluster_queue: Obj) -> Iterator[str]:
    strategy = cluster_queue["spec"].get("admissionChecksStrategy") or {}
    yield from (str(one["name"]) for one in strategy.get("admissionChecks") or ())


def _object(question: LiveGet, facts: Facts) -> Obj | Unknown | None:
    answer = facts.require(question)
    if isinstance(answer, Unknown):
        return answer
    return answer.value if isinstance(answer, Present) else None


_NEW = "!has(oldSelf.spec.managedBy) && (!has(oldSelf.status) || !has(oldSelf.status.phase))"


def fixed_rule(message: str) -> Rule:
    """Returns the rule: `spec.managedBy` may be set while there is no phase and never changes later."""
    return Rule(
        id="managedby-fixed",
        at="",
        when="update",
        field="spec.managedBy",
        reason="FieldValueForbidden",
        message=message,
        cel=f"({same_field('managedBy')}) || ({_NEW})",
        holds=_kept,
    )


def _kept(new: Json, old: Json) -> bool:
    now, then = new.get("spec"), old.get("spec")
    if now is None or then is None or now.get("managedBy") == then.get("managedBy"):
        return True
    return then.get("managedBy") is None and not (old.get("status") or {}).get("phase")


def send_elsewhere(resource: Resource, obj: Obj, queue: str, facts: Facts) -> Decision | None:
    """Returns the first decision on a new object of this queue.

    None: the object runs on this cluster, or already has `spec.managedBy`.
    """
    leads_away = leaves(obj, queue, facts)
    if isinstance(leads_away, Unknown):
        text = f"Waiting: cannot learn whether its queue leads to other clusters: {leads_away.reason}"
        return Decision(events=(EventRecord("Warning", "QueueUnknown", text),), retry=True)
    if not leads_away:
        return None
    # The precondition: the user may have set the field meanwhile.
    version = obj["metadata"]["resourceVersion"]
    body = {"metadata": {"resourceVersion": version}, "spec": {"managedBy": MULTIKUEUE}}
    return Decision((Patch(resource, key_of(obj), body),))


def leaves(obj: Obj, queue: str, facts: Facts) -> bool | Unknown:
    """True if another cluster is to run an object of this queue.

    False on a worker, where a Workload was made for the object, and for a part of another queued job.
    """
    if not queue or prebuilt_name(obj) or (obj.get("spec") or {}).get("managedBy") is not None:
        return False
    ancestor = live_ancestor(obj, facts)
    if isinstance(ancestor, Unknown):
        return ancestor
    return ancestor is None and leads_elsewhere(str(obj["metadata"].get("namespace") or ""), queue, facts)
