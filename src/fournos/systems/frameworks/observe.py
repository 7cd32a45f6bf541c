"""Reads from the caches, and the state of a pass: watches, projections, indexes, `Observed` and `Context`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.resource import Key, Obj, joined, key_of, only, read
from fournos.engine.queueing.ensure import prebuilt_name
from fournos.engine.queueing.job import QueueInputs
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.observe import CONTROLLER, OWNERS, queue_inputs, queue_watches
from fournos.engine.queueing.workload import QUEUE_NAME_LABEL
from fournos.engine.runtime.controller import (
    Caches,
    Watch,
    controller_uid,
    metadata,
    of_each,
    of_owners,
    own_key,
)
from fournos.engine.runtime.decision import Facts, Patch
from fournos.systems.frameworks import kinds
from fournos.systems.frameworks.kinds import Framework
from fournos.systems.frameworks.queued import QueuedObject, annotations_of, queued


@dataclass(frozen=True, slots=True)
class Observed:
    """An object, or the Workloads that remain of a deleted one."""

    key: Key
    obj: Obj | None
    inputs: QueueInputs = field(default_factory=QueueInputs)

    @property
    def primary(self) -> Obj:
        return self.obj if self.obj is not None else self.inputs.workloads[0]


@dataclass(frozen=True, slots=True)
class Context:
    """The state of a pass for an object that exists."""

    framework: Framework
    obj: Obj
    inputs: QueueInputs
    facts: Facts
    now: datetime

    @property
    def key(self) -> Key:
        return key_of(self.obj)

    @property
    def annotations(self) -> Mapping[str, str]:
        return annotations_of(self.obj)

    @property
    def prebuilt(self) -> str:
        return prebuilt_name(self.obj)

    @property
    def workloads(self) -> tuple[Obj, ...]:
        prebuilt = self.inputs.prebuilt
        return (*self.inputs.workloads, *((prebuilt,) if prebuilt is not None else ()))

    @property
    def job(self) -> QueuedObject:
        """The object as a GenericJob, with the reason of its eviction if it is evicted."""
        going = [one for one in self.workloads if not is_true(one, "Finished")]
        evicted = next((one for one in going if is_true(one, "Evicted")), None)
        reason = str((condition(evicted, "Evicted") or {}).get("reason") or "") if evicted else ""
        return queued(self.framework, self.obj, reason, going[0] if len(going) == 1 else None)

    @property
    def held_by_queue(self) -> bool:
        """True if the object is or was held by the queue, not by its user."""
        return self.annotations.get(kinds.HELD_ANNOTATION) == kinds.HELD_BY_QUEUE

    def patch(self, body: Mapping[str, Any]) -> Patch:
        """Returns a patch of the object with its resourceVersion as a precondition."""
        version = {"resourceVersion": self.obj["metadata"]["resourceVersion"]}
        meta = {**(body.get("metadata") or {}), **version}
        return Patch(self.framework.resource, self.key, {**body, "metadata": meta})


# --- reads from the caches -----------------------------------------------------------------------------

PREBUILT = "prebuilt"


def watches(framework: Framework) -> tuple[Watch, ...]:
    """Returns the watches, in all namespaces.

    Of the kind, only objects with a queue name are watched.  Its CRD may be installed later.
    """
    return (
        Watch(
            framework.resource,
            selector=QUEUE_NAME_LABEL,
            wakes=own_key,
            indexes={CONTROLLER: controller_uid, PREBUILT: _prebuilt},
            project=_projection(framework),
            required=False,
        ),
        *queue_watches(wakes=_workload_wakes(framework), owners=_owners),
    )


class Observer:
    """Builds `Observed` from the caches."""

    def __init__(self, framework: Framework) -> None:
        self._framework = framework

    def __call__(self, caches: Caches, key: Key) -> Observed | None:
        resource = self._framework.resource
        obj = caches[resource].get(key)
        owner = _owner_key(resource.api_version, resource.kind, key)
        if obj is None:
            owned = caches[WORKLOAD].by(OWNERS, owner)
            return Observed(key, None, QueueInputs(workloads=owned)) if owned else None
        return Observed(key, obj, queue_inputs(caches, obj, owner))


def left_over(framework: Framework) -> Callable[[Caches], Iterable[Key]]:
    """Returns a function that yields the keys of Workload owners that no longer exist.

    Their deletion may have happened while no watch was running.
    """
    resource = framework.resource

    def keys(caches: Caches) -> Iterable[Key]:
        owners = of_each(caches[WORKLOAD], lambda obj: of_owners(obj, resource), f"owners of {resource}")
        for keys in owners:
            yield from (key for key in keys if caches[resource].get(key) is None)

    return keys


# --- indexes -----------------------------------------------------------------------------------------


def _owner_key(api_version: str, kind: str, key: Key) -> str:
    return f"{api_version} {kind} {key}"


def _owners(workload: Obj) -> Iterable[str]:
    """Index by the owner's name, not UID, to find Workloads of an earlier object of the same name, too."""
    namespace = workload["metadata"]["namespace"]
    return tuple(
        _owner_key(one["apiVersion"], one["kind"], Key(namespace, one["name"]))
        for one in workload["metadata"].get("ownerReferences") or ()
    )


def _prebuilt(obj: Obj) -> Iterable[str]:
    name = prebuilt_name(obj)
    return (str(Key(key_of(obj).namespace, name)),) if name else ()


# --- event mapping: which keys a change enqueues -----------------------------------------------------


def _workload_wakes(framework: Framework) -> Callable[[Obj, Caches], Iterable[Key]]:
    """Enqueues owners of this kind, objects that the Workload is prebuilt for, and those using its quota."""
    resource = framework.resource

    def wakes(workload: Obj, caches: Caches) -> Iterable[Key]:
        yield from of_owners(workload, resource)
        for obj in caches[resource].by(PREBUILT, str(key_of(workload))):
            yield key_of(obj)
        for uid in controller_uid(workload):
            for obj in caches[resource].by(CONTROLLER, uid):
                yield key_of(obj)

    return wakes


# --- projections: the fields that decisions read ------------------------------------------------------


def _projection(framework: Framework) -> Callable[[Obj], Obj]:
    paths = tuple(framework.paths())

    def project(obj: Obj) -> Obj:
        meta = metadata(obj)
        annotations = obj["metadata"].get("annotations") or {}
        own = {key: value for key, value in annotations.items() if key != kinds.LAST_APPLIED}
        fields = only(obj, paths)
        conditions = read(fields, "status.conditions")
        if conditions is not None:  # the kind's own definition may allow anything there
            listed = conditions if isinstance(conditions, list) else []
            kept = [found for found in listed if isinstance(found, Mapping)]
            fields = joined(fields, {"status": {"conditions": kept}})
        return {"metadata": {**meta, "annotations": own}, "spec": {}, **fields}

    return project
