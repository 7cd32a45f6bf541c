"""The status under construction: one draft a pass, written once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Self

from fournos.api.conditions import Condition, upsert
from fournos.api.times import parse_time
from fournos.appwrappers.kinds import PodSetSpec
from fournos.runtime.draft import Draft


class StatusDraft(Draft):
    """A copy of an AppWrapper's status with the changes of this pass, and the events that go with them."""

    # --- reading ---

    @property
    def resets(self) -> int:
        return int(self._status.get("resettingCount") or 0)

    @property
    def components(self) -> Sequence[Mapping[str, Any]]:
        return self._status.get("componentStatus") or ()

    def since(self, *types: str) -> datetime:
        """When the latest of these conditions changed."""
        times = [self.found(type_).get("lastTransitionTime") for type_ in types]
        return max((parse_time(time) for time in times if time), default=self._now)

    # --- changing ---

    def enter(self, phase: str) -> Self:
        self._status["phase"] = phase
        return self

    def clear(self, type_: str, reason: str, message: str = "") -> Self:
        """To False, if it is not: the time of the last change stays."""
        if self.is_true(type_):
            self.condition(type_, "False", reason, message)
        return self

    def count_reset(self) -> Self:
        self._status["resettingCount"] = self.resets + 1
        return self

    def fill_components(self, pod_sets: Sequence[Sequence[PodSetSpec]]) -> Self:
        """One entry a component, before any is made."""
        self._status["componentStatus"] = [
            {"name": "", "kind": "", "apiVersion": "", "podSets": [_pod_set(one) for one in found]}
            for found in pod_sets
        ]
        return self

    def amend_component(self, index: int, **fields: Any) -> Self:
        components = list(self.components)
        components[index] = {**components[index], **fields}
        self._status["componentStatus"] = components
        return self

    def component_condition(self, index: int, wanted: Condition) -> Self:
        before = self.components[index].get("conditions") or ()
        return self.amend_component(index, conditions=upsert(before, wanted, now=self._now))


def _pod_set(one: PodSetSpec) -> dict[str, Any]:
    body: dict[str, Any] = {"path": one.path, "replicas": one.replicas}
    if one.annotations:
        body["annotations"] = dict(one.annotations)
    return body
