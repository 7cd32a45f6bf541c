"""The watches and reads of Kueue's objects that all operators of queued kinds share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from fournos.engine.kube.resource import PRIORITY_CLASS, Key, Obj, controller_of, key_of
from fournos.engine.queueing.ancestors import ancestor_among
from fournos.engine.queueing.ensure import prebuilt_name
from fournos.engine.queueing.inputs import QueueInputs
from fournos.engine.queueing.kinds import RESOURCE_FLAVOR, WORKLOAD, WORKLOAD_PRIORITY_CLASS
from fournos.engine.runtime.controller import Caches, Watch, controller_uid, no_keys

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
