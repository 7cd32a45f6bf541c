"""The status under construction: one draft a pass, written once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from fournos.api.conditions import Condition, condition, upsert
from fournos.api.times import parse_time
from fournos.appwrappers.kinds import PodSetSpec
from fournos.kube.resource import Obj
from fournos.runtime.decision import Note


class StatusDraft:
    """A copy of an AppWrapper's status with the changes of this pass, and the events that go with them."""

    def __init__(self, wrapper: Obj, now: datetime) -> None:
        self._now = now
        self._generation = wrapper["metadata"].get("generation")
        self._status: dict[str, Any] = dict(wrapper.get("status") or {})
        self.notes: list[Note] = []

    # --- reading ---

    @property
    def phase(self) -> str:
        return str(self._status.get("phase") or "")

    @property
    def resets(self) -> int:
        return int(self._status.get("resettingCount") or 0)

    @property
    def components(self) -> Sequence[Mapping[str, Any]]:
        return self._status.get("componentStatus") or ()

    def is_true(self, type_: str) -> bool:
        return self._found(type_).get("status") == "True"

    def reason_of(self, type_: str) -> str:
        return str(self._found(type_).get("reason") or "")

    def since(self, *types: str) -> datetime:
        """When the latest of these conditions changed."""
        times = [self._found(type_).get("lastTransitionTime") for type_ in types]
        return max((parse_time(time) for time in times if time), default=self._now)

    def _found(self, type_: str) -> Mapping[str, Any]:
        return condition({"status": self._status}, type_) or {}

    # --- changing ---

    def enter(self, phase: str) -> StatusDraft:
        self._status["phase"] = phase
        return self

    def condition(self, type_: str, status: str, reason: str, message: str = "") -> StatusDraft:
        self._status["conditions"] = upsert(
            self._status.get("conditions") or (),
            Condition(type_, status, reason, message),
            now=self._now,
            generation=self._generation,
        )
        return self

    def clear(self, type_: str, reason: str, message: str = "") -> StatusDraft:
        """To False, if it is not: the time of the last change stays."""
        if self.is_true(type_):
            self.condition(type_, "False", reason, message)
        return self

    def count_reset(self) -> StatusDraft:
        self._status["resettingCount"] = self.resets + 1
        return self

    def note(self, reason: str, message: str, *, warning: bool = False) -> StatusDraft:
        self.notes.append(Note("Warning" if warning else "Normal", reason, message))
        return self

    def fill_components(self, pod_sets: Sequence[Sequence[PodSetSpec]]) -> StatusDraft:
        """One entry a component, before any is made."""
        self._status["componentStatus"] = [
            {"name": "", "kind": "", "apiVersion": "", "podSets": [_pod_set(one) for one in found]}
            for found in pod_sets
        ]
        return self

    def amend_component(self, index: int, **fields: Any) -> StatusDraft:
        components = list(self.components)
        components[index] = {**components[index], **fields}
        self._status["componentStatus"] = components
        return self

    def component_condition(self, index: int, wanted: Condition) -> StatusDraft:
        before = self.components[index].get("conditions") or ()
        return self.amend_component(index, conditions=upsert(before, wanted, now=self._now))

    def done(self) -> Obj:
        return self._status


def _pod_set(one: PodSetSpec) -> dict[str, Any]:
    body: dict[str, Any] = {"path": one.path, "replicas": one.replicas}
    if one.annotations:
        body["annotations"] = dict(one.annotations)
    return body
