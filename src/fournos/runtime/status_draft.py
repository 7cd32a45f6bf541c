"""A status under construction: one draft a pass, written once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Self, TypeVar

from fournos.api.conditions import Condition, condition, upsert
from fournos.api.model import Model, StatusCondition
from fournos.kube.resource import Obj
from fournos.runtime.decision import EventRecord

_NOTE_MAX = 1024
"""Kubernetes takes no longer message of an Event."""


M = TypeVar("M", bound=Model)


def read(model: type[M], status: Mapping[str, Any], *names: str) -> M:
    """These fields of a status, by their JSON names and by their types.

    Only these: a field that another writer has spoiled must not hide the others.
    """
    return model.model_validate({name: status[name] for name in names if status.get(name) is not None})


class Draft:
    """A copy of an object's status with the changes of this pass, and the events that go with them.

    Each system adds what its kind's status has of its own.
    """

    def __init__(self, obj: Obj, now: datetime) -> None:
        self._now = now
        self._generation = obj["metadata"].get("generation")
        self._status: dict[str, Any] = dict(obj.get("status") or {})
        self.events: list[EventRecord] = []

    # --- reading ---

    @property
    def phase(self) -> str:
        return str(self._status.get("phase") or "")

    @property
    def message(self) -> str:
        return str(self._status.get("message") or "")

    def found(self, type_: str) -> StatusCondition | None:
        """The condition of this type, if any."""
        found = self._condition(type_)
        return StatusCondition.model_validate(found) if found else None

    def reason_of(self, type_: str) -> str:
        return str(self._condition(type_).get("reason") or "")

    def is_true(self, type_: str) -> bool:
        return self._condition(type_).get("status") == "True"

    def is_false(self, type_: str) -> bool:
        return self._condition(type_).get("status") == "False"

    def _condition(self, type_: str) -> Mapping[str, Any]:
        # Not validated: passes ask for single words of conditions very often.
        return condition({"status": self._status}, type_) or {}

    # --- changing ---

    def put(self, **fields: Any) -> Self:
        """Set top-level fields by their JSON names; None removes one."""
        for name, value in fields.items():
            if value is None:
                self._status.pop(name, None)
            else:
                self._status[name] = value
        return self

    def condition(self, type_: str, status: str | bool, reason: str, message: str = "") -> Self:
        self._status["conditions"] = upsert(
            self._status.get("conditions") or (),
            Condition(type_, str(status), reason, message),
            now=self._now,
            generation=self._generation,
        )
        return self

    def event(self, reason: str, message: str, *, warning: bool = False) -> Self:
        self.events.append(EventRecord("Warning" if warning else "Normal", reason, message[:_NOTE_MAX]))
        return self

    def render(self) -> Mapping[str, Any]:
        """The whole wanted status; the draft stays as it is."""
        return self._status
