"""What one pass works with: an object of a configured kind, and what the caches hold about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from fournos.api.conditions import condition, is_true
from fournos.frameworks import names
from fournos.frameworks.queued import QueuedObject, annotations_of, queued
from fournos.frameworks.table import Framework
from fournos.kube.resource import Key, Obj, key_of
from fournos.queueing.ensure import prebuilt_name
from fournos.queueing.surroundings import Surroundings
from fournos.runtime.decision import Decision, Facts, Note
from fournos.runtime.steps import Patch, Step


@dataclass(frozen=True, slots=True)
class Observed:
    """An object, or the Workloads that it has left behind."""

    key: Key
    obj: Obj | None
    around: Surroundings = field(default_factory=Surroundings)
    gated_pods: int = 0
    """Pods of it that Kueue's own pod integration queues a second time."""

    @property
    def primary(self) -> Obj:
        return self.obj if self.obj is not None else self.around.workloads[0]


@dataclass(frozen=True, slots=True)
class Context:
    """Of an object that is there."""

    framework: Framework
    obj: Obj
    around: Surroundings
    gated_pods: int
    facts: Facts
    now: datetime
    max_attempts: int

    @property
    def key(self) -> Key:
        return key_of(self.obj)

    @property
    def annotations(self) -> Mapping[str, str]:
        return annotations_of(self.obj)

    @property
    def prebuilt(self) -> bool:
        return bool(prebuilt_name(self.obj))

    @property
    def workloads(self) -> tuple[Obj, ...]:
        prebuilt = self.around.prebuilt
        return (*self.around.workloads, *((prebuilt,) if prebuilt is not None else ()))

    @property
    def job(self) -> QueuedObject:
        evicted = (condition(one, "Evicted") for one in self.workloads if not is_true(one, "Finished"))
        reasons = [str(one["reason"]) for one in evicted if one and one.get("status") == "True"]
        return queued(self.framework, self.obj, reasons[0] if reasons else "")

    @property
    def held_by_queue(self) -> bool:
        """Whether its hold, now or once, is the queue's."""
        return (
            not self.framework.hold.users_too
            or self.annotations.get(names.HELD_ANNOTATION) == names.HELD_BY_QUEUE
        )

    def patch(self, body: Mapping[str, Any]) -> Patch:
        """Of the object; refused if it has changed since it was seen."""
        version = {"resourceVersion": self.obj["metadata"]["resourceVersion"]}
        meta = {**(body.get("metadata") or {}), **version}
        return Patch(self.framework.resource, self.key, {**body, "metadata": meta})

    def annotate(self, **values: str | None) -> Patch:
        raise NotImplementedError

    def say(
        self,
        reason: str,
        message: str,
        *,
        steps: tuple[Step, ...] = (),
        kind: str = "Warning",
        retry: bool = False,
    ) -> Decision:
        """Told once, and written on the object as long as it is so."""
        raise NotImplementedError


def warning(reason: str, message: str) -> tuple[str, Note]:
    """The annotation's text and the event."""
    return f"{reason}: {message}"[: names.TEXT_MAX], Note("Warning", reason, message)
