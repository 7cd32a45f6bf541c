"""The observed states of the recorder's passes: an object with its dependents and stored record, or none."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Final, TypeAlias

from fournos.engine.kube.resource import Key, Obj, Resource, is_terminating, uid_of
from fournos.history.logs.stored import StartedContainer
from fournos.history.recorder.journal import StoredRun
from fournos.history.records import Identity
from fournos.insight.children import Children
from fournos.insight.facts import WaitFacts

SWEEP: Final = Key("", "")
"""The key of the pass that closes the runs whose objects were deleted unseen."""
Gap: TypeAlias = tuple[datetime, datetime]
"""The begin and the end of a time in which no recorder ran."""


@dataclass(frozen=True, slots=True)
class NotReady:
    """A key before the UID of the cluster is known, or before the open runs of earlier processes are read."""

    key: Key
    resource: Resource
    cluster: str
    """As in `ObservedObject`."""
    obj: Obj | None
    """The object; None if it does not exist."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """The pass over all keys of a kind."""

    key: ClassVar[Key] = SWEEP
    gone: tuple[StoredRun, ...]
    """The recorded runs whose objects do not exist any more."""
    down: Gap | None
    """The gap, as far as it concerns the runs in `gone`."""
    quiet: StoredRun | None
    """An open run, if nothing was written for a while."""


@dataclass(frozen=True, slots=True)
class GoneObject:
    """A key without an object, of which runs are recorded."""

    key: Key
    gone: tuple[StoredRun, ...]
    """As in `Sweep`."""
    down: Gap | None
    """As in `Sweep`."""


@dataclass(frozen=True, slots=True)
class ObservedObject:
    """An object that exists, as the caches and the journal show it."""

    key: Key
    resource: Resource
    obj: Obj
    cluster: str = ""
    """The UID of the namespace kube-system."""
    namespace_uid: str = ""
    children: Children = field(default_factory=Children)
    facts: WaitFacts | None = None
    """The facts that explain why it waits; None for an object that has ended."""
    workload: Obj | None = None
    """Its newest Workload."""
    target: Obj | None = None
    """The FournosCluster that it is assigned to, or asks for; without one the ResourceFlavor."""
    events: tuple[Obj, ...] = ()
    versions: tuple[str, ...] = ()
    """The resourceVersions of the object and of all that its documents show."""
    stored: StoredRun | None = None
    """What is recorded of the object."""
    looked_up: bool = True
    """False: an earlier process may have recorded the object, and the store was not asked."""
    suspected: bool | None = None
    """Whether the results of an ended job are suspected to be a regression; None: not compared yet."""
    gap: Gap | None = None
    """The gap, as far as it concerns this object."""
    gone: tuple[StoredRun, ...] = ()
    """The recorded runs of earlier objects of this name."""
    down: Gap | None = None
    """As in `Sweep`."""
    unstored: tuple[StartedContainer, ...] = ()
    """Its started containers whose logs are not stored; those that are being stored are not readable."""

    @property
    def identity(self) -> Identity:
        return Identity(self.cluster, self.key.namespace, uid_of(self.obj))

    @property
    def deleting(self) -> bool:
        return is_terminating(self.obj)


Observed: TypeAlias = NotReady | Sweep | GoneObject | ObservedObject
"""The observed state of one key."""
