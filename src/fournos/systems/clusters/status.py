"""The status draft of a FournosCluster. Each pass has one draft and writes it once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Self

from fournos.api.fournoscluster import (
    Connection,
    FournosClusterSpec,
    FournosClusterStatus,
    Lock,
    StatusHardware,
)
from fournos.api.kinds import FOURNOS_CLUSTER
from fournos.engine.kube.probe import Probe
from fournos.engine.kube.resource import Key, Obj, Resource, absent
from fournos.engine.runtime.context import Draft, PassContext, read
from fournos.engine.runtime.decision import Decision, Facts, Patch, Step
from fournos.systems.clusters import build
from fournos.systems.clusters.settings import ClusterSettings

MESSAGE_MAX = 1024


class StatusDraft(Draft):
    """A copy of the status with the changes of this pass, and the events to record with them."""

    # --- reading ---

    @property
    def lock(self) -> Lock | None:
        return self._read("lock").lock

    @property
    def owner_set_at(self) -> datetime | None:
        return self._read("ownerSetAt").owner_set_at

    @property
    def lock_expires_at(self) -> datetime | None:
        return self._read("lockExpiresAt").lock_expires_at

    @property
    def connection(self) -> Connection:
        return self._read("connection").connection or Connection()

    @property
    def hardware(self) -> StatusHardware:
        return self._read("hardware").hardware or StatusHardware()

    @property
    def decommission(self) -> str | None:
        return self._read("decommission").decommission

    @property
    def discover_requested(self) -> str | None:
        return self._read("discoverRequested").discover_requested

    def _read(self, name: str) -> FournosClusterStatus:
        return read(FournosClusterStatus, self._status, name)

    # --- changing ---

    def group(self, name: str) -> dict[str, Any]:
        """Returns a copy of an object field, to be changed and put back."""
        value = self._status.get(name)
        return dict(value) if isinstance(value, Mapping) else {}

    def condition(self, type_: str, status: str | bool, reason: str, message: str = "") -> Self:
        return super().condition(type_, status, reason, message[:MESSAGE_MAX])

    def put_condition(self, type_: str, status: str, reason: str, message: str) -> Self:
        """Sets a condition, and records an event if its reason has changed."""
        if self.reason_of(type_) != reason:
            self.event(reason, message, warning=status == "False")
        return self.condition(type_, status, reason, message)

    def render(self) -> Mapping[str, Any]:
        status = super().render()
        return status if self._generation is None else {**status, "observedGeneration": self._generation}


# --- the state of a pass -------------------------------------------------------------------------------
# The input of one pass over a FournosCluster, and the place where its policies collect their results.


@dataclass(frozen=True, slots=True)
class Observed:
    """A FournosCluster with what the caches and its connection hold about it."""

    key: Key
    cluster: Obj
    spec: FournosClusterSpec
    secret: Obj | None = None
    """The labelled kubeconfig Secret, without its data."""
    connected: str | None = None
    """The version of the kubeconfig that the current connection uses; None without a connection."""
    probe: Probe | None = None
    nodes: tuple[Obj, ...] | None = None
    """The cluster's nodes; None until the first list is complete."""
    nodes_error: str = ""
    """The error of the watch on nodes, or an empty string."""
    lock_job: Obj | None = None
    """The FournosJob with the lock's name. It may belong to a person."""
    lock_workload: Obj | None = None
    flavor: Obj | None = None
    queue: Obj | None = None
    running: tuple[str, ...] = ()
    """Names of the FournosJobs that occupy the cluster, without the lock."""
    stoppable: tuple[str, ...] = ()
    """Those of `running` that have no `spec.shutdown` yet."""
    foreign: tuple[str, ...] = ()
    """Names of the foreign Workloads: they hold this cluster's quota and belong to no FournosJob.

    Only Workloads of the execution namespace are listed.
    """
    waiting: tuple[str, ...] = ()
    """Names of the pending FournosJobs that request this cluster by name."""
    classes: frozenset[str] = frozenset()
    """Names of the WorkloadPriorityClasses that exist."""

    @property
    def occupants(self) -> tuple[str, ...]:
        """Everything that occupies the cluster, except its lock."""
        return self.running + tuple(f"workload/{name}" for name in self.foreign)


@dataclass(frozen=True, slots=True)
class DeletedCluster:
    """A FournosCluster that was deleted without its finalizer's steps while its connection is still open."""

    key: Key

    @property
    def cluster(self) -> Obj:
        """A minimal object for logs."""
        return absent(self.key)


@dataclass(slots=True)
class Context(PassContext):
    """One pass: the observed state, and the draft, steps and deadlines that the policies add."""

    resource: ClassVar[Resource] = FOURNOS_CLUSTER
    finalizer_name: ClassVar[str] = build.FINALIZER
    observed: Observed
    facts: Facts
    now: datetime
    settings: ClusterSettings
    draft: StatusDraft = field(init=False)
    spec_changes: dict[str, Any] = field(default_factory=dict)
    """Changes of `spec`.

    They are merged into one patch of the FournosCluster with its resourceVersion as the precondition.
    """
    steps: list[Step] = field(default_factory=list)
    deadlines: list[datetime] = field(default_factory=list)
    retry: bool = False
    renewing: bool = False
    """True if the connection is closed in this pass; the next pass opens it again."""

    def __post_init__(self) -> None:
        self.draft = StatusDraft(self.observed.cluster, self.now)

    @property
    def obj(self) -> Obj:
        return self.observed.cluster

    @property
    def cluster(self) -> Obj:
        return self.obj

    @property
    def spec(self) -> FournosClusterSpec:
        return self.observed.spec

    @property
    def lock_key(self) -> Key:
        return Key(self.settings.execution_namespace, build.lock_name(self.name))

    @property
    def secret_version(self) -> str | None:
        """Identifies the content of the Secret by UID and resourceVersion; None without a Secret."""
        return version_of(self.observed.secret) if self.observed.secret is not None else None

    # --- results ---

    def wake(self, when: datetime | None) -> None:
        if when is not None:
            self.deadlines.append(when)

    def own_patch(self, metadata: dict[str, Any] | None = None) -> Patch | None:
        """Returns the patch of the FournosCluster itself, or None if nothing changes."""
        if not self.spec_changes and not metadata:
            return None
        meta = {"resourceVersion": self.cluster["metadata"]["resourceVersion"], **(metadata or {})}
        body: dict[str, Any] = {"metadata": meta}
        if self.spec_changes:
            body["spec"] = self.spec_changes
        return Patch(FOURNOS_CLUSTER, self.observed.key, body)

    def gathered(self) -> Decision:
        """Returns the decision that the policies have collected. A step that was refused is left out."""
        own = self.own_patch()
        steps = [*([own] if own else []), *self.steps]
        refused = self.facts.failure
        if refused is not None:
            steps = [step for step in steps if step != refused.step]
        return self.decision(
            steps, wake_at=min(self.deadlines, default=None), retry=self.retry or refused is not None
        )


def version_of(obj: Obj) -> str:
    """Returns `<uid>/<resourceVersion>`."""
    meta = obj["metadata"]
    return f"{meta['uid']}/{meta['resourceVersion']}"
