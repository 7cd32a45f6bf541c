"""Objects of configured kinds as GenericJobs of the queueing framework."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fournos.engine.api.conditions import condition
from fournos.engine.kube.resource import Obj, Resource, joined, key_of, nested, read
from fournos.engine.queueing.ensure import prebuilt_name
from fournos.engine.queueing.job import MULTIKUEUE, Ended
from fournos.engine.queueing.podsets import PodSetInfo
from fournos.engine.queueing.workload import PodSet
from fournos.engine.runtime.decision import Patch, Step
from fournos.systems.frameworks import kinds
from fournos.systems.frameworks.build import known_pod_sets, placement, pod_sets, restored
from fournos.systems.frameworks.kinds import FinishRule, Framework


def annotations_of(obj: Obj) -> Mapping[str, str]:
    return obj["metadata"].get("annotations") or {}


@dataclass(frozen=True, slots=True)
class QueuedObject:
    """An object that is held again when it has to stop."""

    framework: Framework
    obj: Obj
    evicted: str = ""
    """Kueue's reason, if its Workload is evicted."""
    workload: Obj | None = None
    """Its Workload, if there is exactly one that is not finished."""

    @property
    def resource(self) -> Resource:
        return self.framework.resource

    def pod_sets(self) -> Sequence[PodSet]:
        """Returns the requested pod sets.  Raises RequestsError."""
        if self.workload is not None and not self._may_change():
            return known_pod_sets(self.workload)
        return pod_sets(self.framework, self.obj)

    def _may_change(self) -> bool:
        """True if the requests may change now.

        An object that runs to its end keeps those that it was released with.
        """
        return True

    def is_suspended(self) -> bool:
        hold = self.framework.hold
        return bool(read(self.obj, hold.path) == hold.held)

    def is_active(self) -> bool:
        active = self.framework.active
        if active is not None:
            return active.holds(read(self.obj, active.path))
        return not self.is_suspended() and self.ended() is None

    def finished(self) -> Ended | None:
        """Returns how the object ended; None for one that another cluster runs.

        MultiKueue decides on the end there, because a copy that was stopped may run again.
        """
        return None if self.managed_by() == MULTIKUEUE else self.ended()

    def ended(self) -> Ended | None:
        """Returns how the object ended, by its status; None if it has not."""
        ended = next(filter(None, (_ended(rule, self.obj) for rule in self.framework.finished)), None)
        why = annotations_of(self.obj).get(kinds.STOPPED_ANNOTATION)
        if ended is not None and why and not ended.succeeded:
            return Ended(False, f"Stopped by the queue: {why}")
        return ended

    def pods_ready(self) -> bool:
        ready = self.framework.ready
        return ready.holds(read(self.obj, ready.path)) if ready is not None else not self.is_suspended()

    def start(self, infos: Sequence[PodSetInfo]) -> Obj:
        """Returns the merge patch that places and releases the object.

        Raises PodSetInfoError if the kind has no field for the placement.
        """
        return joined(placement(self.framework, self.obj, infos), self.released())

    def released(self) -> dict[str, Any]:
        return nested(self.framework.hold.path, self.framework.hold.released)

    def stop(self, infos: Sequence[PodSetInfo] | None) -> Obj:
        """Returns the merge patch that holds the object again; `infos` also restore its pod templates."""
        hold = nested(self.framework.hold.path, self.framework.hold.held)
        return joined(restored(self.framework, self.obj, infos), hold) if infos is not None else hold

    def managed_by(self) -> str | None:
        path = self.framework.managed_by
        value: str | None = read(self.obj, path) if path else None
        return value

    def may_default_managed_by(self) -> bool:
        return self.framework.managed_by is not None and not self.managed_by()


@dataclass(frozen=True, slots=True)
class EndedByStop(QueuedObject):
    """An object that cannot be held again: it is ended, and an annotation records the reason."""

    def stop_steps(self, infos: Sequence[PodSetInfo] | None, reason: str, message: str) -> Sequence[Step]:
        if self.is_suspended() or self.is_stopped() or self.ended() is not None:
            return ()
        return (self.ending(self.evicted or reason, message),)

    def _may_change(self) -> bool:
        return self.is_suspended()

    def is_stopped(self) -> bool:
        """True if its end was requested, by the queue or by a user."""
        stop = self.framework.stop
        return stop is not None and bool(read(self.obj, stop.path) == stop.value)

    def ending(self, reason: str, message: str) -> Patch:
        """Returns the patch that ends the object, with the reason as an annotation.

        resourceVersion is a precondition: an end cannot be undone, so it must not follow from a stale view.
        """
        stop = self.framework.stop
        assert stop is not None
        text = f"{reason}: {message}"[: kinds.TEXT_MAX]
        meta = {
            "resourceVersion": self.obj["metadata"]["resourceVersion"],
            "annotations": {kinds.STOPPED_ANNOTATION: text},
        }
        return Patch(self.resource, key_of(self.obj), {"metadata": meta, **nested(stop.path, stop.value)})


@dataclass(frozen=True, slots=True)
class HandedBack(EndedByStop):
    """An object that was stopped on a worker: its Workload goes back to the manager cluster.

    The manager cluster may run the job elsewhere.  If the Workload finished here, the job would fail there,
    too.  It must not be admitted here a second time.
    """

    def finished(self) -> Ended | None:
        return None

    def held_back(self) -> bool:
        return True


def queued(framework: Framework, obj: Obj, evicted: str = "", workload: Obj | None = None) -> QueuedObject:
    """Returns the object as the GenericJob that fits its kind and state."""
    if framework.stop is None:
        return QueuedObject(framework, obj, evicted, workload)
    stopped = EndedByStop(framework, obj, evicted, workload)
    if prebuilt_name(obj) and evicted and kinds.STOPPED_ANNOTATION in annotations_of(obj):
        ended = stopped.ended()
        if ended is None or not ended.succeeded:
            return HandedBack(framework, obj, evicted, workload)
    return stopped


def _ended(rule: FinishRule, obj: Obj) -> Ended | None:
    text = str(read(obj, rule.message) or "") if rule.message else ""
    if rule.path:
        value = read(obj, rule.path)
        if value in rule.succeeded and value is not None:
            return Ended(True, text or f"{rule.path} is {value}")
        if value in rule.failed and value is not None:
            return Ended(False, text or f"{rule.path} is {value}")
        return None
    reported = condition(obj, rule.condition) or {}
    text = text or str(reported.get("message") or reported.get("reason") or "")
    if reported.get("status") == "True":
        return Ended(rule.means != "failed", text)
    if reported.get("status") == "False" and rule.means == "both":
        return Ended(False, text)
    return None
