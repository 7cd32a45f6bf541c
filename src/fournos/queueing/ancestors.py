"""Jobs inside jobs: what belongs to a queued job runs on its quota and gets no Workload of its own (Kueue's
rule; an AppWrapper's components are the usual case).

A queued owner is known by its Workload: Kueue's own kinds and ours label it with the owner's UID.  Any user
may write an owner reference, so a reference alone is no claim to that quota: the Workload of an AppWrapper
names the component that each pod set is for, and that of a FournosJob has the name of its run.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Final

from fournos.api.conditions import is_true
from fournos.api.quantities import parse_quantity
from fournos.kube.resource import Key, Obj, controller_of, key_of, newest
from fournos.queueing.inputs import Ancestor, Share
from fournos.queueing.kinds import FOURNOS_JOB, WORKLOAD
from fournos.queueing.workload import JOB_UID_LABEL
from fournos.runtime.decision import Facts, LiveList, Present, Unknown

COMPONENT_ANNOTATION: Final = "fournos.dev/component"
"""On the pod template of a pod set in an AppWrapper's Workload: the component that it is for."""
_GENERATED: Final = re.compile(r"(.*)\{([0-9]{1,3})\}", re.ASCII)
APPWRAPPER: Final = ("workload.codeflare.dev", "AppWrapper")
_FOURNOS_JOB: Final = (FOURNOS_JOB.group, FOURNOS_JOB.kind)
_PIPELINE_RUN: Final = ("tekton.dev", "PipelineRun")
_NAMED_ALWAYS: Final = frozenset({_FOURNOS_JOB, _PIPELINE_RUN, ("flux-framework.org", "MiniCluster")})
"""Kinds without a pod template: an AppWrapper with one of them has a Workload that our operator made, and no
other queued kind makes them, save FournosJobs their runs."""


def component(template: Obj, index: int) -> str:
    """The annotation's value.  A generated name follows from the owner's UID: each cluster has another."""
    meta = template.get("metadata") or {}
    name = meta.get("name") or f"{meta.get('generateName', '')}{{{index}}}"
    return f"{template['apiVersion']}/{template['kind']}/{name}"


def generated_name(prefix: str, owner_uid: str, index: int) -> str:
    """The name of a component that is made from generateName: always the same for this owner."""
    return prefix + hashlib.sha256(f"{owner_uid}/{index}".encode()).hexdigest()[:5]


def ancestor_among(obj: Obj, workloads: Iterable[Obj]) -> Ancestor | None:
    """The controller of `obj`, if it has quota of its own for `obj` to run on.

    `workloads`: those that this controller controls, as a cache or the API server has them.
    """
    owner = controller_of(obj)
    held = [one for one in workloads if owner and _is_owners(one, owner)]
    if owner is None or not held:
        return None
    going = [one for one in held if not is_true(one, "Finished")]
    latest = newest(going)
    if not _belongs(obj, owner, latest or held[0]):
        return None
    return Ancestor(Key(key_of(obj).namespace, owner["name"]), str(owner["kind"]), latest)


def ancestor_questions(obj: Obj) -> tuple[LiveList, ...]:
    """What `live_ancestor` asks: nothing about an object without a controller."""
    owner = controller_of(obj)
    if owner is None:
        return ()
    return (LiveList(WORKLOAD, key_of(obj).namespace, f"{JOB_UID_LABEL}={owner['uid']}"),)


def live_ancestor(obj: Obj, facts: Facts) -> Ancestor | Unknown | None:
    """The same as the API server has it now: asked before a job with a controller gets a Workload, since a
    cache may show the job before its owner's Workload."""
    questions = ancestor_questions(obj)
    if not questions:
        return None
    (answer,) = facts.require_all(questions)
    if isinstance(answer, Unknown):
        return answer
    return ancestor_among(obj, answer.value if isinstance(answer, Present) else ())


def share_of(obj: Obj, workload: Obj) -> Share | None:
    """What of the admission of its owner's Workload is for `obj`; None: nothing, or it is not admitted."""
    owner = controller_of(obj)
    if owner is None or not _is_owners(workload, owner) or not is_true(workload, "Admitted"):
        return None
    mine = set(_pod_sets_for(obj, workload))
    admission = (workload.get("status") or {}).get("admission") or {}
    assigned = [one for one in admission.get("podSetAssignments") or () if one["name"] in mine]
    if not assigned:
        return None
    flavors: dict[str, set[str]] = {}
    amounts: dict[str, Decimal] = {}
    for one in assigned:
        for resource, flavor in (one.get("flavors") or {}).items():
            flavors.setdefault(resource, set()).add(flavor)
        for resource, amount in (one.get("resourceUsage") or {}).items():
            amounts[resource] = amounts.get(resource, Decimal(0)) + parse_quantity(amount)
    return Share({name: next(iter(one)) for name, one in flavors.items() if len(one) == 1}, amounts)


def _is_owners(workload: Obj, owner: Obj) -> bool:
    found = controller_of(workload) or {}
    return bool(found.get("uid") == owner["uid"] and found.get("kind", owner["kind"]) == owner["kind"])


def _belongs(obj: Obj, owner: Obj, workload: Obj) -> bool:
    """Whether this owner's Workload is for `obj`, too."""
    above, own = _type_of(owner), _type_of(obj)
    if above == APPWRAPPER:
        named = any(_components(workload))
        return any(_pod_sets_for(obj, workload)) if named or own in _NAMED_ALWAYS else True
    if above == _FOURNOS_JOB:
        return own == _PIPELINE_RUN and obj["metadata"]["name"] == workload["metadata"]["name"]
    return own not in _NAMED_ALWAYS


def _type_of(obj: Obj) -> tuple[str, str]:
    """Group and kind of an object, or of what a reference names."""
    return str(obj.get("apiVersion") or "").rpartition("/")[0], str(obj.get("kind") or "")


def _pod_sets_for(obj: Obj, workload: Obj) -> Iterator[str]:
    owner_uid = str((controller_of(obj) or {}).get("uid"))
    return (pod_set for pod_set, found in _components(workload) if _names(found, obj, owner_uid))


def _names(found: str, obj: Obj, owner_uid: str) -> bool:
    type_, _, name = found.rpartition("/")
    if generated := _GENERATED.fullmatch(name):
        name = generated_name(generated[1], owner_uid, int(generated[2]))
    # An item of a list of built-in objects does not say what it is.
    known = not obj.get("kind") or type_ == f"{obj['apiVersion']}/{obj['kind']}"
    return bool(known and name == obj["metadata"]["name"])


def _components(workload: Obj) -> Iterator[tuple[str, str]]:
    """Pod set and component, of those pod sets that name one."""
    for pod_set in workload["spec"].get("podSets") or ():
        meta = (pod_set.get("template") or {}).get("metadata") or {}
        found = (meta.get("annotations") or {}).get(COMPONENT_ANNOTATION)
        if found is not None:
            yield pod_set["name"], str(found)
