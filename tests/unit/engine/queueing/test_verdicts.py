"""The outcome of each pass, from the queue to the end: verdict, reason, message, steps, events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from fournos.engine.api.conditions import Condition
from fournos.engine.kube.resource import Key, Obj, key_of
from fournos.engine.queueing.ensure import PREBUILT_LABEL
from fournos.engine.queueing.job import (
    Capability,
    Ended,
    JobWithCustomStart,
    JobWithCustomWorkload,
    JobWithCustomWorkloadActivation,
    JobWithManagedBy,
    JobWithStartPatch,
    QueueInputs,
    QueueOptions,
    QueueOutcome,
    Verdict,
)
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.podsets import PodSetInfo
from fournos.engine.queueing.reconcile import reconcile
from fournos.engine.queueing.report import finish_patch
from fournos.engine.queueing.workload import IN_USE, PodSet, generic_name
from fournos.engine.runtime.decision import (
    Absent,
    Answer,
    Create,
    Delete,
    Facts,
    LiveGet,
    LiveList,
    NeededFacts,
    Patch,
    Present,
    Unknown,
    attempt,
)
from fournos.systems.appwrappers.decide import QueuedAppWrapper
from fournos.systems.jobs.queue import QueuedFournosJob
from tests.unit.engine.queueing.toys import (
    ADMITTED,
    FLAVOR,
    GOING,
    NOW,
    QUIET,
    QUOTA,
    READY,
    RUNS,
    SPAWN,
    Spawning,
    Toy,
    freed,
    go,
    made,
    normal,
    patch_of,
    suspended,
)

# --- a job that is deleted -----------------------------------------------------------------------------


def test_a_deleted_job_keeps_its_workload_while_it_is_active() -> None:
    job = Toy(meta=GOING, active=True)
    assert go(job, made(job)) == QueueOutcome(Verdict.STOPPING, "Deleted")


def test_a_deleted_job_lets_go_of_all_that_it_had() -> None:
    job = Toy(meta=GOING)
    one, two = made(job), made(job, name="two")
    assert go(job, one, two) == QueueOutcome(Verdict.GONE, steps=(freed(one), freed(two)))


# --- a job that has ended ------------------------------------------------------------------------------


def test_the_end_of_a_job_is_that_of_its_workload() -> None:
    job = Toy(ended=Ended(False, "exit code 1"))
    workload = made(job, QUOTA, ADMITTED)
    name = workload["metadata"]["name"]
    assert go(job, workload) == QueueOutcome(
        Verdict.FINISHED,
        "Failed",
        "exit code 1",
        steps=(finish_patch(workload, "Failed", "exit code 1", NOW),),
        events=(normal("FinishedWorkload", f"Workload 'ns/{name}' is declared finished"),),
    )


def test_a_finished_workload_is_let_go() -> None:
    job = Toy(ended=Ended(True, "done"))
    workload = made(job, Condition("Finished", "True", "Succeeded", "over"))
    found = go(job, workload)
    assert found == QueueOutcome(Verdict.FINISHED, "Succeeded", "over", steps=(freed(workload),))


def test_the_end_is_a_condition_beside_the_others() -> None:
    workload = made(Toy(), QUOTA, ADMITTED, generation=4)
    patch = finish_patch(workload, "Succeeded", "done", NOW)
    assert (patch.resource, patch.subresource) == (WORKLOAD, "status")
    assert patch.body["metadata"] == {"resourceVersion": "3"}
    *others, last = patch.body["status"]["conditions"]
    assert [one["type"] for one in others] == ["QuotaReserved", "Admitted"]
    assert last == {
        "type": "Finished",
        "status": "True",
        "reason": "Succeeded",
        "message": "done",
        "lastTransitionTime": "2030-01-01T00:00:00Z",
        "observedGeneration": 4,
    }


def test_a_finished_workload_without_a_reason_has_none() -> None:
    workload = made(Toy(), finalizers=[])
    workload["status"]["conditions"] = [{"type": "Finished", "status": "True"}]
    assert go(Toy(), workload) == QueueOutcome(Verdict.FINISHED)


def test_a_job_that_ended_without_a_workload_needs_none() -> None:
    assert go(Toy(ended=Ended(True, "done"))) == QueueOutcome(Verdict.FINISHED, message="done")


def test_a_job_that_is_out_of_sync_stops_and_any_other_end_does_not_stop_it() -> None:
    job = Toy(**RUNS)
    unfit = made(job, Condition("Finished", "True", "OutOfSync", "another size"))
    assert go(job, unfit) == QueueOutcome(
        Verdict.STOPPING,
        "NoMatchingWorkload",
        "another size",
        steps=(suspended(known=True),),
        events=(normal("Stopped", "another size"),),
    )
    other = made(job, Condition("Finished", "True", "Succeeded", "over"))
    assert go(job, other).verdict is Verdict.FINISHED
    over = Toy(ended=Ended(True, "done"), **RUNS)
    assert go(over, unfit).verdict is Verdict.FINISHED


# --- the start -----------------------------------------------------------------------------------------


def test_an_admitted_job_starts_with_an_event() -> None:
    job = Toy()
    found = go(job, made(job, QUOTA, ADMITTED, READY), options=QUIET)
    text = "Admitted by clusterQueue cq"
    assert (found.verdict, found.reason, found.message) == (Verdict.STARTING, "Started", text)
    assert found.events == (normal("Started", text),) and found.workload is None
    assert patch_of(found).body["metadata"] == {"resourceVersion": "7"}


def started(job: Toy, cached: Obj, answer: Answer, flavors: Any = None) -> QueueOutcome:
    inputs = QueueInputs(workloads=(cached,), flavors={"f": FLAVOR} if flavors is None else flavors)
    question = LiveGet(WORKLOAD, Key("ns", cached["metadata"]["name"]))
    return reconcile(job, inputs, Facts({question: answer}), NOW, options=QUIET)


def test_a_kind_with_objects_of_its_own_starts_with_the_workload_that_was_read() -> None:
    job = Spawning()
    cached = made(job, QUOTA, ADMITTED)
    live = {**cached, "metadata": {**cached["metadata"], "resourceVersion": "4"}}
    expected = QueueOutcome(
        Verdict.STARTING, "Started", steps=(replace(SPAWN, own_label="w1"),), workload=live
    )
    assert started(job, cached, Present(live)) == expected


@pytest.mark.parametrize("answer", ["another", Absent(), Unknown("timeout")], ids=str)
def test_an_admission_of_another_workload_of_this_name_starts_nothing(answer: Any) -> None:
    job = Toy()
    cached = made(job, QUOTA, ADMITTED)
    if answer == "another":
        answer = Present({**cached, "metadata": {**cached["metadata"], "uid": "w2"}})
    text = "Waiting to see the Workload as it is now"
    assert started(job, cached, answer) == QueueOutcome(Verdict.WAITING, "Unconfirmed", text, retry=True)


def test_an_admission_that_is_over_starts_nothing() -> None:
    job = Toy()
    cached = made(job, QUOTA, ADMITTED)
    found = started(job, cached, Present(made(job)))
    text = "The admission is over already"
    assert found == QueueOutcome(Verdict.WAITING, "Unconfirmed", text, retry=True)


def test_a_flavor_that_is_missing_is_waited_for() -> None:
    job = Toy()
    cached = made(job, QUOTA, ADMITTED)
    text = "ResourceFlavor 'f' not found"
    found = started(job, cached, Present(cached), flavors={})
    assert found == QueueOutcome(Verdict.BLOCKED, "FlavorNotFound", text, retry=True)


def test_a_job_that_its_flavors_do_not_fit_ends() -> None:
    job = Toy(refuses=True)
    cached = made(job, QUOTA, ADMITTED)
    steps = (finish_patch(cached, "FailedToStart", "no", NOW),)
    found = started(job, cached, Present(cached))
    assert found == QueueOutcome(Verdict.FINISHED, "FailedToStart", "no", steps=steps)


def test_a_running_job_has_its_admission() -> None:
    job = Toy(**RUNS)
    quota = replace(QUOTA, message="in cq")
    workload = made(job, QUOTA, ADMITTED)
    workload["status"]["conditions"][0]["message"] = quota.message
    assert go(job, workload, options=QUIET) == QueueOutcome(Verdict.ADMITTED, "Admitted", "in cq")


def test_a_first_start_needs_no_live_read() -> None:
    job = Spawning()
    cached = made(job, QUOTA, ADMITTED)
    options = QueueOptions(pods_ready=False, confirm_start=False)
    found = reconcile(job, QueueInputs(workloads=(cached,)), Facts(), NOW, options=options)
    steps = (replace(SPAWN, own_label="w1"),)
    assert found == QueueOutcome(Verdict.STARTING, "Started", steps=steps, workload=cached)


def test_a_start_that_changes_metadata_keeps_it() -> None:
    class Labelling(Toy):
        def start(self, infos: Sequence[PodSetInfo]) -> Obj:
            return {"metadata": {"labels": {"a": "b"}}}

    job = Labelling()
    body = patch_of(go(job, made(job, QUOTA, ADMITTED), options=QUIET)).body
    assert body == {"metadata": {"labels": {"a": "b"}, "resourceVersion": "7"}}


# --- waiting -------------------------------------------------------------------------------------------


def test_a_waiting_job_has_the_reason_of_kueue() -> None:
    job = Toy()
    short = Condition("QuotaReserved", "False", "Inadmissible", "no room")
    assert go(job, made(job, short)) == QueueOutcome(Verdict.WAITING, "Inadmissible", "no room")


def test_a_job_without_admission_is_suspended_with_an_event() -> None:
    job = Toy(suspended=False)
    text = "Not admitted by cluster queue"
    assert go(job, made(job)) == QueueOutcome(
        Verdict.STOPPING,
        "NotAdmitted",
        text,
        steps=(suspended(known=True),),
        events=(normal("Stopped", text),),
    )


def test_a_new_job_gets_a_workload_with_an_event() -> None:
    found = go(Toy())
    (step,) = found.steps
    assert isinstance(step, Create) and step.resource == WORKLOAD
    name = step.body["metadata"]["name"]
    events = (normal("CreatedWorkload", f"Created Workload: ns/{name}"),)
    assert found == QueueOutcome(Verdict.WAITING, "Pending", steps=(step,), events=events)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({}, "Missing Workload; unable to restore pod templates"),
        ({PREBUILT_LABEL: "pre"}, "missing workload"),
    ],
)
def test_a_job_that_runs_without_a_workload_stops(labels: dict[str, str], message: str) -> None:
    job = Toy(**RUNS)
    job.labels = {**job.labels, **labels}
    assert go(job) == QueueOutcome(
        Verdict.STOPPING,
        "NoMatchingWorkload",
        message,
        steps=(suspended(known=False),),
        events=(normal("Stopped", message),),
    )
    stopping = replace(job, suspended=True)
    text = "Waiting for what runs without quota to stop"
    assert go(stopping) == QueueOutcome(Verdict.STOPPING, "NoMatchingWorkload", text)


def test_a_prebuilt_workload_that_is_missing_is_named() -> None:
    job = Toy()
    job.labels = {**job.labels, PREBUILT_LABEL: "pre"}
    text = "prebuilt Workload 'pre' not found"
    assert go(job) == QueueOutcome(Verdict.BLOCKED, "PrebuiltWorkloadNotFound", text, retry=True)


def test_a_priority_class_that_is_missing_is_named() -> None:
    job = Toy(labels={"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/priority-class": "high"})
    text = "WorkloadPriorityClass 'high' not found; create it or submit without it"
    assert go(job) == QueueOutcome(Verdict.BLOCKED, "PriorityClassNotFound", text, retry=True)


def test_an_owner_that_cannot_be_read_is_waited_for() -> None:
    owner = {"apiVersion": "example.com/v1", "kind": "Parent", "name": "p", "uid": "p1", "controller": True}
    job = Toy(meta={"ownerReferences": [owner]})
    need = attempt(reconcile, job, QueueInputs(), Facts(), NOW)
    question = LiveList(WORKLOAD, "ns", "kueue.x-k8s.io/job-uid=p1")
    assert need == NeededFacts((question,))
    found = reconcile(job, QueueInputs(), Facts({question: Unknown("timeout")}), NOW)
    assert found == QueueOutcome(Verdict.BLOCKED, "OwnerUnknown", "timeout", retry=True)


# --- capabilities -----------------------------------------------------------------------------------
# Which optional capabilities a kind has: those whose methods it has, all of them.


class Half:
    """Has one of the two methods of JobWithStartPatch."""

    def start(self, infos: Any) -> Any: ...


class Whole(Half):
    def stop(self, infos: Any) -> Any: ...


@pytest.mark.parametrize(
    ("kind", "has"),
    [
        (Half, set()),
        (Whole, {JobWithStartPatch}),
        (QueuedAppWrapper, {JobWithStartPatch, JobWithManagedBy}),
        (
            QueuedFournosJob,
            {JobWithCustomStart, JobWithCustomWorkload, JobWithCustomWorkloadActivation, JobWithManagedBy},
        ),
    ],
)
def test_a_kind_has_the_capabilities_whose_methods_it_has(kind: type, has: set[type]) -> None:
    assert {capability for capability in Capability.__subclasses__() if issubclass(kind, capability)} == has


# --- The job framework, table by table, over a job kind that has everything --------------------------


def test_without_a_queue_name_kueue_does_not_decide() -> None:
    assert go(Toy(labels={})).verdict is Verdict.NOT_QUEUED
    assert go(Toy(labels={}), options=QueueOptions(without_queue_name=True)).steps


@pytest.mark.parametrize("suspended", [False, True])
def test_a_queue_name_that_is_removed_frees_the_quota(suspended: bool) -> None:
    workload = made(Toy(), QUOTA, ADMITTED)
    found = go(Toy(labels={}, suspended=suspended), workload)
    assert found.verdict is Verdict.NOT_QUEUED
    assert found.steps == (Delete(WORKLOAD, key_of(workload), "w1"),)
    going = {**workload, "metadata": {**workload["metadata"], "deletionTimestamp": "2030-01-01T00:00:00Z"}}
    (step,) = go(Toy(labels={}, suspended=suspended), going).steps
    assert isinstance(step, Patch) and IN_USE not in (step.body["metadata"]["finalizers"] or ())
    over = made(Toy(), Condition("Finished", "True", "Succeeded", ""))
    assert go(Toy(labels={}, suspended=suspended), over).steps == ()


def test_a_queue_name_that_only_a_cache_lacks_costs_no_workload() -> None:
    job, workload = Toy(labels={}), made(Toy(), QUOTA, ADMITTED)
    live = {**job.obj, "metadata": {**job.obj["metadata"], "resourceVersion": "later"}}
    question = LiveGet(job.resource, key_of(job.obj))
    found = reconcile(job, QueueInputs(workloads=(workload,)), Facts({question: Present(live)}), NOW)
    assert (found.verdict, found.steps, found.retry) == (Verdict.NOT_QUEUED, (), True)


def test_the_workload_that_is_made() -> None:
    labels = {"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/max-exec-time-seconds": "60"}
    (step,) = go(Toy(labels=labels, min_count=1)).steps
    assert isinstance(step, Create)
    meta, spec = step.body["metadata"], step.body["spec"]
    assert meta["name"] == generic_name(kind="Toy", group="example.com", name="toy", uid="u1")
    assert meta["labels"]["kueue.x-k8s.io/job-uid"] == "u1"
    assert meta["finalizers"] == [IN_USE]
    assert meta["ownerReferences"][0]["controller"] is True
    assert spec["maximumExecutionTimeSeconds"] == 60
    assert spec["podSets"][0]["minCount"] == 1


def test_a_prebuilt_workload_of_another_owner_is_never_written() -> None:
    labels = {"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/prebuilt-workload-name": "pre"}
    owner = {"apiVersion": "example.com/v1", "kind": "Toy", "name": "other", "uid": "u2", "controller": True}
    for job in (Toy(labels=labels), Toy(labels=labels, cpu="9"), Toy(labels=labels, ended=Ended(True, ""))):
        for conditions in ((), (QUOTA, ADMITTED)):
            foreign = made(Toy(), *conditions, name="pre", ownerReferences=[owner])
            outcome = go(job, prebuilt=foreign)
            assert not [step for step in outcome.steps if getattr(step, "resource", None) == WORKLOAD]
            assert outcome.verdict is not Verdict.STARTING


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
