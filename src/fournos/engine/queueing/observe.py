"""The watches and reads of Kueue's objects that all operators of queued kinds share."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, TypeAlias

from fournos.engine.api.conditions import is_true
from fournos.engine.api.values import quantity_of
from fournos.engine.kube.resource import PRIORITY_CLASS, Key, Obj, controller_of, key_of, newest
from fournos.engine.queueing.ensure import prebuilt_name
from fournos.engine.queueing.job import Ancestor, QueueInputs
from fournos.engine.queueing.kinds import RESOURCE_FLAVOR, WORKLOAD, WORKLOAD_PRIORITY_CLASS
from fournos.engine.queueing.workload import JOB_UID_LABEL
from fournos.engine.runtime.controller import Caches, Watch, controller_uid, no_keys
from fournos.engine.runtime.decision import Facts, LiveList, Present, Unknown

# --- quotas -----------------------------------------------------------------------------------------
# Reads the quotas of a ClusterQueue, and what Workloads have reserved of them.  Pure.

At: TypeAlias = tuple[str, str]
"""The names of a flavor and a resource."""


def covered(cluster_queue: Obj) -> Iterator[str]:
    """Yields the names of the resources that a ClusterQueue covers, by group."""
    for group in (cluster_queue.get("spec") or {}).get("resourceGroups") or ():
        yield from map(str, group.get("coveredResources") or ())


def quotas_of(cluster_queue: Obj) -> Iterator[tuple[At, Mapping[str, Any]]]:
    """Yields flavor and resource with their quota as written: nominalQuota, borrowingLimit, lendingLimit."""
    for group in (cluster_queue.get("spec") or {}).get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for quota in flavor.get("resources") or ():
                yield (str(flavor["name"]), str(quota["name"])), quota


def reserved(cluster_queue: Obj) -> dict[At, Decimal]:
    """Returns (flavor, resource) → the reserved quota."""
    return {
        (flavor["name"], resource["name"]): quantity_of(resource.get("total") or 0)
        for flavor in (cluster_queue.get("status") or {}).get("flavorsReservation") or ()
        for resource in flavor.get("resources") or ()
    }


# --- nested jobs ------------------------------------------------------------------------------------
# Nested jobs: an object that belongs to a queued job runs on its quota and gets no Workload of its own.
#
# This is Kueue's rule; the components of an AppWrapper are the usual case.  A queued owner is found by its
# Workload: Kueue's own kinds and ours label the Workload with the owner's UID.  Any user may write an owner
# reference, so a reference alone gives no right to the quota.  The Workload of an AppWrapper therefore
# names the component of each pod set, and the Workload of a FournosJob has the name of its PipelineRun.
# FournosJobs and MiniClusters always request quota of their own.

COMPONENT_ANNOTATION: Final = "fournos.dev/component"
"""Annotation on the pod template of a pod set in an AppWrapper's Workload: the component of the pod set."""
_GENERATED: Final = re.compile(r"(.*)\{([0-9]{1,3})\}", re.ASCII)
_APPWRAPPER: Final = ("workload.codeflare.dev", "AppWrapper")
_FOURNOS_JOB: Final = ("fournos.dev", "FournosJob")
_MINICLUSTER: Final = ("flux-framework.org", "MiniCluster")
_PIPELINE_RUN: Final = ("tekton.dev", "PipelineRun")
_NEVER_NESTED: Final = frozenset({_FOURNOS_JOB, _MINICLUSTER})
"""Kinds that request quota of their own, whatever controls them."""


def component(template: Obj, index: int) -> str:
    """Returns the annotation's value for a component.

    A generated name depends on the owner's UID, which differs on each cluster, so its prefix and index are
    used.
    """
    meta = template.get("metadata") or {}
    name = meta.get("name") or f"{meta.get('generateName', '')}{{{index}}}"
    return f"{template['apiVersion']}/{template['kind']}/{name}"


def generated_name(prefix: str, owner_uid: str, index: int) -> str:
    """Returns the name of a component with generateName; it is always the same for this owner."""
    return prefix + hashlib.sha256(f"{owner_uid}/{index}".encode()).hexdigest()[:5]


def ancestor_among(obj: Obj, workloads: Iterable[Obj]) -> Ancestor | None:
    """Returns the controller of `obj` if it has quota for `obj` to run on.

    `workloads`: the Workloads controlled by that controller, from a cache or from the API server.
    """
    owner = None if _type_of(obj) in _NEVER_NESTED else controller_of(obj)
    held = [workload for workload in workloads if owner and _is_owners(workload, owner)]
    if owner is None or not held:
        return None
    going = [workload for workload in held if not is_true(workload, "Finished")]
    latest = newest(going)
    if not _belongs(obj, owner, latest or held[0]):
        return None
    return Ancestor(Key(key_of(obj).namespace, owner["name"]), str(owner["kind"]), latest)


def ancestor_questions(obj: Obj) -> tuple[LiveList, ...]:
    """Returns the questions of `live_ancestor`; none for an object without a controller."""
    owner = controller_of(obj)
    if owner is None or _type_of(obj) in _NEVER_NESTED:
        return ()
    return (LiveList(WORKLOAD, key_of(obj).namespace, f"{JOB_UID_LABEL}={owner['uid']}"),)


def live_ancestor(obj: Obj, facts: Facts) -> Ancestor | Unknown | None:
    """Returns the ancestor as the API server has it now.

    A live read before a job with a controller gets a Workload: a cache may show the job before the Workload
    of its owner.
    """
    questions = ancestor_questions(obj)
    if not questions:
        return None
    (answer,) = facts.require_all(questions)
    if isinstance(answer, Unknown):
        return answer
    return ancestor_among(obj, answer.value if isinstance(answer, Present) else ())


def _is_owners(workload: Obj, owner: Obj) -> bool:
    found = controller_of(workload) or {}
    return bool(found.get("uid") == owner["uid"] and found.get("kind", owner["kind"]) == owner["kind"])


def _belongs(obj: Obj, owner: Obj, workload: Obj) -> bool:
    """True if the owner's Workload also holds the quota of `obj`."""
    above, own = _type_of(owner), _type_of(obj)
    if above == _APPWRAPPER:
        named = any(_components(workload))
        return any(_pod_sets_for(obj, workload)) if named or own == _PIPELINE_RUN else True
    if above == _FOURNOS_JOB:
        return own == _PIPELINE_RUN and obj["metadata"]["name"] == workload["metadata"]["name"]
    return own != _PIPELINE_RUN


def _type_of(obj: Obj) -> tuple[str, str]:
    """Returns group and kind of an object, or of the object that a reference names."""
    return str(obj.get("apiVersion") or "").rpartition("/")[0], str(obj.get("kind") or "")


def _pod_sets_for(obj: Obj, workload: Obj) -> Iterator[str]:
    owner_uid = str((controller_of(obj) or {}).get("uid"))
    return (pod_set for pod_set, found in _components(workload) if _names(found, obj, owner_uid))


def _names(found: str, obj: Obj, owner_uid: str) -> bool:
    type_, _, name = found.rpartition("/")
    if generated := _GENERATED.fullmatch(name):
        name = generated_name(generated[1], owner_uid, int(generated[2]))
    # An item of a list of built-in objects has no apiVersion and kind.
    known = not obj.get("kind") or type_ == f"{obj['apiVersion']}/{obj['kind']}"
    return bool(known and name == obj["metadata"]["name"])


def _components(workload: Obj) -> Iterator[tuple[str, str]]:
    """Returns pod set and component for each pod set that names a component."""
    for pod_set in workload["spec"].get("podSets") or ():
        meta = (pod_set.get("template") or {}).get("metadata") or {}
        found = (meta.get("annotations") or {}).get(COMPONENT_ANNOTATION)
        if found is not None:
            yield pod_set["name"], str(found)


CONTROLLER: Final = "controller"
"""Index: the UID of the object's controller."""
OWNERS: Final = "owners"
"""Index of the Workloads by owner, in the operator's own naming of its objects.

An owner that is gone is included, because the Workloads of an earlier object with the same name must be
deleted.
"""


def queue_watches(
    *, wakes: Callable[[Obj, Caches], Iterable[Key]], owners: Callable[[Obj], Iterable[str]]
) -> tuple[Watch, ...]:
    """Returns the watches, over all namespaces; on a cluster without Kueue their caches are empty."""
    return (
        Watch(WORKLOAD, wakes=wakes, indexes={CONTROLLER: controller_uid, OWNERS: owners}, required=False),
        Watch(RESOURCE_FLAVOR, wakes=no_keys, required=False),
        Watch(WORKLOAD_PRIORITY_CLASS, wakes=no_keys, required=False),
        Watch(PRIORITY_CLASS, wakes=no_keys),
    )


def queue_inputs(caches: Caches, obj: Obj, owner: str) -> QueueInputs:
    """Returns the inputs for an object whose Workloads are in the index `OWNERS` under `owner`."""
    workloads, prebuilt, controller = caches[WORKLOAD], prebuilt_name(obj), controller_of(obj)
    held = workloads.by(CONTROLLER, str(controller["uid"])) if controller else ()
    return QueueInputs(
        workloads=workloads.by(OWNERS, owner),
        prebuilt=workloads.get(Key(key_of(obj).namespace, prebuilt)) if prebuilt else None,
        flavors={one["metadata"]["name"]: one for one in caches[RESOURCE_FLAVOR]},
        workload_classes={one["metadata"]["name"]: one for one in caches[WORKLOAD_PRIORITY_CLASS]},
        pod_classes={one["metadata"]["name"]: one for one in caches[PRIORITY_CLASS]},
        ancestor=ancestor_among(obj, held),
    )
