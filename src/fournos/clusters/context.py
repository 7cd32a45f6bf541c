"""What one pass over a FournosCluster works with: facts in, a status draft and a decision out."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from fournos.api.fournoscluster import FournosClusterSpec
from fournos.clusters import names
from fournos.clusters.kinds import FOURNOS_CLUSTER
from fournos.clusters.settings import ClusterSettings
from fournos.clusters.status import StatusDraft
from fournos.clusters.steps import Verdict
from fournos.kube.resource import Key, Obj, Resource
from fournos.runtime.context import PassContext
from fournos.runtime.decision import Decision, Facts
from fournos.runtime.steps import Patch, Step


@dataclass(frozen=True, slots=True)
class Observed:
    """A FournosCluster, what the caches hold about it, and what its connection tells."""

    key: Key
    cluster: Obj
    spec: FournosClusterSpec
    secret: Obj | None = None
    """Its labelled Secret, without data."""
    connected: str | None = None
    """The version of the kubeconfig in use."""
    probe: Verdict | None = None
    nodes: tuple[Obj, ...] | None = None
    """None: not listed yet."""
    nodes_error: str = ""
    """What hinders the watch of the nodes."""
    lock_job: Obj | None = None
    """The FournosJob that has the lock's name."""
    lock_workload: Obj | None = None
    flavor: Obj | None = None
    queue: Obj | None = None
    running: tuple[str, ...] = ()
    """Jobs that occupy the cluster, the lock not counted."""
    stoppable: tuple[str, ...] = ()
    """Those of them that nobody has told to stop."""
    foreign: tuple[str, ...] = ()
    """Workloads of the execution namespace that hold its quota and are of no FournosJob."""
    waiting: tuple[str, ...] = ()
    """Jobs that wait for this very cluster."""
    classes: frozenset[str] = frozenset()
    """Priority classes that exist."""

    @property
    def occupants(self) -> tuple[str, ...]:
        """Whoever is there but the lock."""
        return self.running + tuple(f"workload/{name}" for name in self.foreign)


@dataclass(frozen=True, slots=True)
class Vanished:
    """A FournosCluster that was deleted without its finalizer's steps, while the connection to it is kept."""

    key: Key

    @property
    def cluster(self) -> Obj:
        """What is left of it, for logs."""
        return {"metadata": {"namespace": self.key.namespace, "name": self.key.name, "uid": ""}}


@dataclass(slots=True)
class Context(PassContext):
    resource: ClassVar[Resource] = FOURNOS_CLUSTER
    finalizer_name: ClassVar[str] = names.FINALIZER
    observed: Observed
    facts: Facts
    now: datetime
    settings: ClusterSettings
    draft: StatusDraft = field(init=False)
    spec_changes: dict[str, Any] = field(default_factory=dict)
    """Merged into one patch of the FournosCluster, bound to its resourceVersion."""
    steps: list[Step] = field(default_factory=list)
    deadlines: list[datetime] = field(default_factory=list)
    retry: bool = False
    renewing: bool = False
    """The connection is dropped in this pass, to be made anew in the next."""

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
        return Key(self.settings.execution_namespace, names.lock_name(self.name))

    @property
    def secret_version(self) -> str | None:
        """What identifies the content of the Secret; None without a Secret."""
        return version_of(self.observed.secret) if self.observed.secret is not None else None

    # --- results ---

    def wake(self, when: datetime | None) -> None:
        if when is not None:
            self.deadlines.append(when)

    def own_patch(self, metadata: dict[str, Any] | None = None) -> Patch | None:
        """The patch of the FournosCluster itself, if anything is to change."""
        if not self.spec_changes and not metadata:
            return None
        meta = {"resourceVersion": self.cluster["metadata"]["resourceVersion"], **(metadata or {})}
        body: dict[str, Any] = {"metadata": meta}
        if self.spec_changes:
            body["spec"] = self.spec_changes
        return Patch(FOURNOS_CLUSTER, self.observed.key, body)

    def gathered(self) -> Decision:
        """What the policies have gathered; a step that was refused in this pass is left out."""
        own = self.own_patch()
        steps = [*([own] if own else []), *self.steps]
        refused = self.facts.failure
        if refused is not None:
            steps = [step for step in steps if step != refused.step]
        return Decision(
            steps=tuple(steps),
            status=self.draft.render(),
            events=tuple(self.draft.events),
            wake_at=min(self.deadlines, default=None),
            retry=self.retry or refused is not None,
        )


def version_of(obj: Obj) -> str:
    meta = obj["metadata"]
    return f"{meta['uid']}/{meta['resourceVersion']}"
