"""A draft of an object's status: changed during a pass, written once at its end."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Self, TypeVar

from fournos.engine.api.conditions import Condition, condition, upsert
from fournos.engine.api.crd import Model, StatusCondition
from fournos.engine.kube.resource import Obj
from fournos.engine.runtime.decision import EventRecord

_NOTE_MAX = 1024
"""Maximum length of an Event's message in Kubernetes, in characters."""


M = TypeVar("M", bound=Model)


def read(model: type[M], status: Mapping[str, Any], *names: str) -> M:
    """Returns these fields of a status as a model, by their JSON names.

    Other fields are not read: a field that another client has made invalid must not hide the valid ones.
    """
    return model.model_validate({name: status[name] for name in names if status.get(name) is not None})


class Draft:
    """A copy of an object's status with the changes and the events of this pass.

    Each kind derives a class with methods for its own status fields.
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
        """Returns the condition of this type, if any."""
        found = self._condition(type_)
        return StatusCondition.model_validate(found) if found else None

    def reason_of(self, type_: str) -> str:
        return str(self._condition(type_).get("reason") or "")

    def is_unknown(self, type_: str) -> bool:
        return self._condition(type_).get("status") == "Unknown"

    def is_true(self, type_: str) -> bool:
        return self._condition(type_).get("status") == "True"

    def is_false(self, type_: str) -> bool:
        return self._condition(type_).get("status") == "False"

    def _condition(self, type_: str) -> Mapping[str, Any]:
        # Without validation: a pass reads single fields of conditions very often.
        return condition({"status": self._status}, type_) or {}

    # --- changing ---

    def put(self, **fields: Any) -> Self:
        """Sets top-level fields by their JSON names; None removes a field."""
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
        """Returns the whole wanted status; the draft does not change."""
        return self._status
