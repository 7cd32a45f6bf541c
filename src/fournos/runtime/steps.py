"""What a decision asks the world to do: ordered, typed data, carried out by `act`.

Steps are data so that a test can crash between any two of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from fournos.kube.resource import Key, Obj, Resource


@dataclass(frozen=True, slots=True)
class NameTaken:
    """Why an object that has the name already is not the one to be created."""

    reason: str
    waits: bool = False
    """Its name will be free: the step waits, and does not fail."""


@dataclass(frozen=True, slots=True)
class Create:
    """Create `body`, once.

    If the name is taken: an object with our controller's UID is adopted (the step succeeds); one whose
    owner is gone or that is terminating makes the pass wait for its event; any other fails the step
    with `ForeignObject`.
    """

    resource: Resource
    body: Obj
    own_label: str = ""
    """For objects that cannot have a controller (it lives in another namespace): one that has none and
    carries this label with the same value as `body` is ours, too."""
    name_taken: Callable[[Create, Obj], NameTaken | None] | None = None
    """Decides about the object that has the name in place of the rule above; None: it is the one to be
    created.  For clusters where a controller's UID means nothing."""


@dataclass(frozen=True, slots=True)
class Patch:
    """JSON merge patch; put `metadata.resourceVersion` into `body` where others write too."""

    resource: Resource
    key: Key
    body: Obj
    subresource: str | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete exactly the object with this UID; one that is gone already counts as done."""

    resource: Resource
    key: Key
    uid: str
    propagation: str = "Background"
    grace_seconds: int | None = None
    why: str = ""
    """Logged with the deletion; without it, the deletion is not logged."""


@dataclass(frozen=True, slots=True)
class CopySecret:
    """Copy a Secret's data into a new Secret without the bytes passing through a decision.

    `metadata` is the copy's (name, namespace, labels, ownerReferences).  A copy of ours whose data
    differ is brought up to date; the rule for taken names is that of `Create`.  What `refuses` answers to the
    source's name and annotations, if anything, ends the step with `NotAllowed`.
    """

    source: Key
    metadata: Mapping[str, Any] = field(default_factory=dict)
    refuses: Callable[[str, Mapping[str, str]], str] | None = None


@dataclass(frozen=True, slots=True)
class Custom:
    """Base of the steps that one system alone knows; its `System.executors` says who carries them out."""


Step: TypeAlias = Create | Patch | Delete | CopySecret | Custom
