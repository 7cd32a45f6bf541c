"""The steps of a decision: ordered, typed data that `act` executes.

Steps are data so that a test can crash between any two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from fournos.engine.kube.resource import Key, Obj, Resource


@dataclass(frozen=True, slots=True)
class NameTaken:
    """Why the existing object with the name is not the one to be created."""

    reason: str
    waits: bool = False
    """True: the name will be free soon, so the step waits instead of failing."""


@dataclass(frozen=True, slots=True)
class Create:
    """Creates `body`, once.

    If the name is taken: an object with our controller's UID is adopted (the step succeeds).  For an object
    that is terminating or whose owner is gone, the pass waits for its watch event.  Any other object fails
    the step with `ForeignObject`.
    """

    resource: Resource
    body: Obj
    own_label: str = ""
    """For objects that cannot have a controller because it is in another namespace: an object without a
    controller is also ours if this label has the same value as in `body`."""
    name_taken: Callable[[Create, Obj], NameTaken | None] | None = None
    """Replaces the rule above for an existing object; returns None if it is the one to be created.

    For clusters where the UID of a controller has no meaning.
    """


@dataclass(frozen=True, slots=True)
class Patch:
    """A JSON merge patch.  Where others write too, `body` needs `metadata.resourceVersion` (precondition)."""

    resource: Resource
    key: Key
    body: Obj
    subresource: str | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Deletes exactly the object with this UID; an object that is gone already counts as deleted."""

    resource: Resource
    key: Key
    uid: str
    propagation: str = "Background"
    grace_seconds: int | None = None
    why: str = ""
    """The reason, logged with the deletion; without it the deletion is not logged."""


@dataclass(frozen=True, slots=True)
class CopySecret:
    """Copies a Secret's data into a new Secret; no decision ever sees the data.

    `metadata` is that of the copy (name, namespace, labels, ownerReferences).  A copy of ours with other data
    is updated; the rule for taken names is that of `Create`.  `refuses(name, annotations)` of the source
    returns a message to end the step with `NotAllowed`, or "".
    """

    source: Key
    metadata: Mapping[str, Any] = field(default_factory=dict)
    refuses: Callable[[str, Mapping[str, str]], str] | None = None


@dataclass(frozen=True, slots=True)
class Custom:
    """Base of the steps of a single controller; `Controller.executors` has their executors."""

    foreseen: ClassVar[bool] = False
    """True: the decision that has this step knows what it changes; a settled one needs no other pass."""


Step: TypeAlias = Create | Patch | Delete | CopySecret | Custom


def written(step: Step) -> str:
    """Returns the resource that a step writes; "" for a step of a controller of its own."""
    if isinstance(step, CopySecret):
        return "secrets"
    return str(getattr(step, "resource", ""))
