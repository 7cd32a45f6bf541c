"""State of one reconcile pass: an object of a configured kind, and related objects from the caches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from fournos.engine.api.conditions import condition, is_true
from fournos.engine.kube.resource import Key, Obj, key_of
from fournos.engine.queueing.ensure import prebuilt_name
from fournos.engine.queueing.inputs import QueueInputs
from fournos.engine.queueing.job import QueueOptions
from fournos.engine.runtime.decision import Facts
from fournos.engine.runtime.steps import Patch
from fournos.systems.frameworks import names
from fournos.systems.frameworks.kind_spec import Framework
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
    def options(self) -> QueueOptions:
        return QueueOptions(labels_to_copy=self.framework.labels_to_copy)

    @property
    def held_by_queue(self) -> bool:
        """True if the object is or was held by the queue, not by its user."""
        return self.annotations.get(names.HELD_ANNOTATION) == names.HELD_BY_QUEUE

    def patch(self, body: Mapping[str, Any]) -> Patch:
        """Returns a patch of the object with its resourceVersion as a precondition."""
        version = {"resourceVersion": self.obj["metadata"]["resourceVersion"]}
        meta = {**(body.get("metadata") or {}), **version}
        return Patch(self.framework.resource, self.key, {**body, "metadata": meta})
