"""The observed state of a recorder's pass: an object, its dependents, and the stored record of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from fournos.engine.kube.resource import Key, Obj, Resource, is_terminating, uid_of
from fournos.history.logs.known import Known
from fournos.history.logs.models import Container
from fournos.history.recorder.journal import Stored
from fournos.history.records import Identity
from fournos.insight.children import Children
from fournos.insight.facts import Facts


@dataclass(frozen=True, slots=True)
class Observed:
    """The observed state of one key, as `observe` reads it from the caches and the journal."""

    key: Key
    resource: Resource
    cluster: str = ""
    """The UID of the namespace kube-system; "" while it is not known."""
    namespace_uid: str = ""
    obj: Obj | None = None
    """The object; None if it does not exist."""
    found: Children = field(default_factory=Children)
    facts: Facts | None = None
    """The facts that explain why it waits; None for an object that has ended."""
    workload: Obj | None = None
    """Its newest Workload."""
    target: Obj | None = None
    """The FournosCluster that it is assigned to, or asks for."""
    events: tuple[Obj, ...] = ()
    versions: tuple[str, ...] = ()
    """The resourceVersions of the object and of all that its documents show."""
    stored: Stored | None = None
    """What is recorded of the object."""
    suspected: bool | None = None
    """Whether the results of an ended job are suspected to be a regression; None: not compared yet."""
    known: bool = True
    """False: an earlier process may have recorded the object, and the journal has not looked."""
    loaded_at: datetime | None = None
    """When the open runs of earlier processes were read; None: not yet."""
    gap: tuple[datetime, datetime] | None = None
    """The time before `loaded_at` in which no recorder ran, as far as it concerns this object."""
    gone: tuple[Stored, ...] = ()
    """Recorded runs whose objects do not exist any more."""
    down: tuple[datetime, datetime] | None = None
    """The time in which no recorder ran, as far as it concerns the runs in `gone`."""

    containers: tuple[Container, ...] = ()
    """Its started containers; none if no logs are stored."""
    logs: Mapping[tuple[str, str], Known] = field(default_factory=dict)
    """The containers whose logs are being stored, by `Container.id`."""

    quiet: Stored | None = None
    """For the sweep: an open run, if nothing was written for a while."""

    @property
    def identity(self) -> Identity:
        assert self.obj is not None
        return Identity(self.cluster, self.key.namespace, uid_of(self.obj))

    @property
    def deleting(self) -> bool:
        return self.obj is not None and is_terminating(self.obj)


SWEEP = Key("", "")
"""The key of the pass that closes the runs whose objects were deleted unseen."""
SWEEP_OBJECT: Obj = {"metadata": {"namespace": "", "name": "", "uid": ""}}
