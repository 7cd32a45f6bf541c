"""What one pass of the MiniCluster system works with: facts in, a status draft and a decision out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from fournos.api.conditions import is_true
from fournos.kube.kinds import JOB, POD
from fournos.kube.resource import Key, Obj, Resource, controller_of, is_terminating, key_of, uid_of
from fournos.miniclusters import names
from fournos.miniclusters.kinds import MINICLUSTER
from fournos.miniclusters.settings import MiniClusterSettings
from fournos.miniclusters.status import StatusDraft
from fournos.queueing.surroundings import Surroundings
from fournos.runtime.decision import Absent, Decision, Facts, LiveGet, LiveList, Need, Present
from fournos.runtime.steps import Patch, Step

FINALIZER = "flux-framework.org/finalizer"
"""Only on a MiniCluster that is queued: its Workload must find it until nothing of it runs."""


@dataclass(frozen=True, slots=True)
class Observed:
    """A MiniCluster and what the caches hold about it."""

    key: Key
    minicluster: Obj
    made: Mapping[tuple[Resource, str], Obj] = field(default_factory=dict)
    """Everything with its label or its Service's name, by resource type and name, whoever owns it."""
    pods: tuple[Obj, ...] = ()
    """Pods with its label."""
    around: Surroundings = field(default_factory=Surroundings)


@dataclass(slots=True)
class Context:
    observed: Observed
    facts: Facts
    now: datetime
    settings: MiniClusterSettings
    draft: StatusDraft = field(init=False)

    def __post_init__(self) -> None:
        self.draft = StatusDraft(self.minicluster, self.now)

    @property
    def minicluster(self) -> Obj:
        return self.observed.minicluster

    @property
    def name(self) -> str:
        return self.observed.key.name

    @property
    def namespace(self) -> str:
        return self.observed.key.namespace

    @property
    def spec(self) -> Mapping[str, Any]:
        return self.minicluster.get("spec") or {}

    @property
    def suspended(self) -> bool:
        return bool(self.spec.get("suspend"))

    @property
    def deleting(self) -> bool:
        return is_terminating(self.minicluster)

    def owns(self, obj: Obj) -> bool:
        return (controller_of(obj) or {}).get("uid") == uid_of(self.minicluster)

    # --- what is there: as the API server says it, where this pass has asked ---

    def part(self, resource: Resource, name: str) -> Obj | None:
        """An object of ours."""
        answer = self.facts.get(LiveGet(resource, Key(self.namespace, name)))
        found = self.observed.made.get((resource, name))
        if isinstance(answer, Present):
            found = answer.value
        elif isinstance(answer, Absent):
            found = None
        return found if found is not None and self.owns(found) else None

    @property
    def job(self) -> Obj | None:
        return self.part(JOB, self.name)

    @property
    def job_question(self) -> LiveGet:
        return LiveGet(JOB, Key(self.namespace, self.name))

    @property
    def pods_question(self) -> LiveList:
        return LiveList(POD, self.namespace, f"{names.MINICLUSTER_LABEL}={self.name}")

    @property
    def all_pods(self) -> tuple[Obj, ...]:
        """Ours: the Job's and the services pod."""
        answer = self.facts.get(self.pods_question)
        found = answer.value if isinstance(answer, Present) else self.observed.pods
        return tuple(pod for pod in found if self._ours(pod))

    def _ours(self, pod: Obj) -> bool:
        """A pod of an earlier MiniCluster of this name counts while it is there: it has the host name."""
        owner = controller_of(pod) or {}
        return owner.get("uid") == uid_of(self.minicluster) or (
            owner.get("kind") == JOB.kind and owner.get("name") == self.name
        )

    @property
    def pods(self) -> tuple[Obj, ...]:
        """Those of the Job that is there."""
        job = self.job
        if job is None:
            return ()
        return tuple(pod for pod in self.all_pods if (controller_of(pod) or {}).get("uid") == uid_of(job))

    @property
    def alive(self) -> tuple[Obj, ...]:
        """Pods that use anything, of whichever Job."""
        return tuple(pod for pod in self.all_pods if not terminal(pod))

    # --- Kueue ---

    @property
    def workload(self) -> Obj | None:
        """The Workload that it runs on: its own, the prebuilt one, or none."""
        around = self.observed.around
        mine = [one for one in around.workloads if self.owns(one) and is_true(one, "QuotaReserved")]
        if mine:
            return mine[0]
        prebuilt = around.prebuilt
        return prebuilt if prebuilt is not None and self.owns(prebuilt) else None

    @property
    def holds_finalizer(self) -> bool:
        return FINALIZER in (self.minicluster["metadata"].get("finalizers") or ())

    def finalizer(self, *, on: bool) -> tuple[Step, ...]:
        if self.holds_finalizer == on:
            return ()
        meta = self.minicluster["metadata"]
        rest = [name for name in meta.get("finalizers") or () if name != FINALIZER]
        wanted = [*rest, FINALIZER] if on else rest
        body = {"metadata": {"resourceVersion": meta["resourceVersion"], "finalizers": wanted or None}}
        return (Patch(MINICLUSTER, key_of(self.minicluster), body),)

    # --- results ---

    def up_to_date(self) -> bool | Need:
        """Whether the API server has the MiniCluster as the cache shows it: asked before anything is made."""
        question = LiveGet(MINICLUSTER, self.observed.key)
        if need := self.facts.ask([question]):
            return need
        answer = self.facts.answer(question)
        version = self.minicluster["metadata"]["resourceVersion"]
        return isinstance(answer, Present) and answer.value["metadata"]["resourceVersion"] == version

    def decision(
        self, steps: Sequence[Step] = (), *, wake_at: datetime | None = None, retry: bool = False
    ) -> Decision:
        return Decision(
            steps=tuple(steps),
            status=self.draft.done(),
            notes=tuple(self.draft.notes),
            wake_at=wake_at,
            retry=retry,
        )


def terminal(pod: Obj) -> bool:
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def index_of(pod: Obj) -> int | None:
    """None: the services pod."""
    text = (pod["metadata"].get("labels") or {}).get(names.COMPLETION_INDEX_LABEL, "")
    return int(text) if text.isdecimal() else None
