"""A job kind that has everything, passes over it, and the steps that they return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from fournos.engine.api.conditions import Condition, upsert
from fournos.engine.kube.resource import Key, Obj, Resource, key_of, uid_of
from fournos.engine.queueing.job import (
    MULTIKUEUE,
    Ended,
    QueueInputs,
    QueueOptions,
    QueueOutcome,
)
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.podsets import PodSetInfo, PodSetInfoError
from fournos.engine.queueing.reconcile import reconcile
from fournos.engine.queueing.workload import PodSet
from fournos.engine.runtime.decision import (
    Create,
    Delete,
    EventRecord,
    Facts,
    Patch,
    Present,
    Step,
    attempt,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)
TOY = Resource("example.com", "v1", "Toy", "toys")
FLAVOR = {
    "metadata": {"name": "f"},
    "spec": {"nodeLabels": {"pool": "a"}, "tolerations": [{"key": "t", "operator": "Exists"}]},
}
QUOTA = Condition("QuotaReserved", "True", "QuotaReserved", "")
ADMITTED = Condition("Admitted", "True", "Admitted", "")
EVICTED = Condition("Evicted", "True", "Preempted", "make room")
READY = Condition("PodsReady", "True", "Started", "")


@dataclass
class Toy:
    suspended: bool = True
    active: bool = False
    ended: Ended | None = None
    ready: bool = True
    refuses: bool = False
    cpu: str = "1"
    count: int = 2
    min_count: int | None = None
    reclaimed: dict[str, int] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=lambda: {"kueue.x-k8s.io/queue-name": "lq"})
    meta: dict[str, Any] = field(default_factory=dict)

    @property
    def resource(self) -> Resource:
        return TOY

    @property
    def obj(self) -> Obj:
        return {
            "metadata": {
                "name": "toy",
                "namespace": "ns",
                "uid": "u1",
                "resourceVersion": "7",
                "labels": self.labels,
                **self.meta,
            }
        }

    def pod_sets(self) -> Sequence[PodSet]:
        requests = {"cpu": self.cpu}
        spec = {"containers": [{"name": "c", "image": "i", "resources": {"requests": requests}}]}
        return [PodSet("main", self.count, {"spec": spec}, min_count=self.min_count)]

    def is_suspended(self) -> bool:
        return self.suspended

    def is_active(self) -> bool:
        return self.active

    def finished(self) -> Ended | None:
        return self.ended

    def pods_ready(self) -> bool:
        return self.ready

    def start(self, infos: Sequence[PodSetInfo]) -> Obj:
        if self.refuses:
            raise PodSetInfoError("no")
        return {"spec": {"suspend": False, "pools": [dict(info.node_selector) for info in infos]}}

    def stop(self, infos: Sequence[PodSetInfo] | None) -> Obj:
        return {"spec": {"suspend": True, "known": infos is not None}}

    def reclaimable_pods(self) -> Mapping[str, int]:
        return self.reclaimed


def go(job: Toy, *workloads: Obj, options: QueueOptions | None = None, **inputs: Any) -> QueueOutcome:
    """Runs a pass; its questions are answered from the cache."""
    queue_inputs = QueueInputs(workloads=workloads, flavors={"f": FLAVOR}, **inputs)
    facts = Facts()
    for _ in range(3):
        found = attempt(reconcile, job, queue_inputs, facts, NOW, options=options or QueueOptions())
        if isinstance(found, QueueOutcome):
            return found
        live = {key_of(one): one for one in (*workloads, job.obj)}
        facts = Facts({**facts.answers, **{q: Present(live[q.key]) for q in found.questions}})
    raise AssertionError("asks for ever")


def made(job: Toy, *conditions: Condition, **changes: Any) -> dict[str, Any]:
    """The Workload that the job gets, with these conditions."""
    (step,) = go(job_like(job)).steps
    assert isinstance(step, Create)
    workload: dict[str, Any] = {**step.body, "status": {}}
    workload["metadata"] = {**workload["metadata"], "uid": "w1", "resourceVersion": "3", **changes}
    held: list[Any] = []
    for one in conditions:
        held = upsert(held, one, now=NOW)
    workload["status"]["conditions"] = held
    if QUOTA in conditions:
        assigned = [{"name": "main", "count": job.count, "flavors": {"cpu": "f"}}]
        workload["status"]["admission"] = {"clusterQueue": "cq", "podSetAssignments": assigned}
    return workload


def job_like(job: Toy) -> Toy:
    return Toy(cpu=job.cpu, count=job.count, min_count=job.min_count, labels=job.labels)


def patch_of(outcome: QueueOutcome) -> Patch:
    (step,) = outcome.steps
    assert isinstance(step, Patch)
    return step


GOING: dict[str, Any] = {"deletionTimestamp": "2030-01-01T00:00:00Z"}
QUIET = QueueOptions(pods_ready=False)
HALT = Delete(TOY, Key("ns", "pods"), "p1")
SPAWN = Create(TOY, {"metadata": {"name": "pods", "namespace": "ns"}})


@dataclass
class Spawning(Toy):
    """Starts by objects of its own, and is stopped by deleting them."""

    halts: bool = True
    asked: list[tuple[Any, str, str]] = field(default_factory=list)

    def start_steps(self, workload: Obj) -> Sequence[Step]:
        return (replace(SPAWN, own_label=uid_of(workload)),)

    def stop_steps(self, infos: Sequence[PodSetInfo] | None, reason: str, message: str) -> Sequence[Step]:
        self.asked.append((infos is not None, reason, message))
        return (HALT,) if self.halts else ()


@dataclass
class Switching(Toy):
    """Takes its Workload out of the queue for a time."""

    held: bool = False

    def held_back(self) -> bool:
        return self.held


@dataclass
class Managed(Toy):
    """Runs on another cluster."""

    by: str | None = MULTIKUEUE

    def managed_by(self) -> str | None:
        return self.by


def normal(reason: str, message: str) -> EventRecord:
    return EventRecord("Normal", reason, message)


def freed(workload: Obj) -> Patch:
    """Returns the removal of our finalizer from a Workload that has no other."""
    body = {"metadata": {"resourceVersion": "3", "finalizers": None}}
    return Patch(WORKLOAD, Key("ns", workload["metadata"]["name"]), body)


def suspended(known: bool) -> Patch:
    body = {"spec": {"suspend": True, "known": known}, "metadata": {"resourceVersion": "7"}}
    return Patch(TOY, Key("ns", "toy"), body)


RUNS: dict[str, Any] = {"suspended": False, "active": True}
