"""Sets `spec.managedBy` of a new job whose queue dispatches to other clusters, as Kueue does for its kinds.

The operator writes the field before anything else, so that no webhook is needed.  Later it never changes.
"""

from __future__ import annotations

from fournos.engine.api.rules import Json, Rule, same_field
from fournos.engine.kube.resource import Obj, Resource, key_of
from fournos.engine.queueing.ancestors import live_ancestor
from fournos.engine.queueing.ensure import prebuilt_name
from fournos.engine.queueing.managed import MULTIKUEUE
from fournos.engine.queueing.queues import leads_elsewhere
from fournos.engine.runtime.decision import Decision, EventRecord, Facts, Patch, Unknown

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
