"""What every system of queued objects watches of Kueue, and reads of it about one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from fournos.kube.resource import Key, Obj, controller_of, key_of
from fournos.queueing.ancestors import ancestor_among
from fournos.queueing.ensure import prebuilt_name
from fournos.queueing.inputs import QueueInputs
from fournos.queueing.kinds import PRIORITY_CLASS, RESOURCE_FLAVOR, WORKLOAD, WORKLOAD_PRIORITY_CLASS
from fournos.runtime.controller import Caches, Watch
from fournos.runtime.projection import controller_uid, nobody

CONTROLLER: Final = "controller"
"""An index: the UID of who controls it."""
OWNERS: Final = "owners"
"""An index of the Workloads: who owns them, as the system names its objects; also one that is gone, for
Workloads of an earlier object of the same name have to go."""


def queue_watches(
    *, wakes: Callable[[Obj, Caches], Iterable[Key]], owners: Callable[[Obj], Iterable[str]]
) -> tuple[Watch, ...]:
    """All namespaces; of a cluster without Kueue there is nothing to see."""
    return (
        Watch(WORKLOAD, wakes=wakes, indexes={CONTROLLER: controller_uid, OWNERS: owners}, required=False),
        Watch(RESOURCE_FLAVOR, wakes=nobody, required=False),
        Watch(WORKLOAD_PRIORITY_CLASS, wakes=nobody, required=False),
        Watch(PRIORITY_CLASS, wakes=nobody),
    )


def queue_inputs(caches: Caches, obj: Obj, owner: str) -> QueueInputs:
    """Of an object whose Workloads the index `OWNERS` has under `owner`."""
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
