"""The base of the pass contexts of all controllers: the object, the facts, the status draft, the decision."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from fournos.engine.kube.resource import Obj, Resource, controls, is_terminating, key_of
from fournos.engine.runtime.decision import Decision, Facts, LiveGet, Present
from fournos.engine.runtime.finalizer import holds, switched
from fournos.engine.runtime.status_draft import Draft
from fournos.engine.runtime.steps import Patch, Step


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
