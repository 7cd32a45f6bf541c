"""The job framework, table by table, over a job kind that has everything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from fournos.engine.api.conditions import Condition, condition, upsert
from fournos.engine.kube.resource import Key, Obj, Resource, key_of
from fournos.engine.queueing.job import Ancestor, Ended, QueueInputs, QueueOptions, QueueOutcome, Verdict
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.podsets import PodSetInfo, PodSetInfoError
from fournos.engine.queueing.reconcile import reconcile
from fournos.engine.queueing.workload import IN_USE, PodSet, generic_name
from fournos.engine.runtime.decision import (
    Create,
    Facts,
    Patch,
    Present,
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
    pod_class: str = ""
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

    def priority_class(self) -> str:
        return self.pod_class


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


def test_without_a_queue_name_kueue_does_not_decide() -> None:
    assert go(Toy(labels={})).verdict is Verdict.NOT_QUEUED
    assert go(Toy(labels={}), options=QueueOptions(without_queue_name=True)).steps


def test_the_workload_that_is_made() -> None:
    labels = {"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/max-exec-time-seconds": "60", "team": "x"}
    (step,) = go(Toy(labels=labels, min_count=1), options=QueueOptions(labels_to_copy=("team",))).steps
    assert isinstance(step, Create)
    meta, spec = step.body["metadata"], step.body["spec"]
    assert meta["name"] == generic_name(kind="Toy", group="example.com", name="toy", uid="u1")
    assert meta["labels"]["kueue.x-k8s.io/job-uid"] == "u1" and meta["labels"]["team"] == "x"
    assert meta["finalizers"] == [IN_USE]
    assert meta["ownerReferences"][0]["controller"] is True
    assert spec["maximumExecutionTimeSeconds"] == 60
    assert spec["podSets"][0]["minCount"] == 1


def test_admission_starts_it_with_what_the_flavors_have() -> None:
    job = Toy()
    outcome = go(job, made(job, QUOTA, ADMITTED, READY))
    assert outcome.verdict is Verdict.STARTING
    assert patch_of(outcome).body["spec"] == {"suspend": False, "pools": [{"pool": "a"}]}


@pytest.mark.parametrize(("succeeded", "reason"), [(True, "Succeeded"), (False, "Failed")])
def test_the_end_is_written_into_the_workload(succeeded: bool, reason: str) -> None:
    job = Toy(ended=Ended(succeeded, "over"))
    workload = made(job, QUOTA, ADMITTED)
    shown = condition(patch_of(go(job, workload)).body, "Finished")
    assert shown is not None and (shown["reason"], shown["message"]) == (reason, "over")
    own = condition(patch_of(go(Toy(ended=Ended(succeeded, "over", "Own")), workload)).body, "Finished")
    assert own is not None and own["reason"] == "Own"
    done = made(job, QUOTA, ADMITTED, Condition("Finished", "True", reason, "over"))
    assert patch_of(go(job, done)).body["metadata"]["finalizers"] is None


def test_queue_and_priority_follow_the_labels() -> None:
    classes = {"high": {"metadata": {"name": "high"}, "value": 100}}
    pod_classes = {"p": {"metadata": {"name": "p"}, "value": 5}, "d": {"metadata": {"name": "d"}, "value": 1}}
    pod_classes["d"]["globalDefault"] = True
    before = Toy()
    labels = {"kueue.x-k8s.io/queue-name": "other", "kueue.x-k8s.io/priority-class": "high"}
    spec = patch_of(go(Toy(labels=labels), made(before), workload_classes=classes)).body["spec"]
    assert (spec["queueName"], spec["priority"], spec["priorityClassRef"]["name"]) == ("other", 100, "high")
    (pods,) = go(Toy(pod_class="p"), pod_classes=pod_classes).steps
    assert isinstance(pods, Create) and pods.body["spec"]["priorityClassRef"]["kind"] == "PriorityClass"
    (default,) = go(Toy(), pod_classes=pod_classes).steps
    assert isinstance(default, Create) and default.body["spec"]["priority"] == 1


def test_a_prebuilt_workload_of_another_owner_is_never_written() -> None:
    labels = {"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/prebuilt-workload-name": "pre"}
    owner = {"apiVersion": "example.com/v1", "kind": "Toy", "name": "other", "uid": "u2", "controller": True}
    for job in (Toy(labels=labels), Toy(labels=labels, cpu="9"), Toy(labels=labels, ended=Ended(True, ""))):
        for conditions in ((), (QUOTA, ADMITTED)):
            foreign = made(Toy(), *conditions, name="pre", ownerReferences=[owner])
            outcome = go(job, prebuilt=foreign)
            assert not [step for step in outcome.steps if getattr(step, "resource", None) == WORKLOAD]
            assert outcome.verdict is not Verdict.STARTING


def test_a_nested_job_runs_while_its_ancestor_is_admitted() -> None:
    held = made(Toy(), QUOTA, ADMITTED)
    child = Toy(suspended=False, labels={})
    admitted = Ancestor(Key("ns", "parent"), "Parent", held)
    assert go(child, ancestor=admitted).steps == ()
    stopped = go(child, ancestor=Ancestor(Key("ns", "parent"), "Parent"))
    assert stopped.verdict is Verdict.NESTED and patch_of(stopped).body["spec"]["suspend"] is True


def test_reclaimable_pods_only_grow() -> None:
    job = Toy(suspended=False, active=True, reclaimed={"main": 1, "unknown": 3})
    workload = made(job, QUOTA, ADMITTED, READY)
    assert patch_of(go(job, workload)).body["status"]["reclaimablePods"] == [{"name": "main", "count": 1}]
    workload["status"]["reclaimablePods"] = [{"name": "main", "count": 2}]
    assert go(job, workload).steps == ()


def test_a_variable_that_is_there_twice_is_sent_once_and_still_fits() -> None:
    @dataclass
    class Twice(Toy):
        def pod_sets(self) -> Sequence[PodSet]:
            variables = [{"name": "A", "value": "1"}, {"name": "B"}, {"name": "A", "value": "2"}]
            container = {"name": "c", "image": "i", "env": variables}
            return [PodSet("main", 2, {"spec": {"containers": [container]}})]

    (step,) = go(Twice()).steps
    assert isinstance(step, Create)
    (container,) = step.body["spec"]["podSets"][0]["template"]["spec"]["containers"]
    assert container["env"] == [{"name": "A", "value": "2"}, {"name": "B"}]
    stored = {**step.body, "metadata": {**step.body["metadata"], "uid": "w", "resourceVersion": "1"}}
    assert not go(Twice(), stored).steps
