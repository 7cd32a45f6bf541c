"""The base of the pass contexts of all controllers: the object, the facts, the status draft, the decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Self, TypeVar

from pydantic import ValidationError

from fournos.engine.api.conditions import Condition, condition, upsert
from fournos.engine.api.crd import Model, StatusCondition
from fournos.engine.kube.resource import Obj, Resource, controls, is_terminating, key_of
from fournos.engine.runtime.decision import Decision, EventRecord, Facts, LiveGet, Patch, Present, Step

# --- the finalizer ----------------------------------------------------------------------------------
# Our finalizer on an object: added before anything depends on it, removed last.


def holds(obj: Obj, finalizer: str) -> bool:
    """True if the object has this finalizer."""
    return finalizer in (obj["metadata"].get("finalizers") or ())


def switched(obj: Obj, finalizer: str, *, on: bool) -> dict[str, Any]:
    """Returns the `metadata` of a merge patch that adds the finalizer (`on`) or removes it.

    A merge patch replaces the whole list.  The resourceVersion is a precondition, so that a finalizer that
    another client has added meanwhile is not lost.
    """
    meta = obj["metadata"]
    rest = [name for name in meta.get("finalizers") or () if name != finalizer]
    wanted = [*rest, finalizer] if on else rest
    return {"resourceVersion": meta["resourceVersion"], "finalizers": wanted or None}


# --- the status -------------------------------------------------------------------------------------
# A draft of an object's status: changed during a pass, written once at its end.

_NOTE_MAX = 1024
"""Maximum length of an Event's message in Kubernetes, in characters."""


M = TypeVar("M", bound=Model)


def read(model: type[M], status: Mapping[str, Any], *names: str) -> M:
    """Returns these fields of a status as a model, by their JSON names.

    Other fields are not read, and a field that another client has made invalid counts as absent: it must
    neither hide the valid ones nor stop the passes over its object.
    """
    given = {name: status[name] for name in names if status.get(name) is not None}
    try:
        return model.model_validate(given)
    except ValidationError as error:
        invalid = {problem["loc"][0] for problem in error.errors()}
        return model.model_validate({name: value for name, value in given.items() if name not in invalid})


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
        """Returns the condition of this type, if any; an invalid one counts as absent."""
        found = self._condition(type_)
        try:
            return StatusCondition.model_validate(found) if found else None
        except ValidationError:
            return None

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


class PassContext:
    """One decision in progress.  Each kind derives a dataclass with at least `facts` and `draft`."""

    __slots__ = ()

    resource: ClassVar[Resource]
    finalizer_name: ClassVar[str]
    facts: Facts
    draft: Draft

    @property
    def obj(self) -> Obj:
        """The object that is reconciled, as the cache has it."""
        raise NotImplementedError

    @property
    def name(self) -> str:
        return key_of(self.obj).name

    @property
    def namespace(self) -> str:
        return key_of(self.obj).namespace

    @property
    def deleting(self) -> bool:
        return is_terminating(self.obj)

    @property
    def holds_finalizer(self) -> bool:
        return holds(self.obj, self.finalizer_name)

    def owns(self, obj: Obj) -> bool:
        return controls(self.obj, obj)

    def finalizer(self, *, on: bool) -> tuple[Step, ...]:
        """Returns the step that adds our finalizer (`on`) or removes it; no step if it is so already."""
        if self.holds_finalizer == on:
            return ()
        body = {"metadata": switched(self.obj, self.finalizer_name, on=on)}
        return (Patch(self.resource, key_of(self.obj), body),)

    def up_to_date(self) -> bool:
        """True if the API server has the object in the version that the cache shows.

        A live read: children must not be created for an object that was changed or deleted meanwhile.
        """
        answer = self.facts.require(LiveGet(self.resource, key_of(self.obj)))
        version = self.obj["metadata"]["resourceVersion"]
        return isinstance(answer, Present) and answer.value["metadata"]["resourceVersion"] == version

    def decision(
        self,
        steps: Sequence[Step] = (),
        *,
        wake_at: datetime | None = None,
        retry: bool = False,
        settled: bool = False,
    ) -> Decision:
        """Returns a decision with these steps and with the status and events of the draft."""
        return Decision(
            steps=tuple(steps),
            status=self.draft.render(),
            events=tuple(self.draft.events),
            wake_at=wake_at,
            retry=retry,
            settled=settled,
        )
