"""What a job kind may add to the protocol: its own start, its own request, a Workload that is held back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from fournos.kube.resource import Key, Obj, key_of
from fournos.queueing.inputs import QueueInputs, Verdict
from fournos.queueing.job import Options
from fournos.queueing.kinds import WORKLOAD
from fournos.queueing.reconcile import reconcile
from fournos.queueing.workload import HELD_BACK, PodSet, Priority, WorkloadRequest
from fournos.runtime.decision import Absent, Facts, LiveGet, Need, attempt
from fournos.runtime.steps import Create, Delete, Patch, Step
from tests.unit.queueing.test_reconcile import ADMITTED, EVICTED, NOW, QUOTA, Toy, go, made, patch_of

MAKES = Patch(WORKLOAD, Key("ns", "anything"), {"spec": {}})


@dataclass
class Maker(Toy):
    """Is started by steps of its own."""

    makes: tuple[Step, ...] = (MAKES,)

    def start_steps(self, workload: Obj) -> Sequence[Step]:
        assert workload["metadata"]["name"]
        return self.makes


@pytest.mark.parametrize("steps", [(MAKES,), ()])
def test_a_start_in_steps(steps: tuple[Step, ...]) -> None:
    """Of a job that first claims its start there are none: the verdict tells it to, with the Workload."""
    job = Maker(makes=steps, refuses=True)
    workload = made(job, QUOTA, ADMITTED)
    outcome = go(job, workload, options=Options(pods_ready=False))
    assert (outcome.verdict, outcome.steps, outcome.workload) == (Verdict.STARTING, steps, workload)


def test_a_start_that_needs_no_confirmation_asks_nothing() -> None:
    job = Maker()
    inputs = QueueInputs(workloads=(made(job, QUOTA, ADMITTED),))
    sure = Options(pods_ready=False, confirm_start=False)
    found = attempt(reconcile, job, inputs, Facts(), NOW, options=sure)
    assert not isinstance(found, Need) and found.verdict is Verdict.STARTING
    unsure = Options(pods_ready=False)
    need = attempt(reconcile, job, inputs, Facts(), NOW, options=unsure)
    assert need == Need((LiveGet(WORKLOAD, key_of(inputs.workloads[0])),))
    gone = reconcile(job, inputs, Facts({need.questions[0]: Absent()}), NOW, options=unsure)
    assert (gone.verdict, gone.steps, gone.retry) == (Verdict.WAITING, (), True)


@dataclass
class Asker(Toy):
    """Has a request of its own."""

    queue: str = "own-queue"
    pods: str = "p"
    priority: str = ""

    def workload_request(self, priority: Priority | None) -> WorkloadRequest:
        pods = PodSet("main", 1, {"spec": {"containers": [{"name": self.pods}]}})
        return WorkloadRequest(
            Key("ns", "own-name"), self.queue, (pods,), {"uid": "u1", "controller": True}, priority=priority
        )

    def workload_priority_class(self) -> str:
        return self.priority

    def fits(self, workload: Obj) -> bool:
        (pod_set,) = workload["spec"]["podSets"]
        return bool(pod_set["template"]["spec"]["containers"][0]["name"] == self.pods)


CLASSES: dict[str, Any] = {"workload_classes": {"high": {"value": 7}}}


def asked(job: Asker, *conditions: Any, **spec: Any) -> Obj:
    (step,) = go(job, **CLASSES).steps
    assert isinstance(step, Create)
    body: Any = step.body
    meta = {**body["metadata"], "uid": "w1", "resourceVersion": "3"}
    flags = [{"type": one.type, "status": one.status, "reason": one.reason} for one in conditions]
    return {**body, "metadata": meta, "spec": {**body["spec"], **spec}, "status": {"conditions": flags}}


def test_a_request_of_its_own() -> None:
    """No label of the job counts: neither queue, nor priority class, nor name, nor finalizer."""
    made_ = asked(Asker(labels={}, priority="high"))
    assert made_["metadata"]["name"] == "own-name" and "finalizers" not in made_["metadata"]
    assert made_["spec"]["queueName"] == "own-queue" and made_["spec"]["priority"] == 7
    blocked = go(Asker(priority="low"), **CLASSES)
    assert (blocked.verdict, blocked.reason) == (Verdict.BLOCKED, "PriorityClassNotFound")


def test_its_workload_follows_the_request() -> None:
    old = asked(Asker())
    queue = patch_of(go(Asker(queue="other"), old, **CLASSES)).body["spec"]
    assert queue == {"queueName": "other"}
    priority = patch_of(go(Asker(priority="high"), old, **CLASSES)).body["spec"]
    assert priority["priority"] == 7 and priority["priorityClassRef"]["name"] == "high"
    pods = patch_of(go(Asker(pods="q"), old, **CLASSES)).body["spec"]
    assert pods["priorityClassRef"] is pods["priority"] is None
    assert pods["podSets"][0]["template"]["spec"]["containers"] == [{"name": "q"}]
    (gone,) = go(Asker(pods="q"), asked(Asker(), QUOTA), **CLASSES).steps
    assert isinstance(gone, Delete)
    assert not go(Asker(), old, **CLASSES).steps


@dataclass
class Held(Toy):
    held: bool = True

    def held_back(self) -> bool:
        return self.held


def workload_of(job: Toy, *, active: bool, ours: bool) -> Obj:
    found: Any = made(job)
    meta = {**found["metadata"], "annotations": {HELD_BACK: "true"} if ours else {}}
    return {**found, "metadata": meta, "spec": {**found["spec"], "active": active}}


@pytest.mark.parametrize(
    ("held", "active", "ours", "switches_to"),
    [
        (True, True, False, False),
        (True, False, False, None),
        (True, False, True, None),
        (False, False, True, True),
        (False, False, False, None),  # somebody else's wish
        (False, True, False, None),
        (False, True, True, None),
    ],
)
def test_a_workload_that_is_held_back(held: bool, active: bool, ours: bool, switches_to: bool | None) -> None:
    job = Held(held=held)
    outcome = go(job, workload_of(job, active=active, ours=ours))
    if switches_to is None:
        assert not outcome.steps
        return
    body = patch_of(outcome).body
    assert body["spec"] == {"active": switches_to}
    assert body["metadata"]["annotations"] == {HELD_BACK: None if switches_to else "true"}
    assert "resourceVersion" in body["metadata"]


def test_a_kind_that_no_patch_stops_is_released_once_it_is_not_active() -> None:
    @dataclass
    class Unpatched:
        toy: Toy

        def __getattr__(self, name: str) -> Any:
            if name in ("start", "stop"):
                raise AttributeError(name)
            return getattr(self.toy, name)

    job: Any = Unpatched(Toy(suspended=False, active=False))
    released = go(job, made(job.toy, QUOTA, ADMITTED, EVICTED), options=Options(pods_ready=False))
    assert patch_of(released).body["status"]["admission"] is None
