"""The status draft of an AppWrapper. Each pass has one draft and writes it once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Self

from fournos.api.appwrapper import AppWrapperStatus, ComponentStatus
from fournos.engine.api.conditions import Condition, upsert
from fournos.engine.kube.resource import Obj
from fournos.engine.runtime.status_draft import Draft, read
from fournos.systems.appwrappers.kinds import PodSetSpec


def component_status(status: Mapping[str, Any], index: int) -> ComponentStatus | None:
    """Returns the status of one component only, because there may be a hundred."""
    entries: Sequence[Mapping[str, Any]] = status.get("componentStatus") or ()
    return ComponentStatus.model_validate(entries[index]) if index < len(entries) else None


def phase_of(wrapper: Obj) -> str:
    """Returns status.phase; "" before the first phase."""
    return read(AppWrapperStatus, wrapper.get("status") or {}, "phase").phase or ""


class StatusDraft(Draft):
    """A copy of an AppWrapper's status with the changes of this pass, and the events to record with them."""

    # --- reading ---

    @property
    def resets(self) -> int:
        return read(AppWrapperStatus, self._status, "resettingCount").resetting_count or 0

    @property
    def components(self) -> tuple[ComponentStatus, ...]:
        return read(AppWrapperStatus, self._status, "componentStatus").component_status

    def component(self, index: int) -> ComponentStatus | None:
        """Returns the status of a component; None before it has an entry."""
        return component_status(self._status, index)

    def since(self, *types: str) -> datetime:
        """Returns the time of the latest transition of these conditions; the pass's time if there is none."""
        found = (self.found(type_) for type_ in types)
        times = (one.last_transition_time for one in found if one is not None)
        return max((time for time in times if time is not None), default=self._now)

    # --- changing ---

    def enter(self, phase: str) -> Self:
        self._status["phase"] = phase
        return self

    def clear(self, type_: str, reason: str, message: str = "") -> Self:
        """Sets a condition to False only if it is True, so that its transition time stays otherwise."""
        if self.is_true(type_):
            self.condition(type_, "False", reason, message)
        return self

    def count_reset(self) -> Self:
        self._status["resettingCount"] = self.resets + 1
        return self

    def fill_components(self, pod_sets: Sequence[Sequence[PodSetSpec]]) -> Self:
        """Writes one entry per component, before any component is created."""
        self._status["componentStatus"] = [
            {"name": "", "kind": "", "apiVersion": "", "podSets": [_pod_set(one) for one in found]}
            for found in pod_sets
        ]
        return self

    def amend_component(self, index: int, **fields: Any) -> Self:
        components = list(self._status["componentStatus"])
        components[index] = {**components[index], **fields}
        self._status["componentStatus"] = components
        return self

    def component_condition(self, index: int, wanted: Condition) -> Self:
        before = self._status["componentStatus"][index].get("conditions") or ()
        return self.amend_component(index, conditions=upsert(before, wanted, now=self._now))


def _pod_set(pod_set: PodSetSpec) -> dict[str, Any]:
    body: dict[str, Any] = {"path": pod_set.path, "replicas": pod_set.replicas}
    if pod_set.annotations:
        body["annotations"] = dict(pod_set.annotations)
    return body
