"""The outcome of each pass of the framework as a whole: verdict, reason, message, steps, events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from fournos.api.conditions import Condition
from fournos.kube.resource import Key, Obj, uid_of
from fournos.queueing.ensure import PREBUILT_LABEL
from fournos.queueing.inputs import Ancestor, Outcome, QueueInputs, Verdict
from fournos.queueing.job import Ended, Options
from fournos.queueing.kinds import WORKLOAD
from fournos.queueing.managed import MULTIKUEUE
from fournos.queueing.podsets import PodSetInfo
from fournos.queueing.reconcile import reconcile
from fournos.queueing.release import release_quota
from fournos.queueing.report import finish_patch, pods_ready_patch, reclaim_patch
from fournos.queueing.workload import HELD_BACK, IN_USE
from fournos.runtime.decision import (
    Absent,
    Answer,
    EventRecord,
    Facts,
    LiveGet,
    LiveList,
    Need,
    Present,
    Unknown,
    attempt,
)
from fournos.runtime.steps import Create, Delete, Patch, Step
from tests.unit.queueing.test_reconcile import (
    ADMITTED,
    EVICTED,
    FLAVOR,
    NOW,
    QUOTA,
    READY,
    TOY,
    Toy,
    go,
    made,
    patch_of,
)

GOING: dict[str, Any] = {"deletionTimestamp": "2030-01-01T00:00:00Z"}
QUIET = Options(pods_ready=False)
TIDY = Delete(TOY, Key("ns", "helper"), "h1")
HALT = Delete(TOY, Key("ns", "pods"), "p1")
SPAWN = Create(TOY, {"metadata": {"name": "pods", "namespace": "ns"}})


@dataclass
class Tidy(Toy):
    """Has objects that are deleted with its Workload."""

    def finalize_steps(self) -> Sequence[Step]:
        return (TIDY,)


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

    def managed_by(self) -> str | None:
        return MULTIKUEUE


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


# --- a job that is deleted -----------------------------------------------------------------------------


def test_a_deleted_job_keeps_its_workload_while_it_is_active() -> None:
    job = Tidy(meta=GOING, active=True)
    assert go(job, made(job)) == Outcome(Verdict.STOPPING, "Deleted")


def test_a_deleted_job_lets_go_of_all_that_it_had() -> None:
    job = Tidy(meta=GOING)
    one, two = made(job), made(job, name="two")
    assert go(job, one, two) == Outcome(Verdict.GONE, steps=(freed(one), freed(two), TIDY))


# --- a job that has ended ------------------------------------------------------------------------------


def test_the_end_of_a_job_is_that_of_its_workload() -> None:
    job = Tidy(ended=Ended(False, "exit code 1"))
    workload = made(job, QUOTA, ADMITTED)
    name = workload["metadata"]["name"]
    assert go(job, workload) == Outcome(
        Verdict.FINISHED,
        "Failed",
        "exit code 1",
        steps=(finish_patch(workload, "Failed", "exit code 1", NOW),),
        events=(normal("FinishedWorkload", f"Workload 'ns/{name}' is declared finished"),),
    )


def test_a_finished_workload_is_let_go_after_all_that_goes_with_it() -> None:
    job = Tidy(ended=Ended(True, "done"))
    workload = made(job, Condition("Finished", "True", "Succeeded", "over"))
    found = go(job, workload)
    assert found == Outcome(Verdict.FINISHED, "Succeeded", "over", steps=(TIDY, freed(workload)))


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
    assert go(Toy(), workload) == Outcome(Verdict.FINISHED)


def test_a_job_that_ended_without_a_workload_needs_none() -> None:
    found = go(Tidy(ended=Ended(True, "done")))
    assert found == Outcome(Verdict.FINISHED, message="done", steps=(TIDY,))
    assert go(Toy(ended=Ended(True, "done"))) == Outcome(Verdict.FINISHED, message="done")


def test_a_job_that_is_out_of_sync_stops_and_any_other_end_does_not_stop_it() -> None:
    job = Toy(**RUNS)
    unfit = made(job, Condition("Finished", "True", "OutOfSync", "another size"))
    assert go(job, unfit) == Outcome(
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


def started(job: Toy, cached: Obj, answer: Answer, flavors: Any = None) -> Outcome:
    inputs = QueueInputs(workloads=(cached,), flavors={"f": FLAVOR} if flavors is None else flavors)
    question = LiveGet(WORKLOAD, Key("ns", cached["metadata"]["name"]))
    return reconcile(job, inputs, Facts({question: answer}), NOW, options=QUIET)


def test_a_kind_with_objects_of_its_own_starts_with_the_workload_that_was_read() -> None:
    job = Spawning()
    cached = made(job, QUOTA, ADMITTED)
    live = {**cached, "metadata": {**cached["metadata"], "resourceVersion": "4"}}
    expected = Outcome(Verdict.STARTING, "Started", steps=(replace(SPAWN, own_label="w1"),), workload=live)
    assert started(job, cached, Present(live)) == expected


@pytest.mark.parametrize("answer", ["another", Absent(), Unknown("timeout")], ids=str)
def test_an_admission_of_another_workload_of_this_name_starts_nothing(answer: Any) -> None:
    job = Toy()
    cached = made(job, QUOTA, ADMITTED)
    if answer == "another":
        answer = Present({**cached, "metadata": {**cached["metadata"], "uid": "w2"}})
    text = "Waiting to see the Workload as it is now"
    assert started(job, cached, answer) == Outcome(Verdict.WAITING, "Unconfirmed", text, retry=True)


def test_an_admission_that_is_over_starts_nothing() -> None:
    job = Toy()
    cached = made(job, QUOTA, ADMITTED)
    found = started(job, cached, Present(made(job)))
    text = "The admission is over already"
    assert found == Outcome(Verdict.WAITING, "Unconfirmed", text, retry=True)


def test_a_flavor_that_is_missing_is_waited_for() -> None:
    job = Toy()
    cached = made(job, QUOTA, ADMITTED)
    text = "ResourceFlavor 'f' not found"
    found = started(job, cached, Present(cached), flavors={})
    assert found == Outcome(Verdict.BLOCKED, "FlavorNotFound", text, retry=True)


def test_a_job_that_its_flavors_do_not_fit_ends() -> None:
    job = Toy(refuses=True)
    cached = made(job, QUOTA, ADMITTED)
    steps = (finish_patch(cached, "FailedToStart", "no", NOW),)
    found = started(job, cached, Present(cached))
    assert found == Outcome(Verdict.FINISHED, "FailedToStart", "no", steps=steps)


def test_a_running_job_has_its_admission() -> None:
    job = Toy(**RUNS)
    quota = replace(QUOTA, message="in cq")
    workload = made(job, QUOTA, ADMITTED)
    workload["status"]["conditions"][0]["message"] = quota.message
    assert go(job, workload, options=QUIET) == Outcome(Verdict.ADMITTED, "Admitted", "in cq")


def test_a_first_start_needs_no_live_read() -> None:
    job = Spawning()
    cached = made(job, QUOTA, ADMITTED)
    options = Options(pods_ready=False, confirm_start=False)
    found = reconcile(job, QueueInputs(workloads=(cached,)), Facts(), NOW, options=options)
    steps = (replace(SPAWN, own_label="w1"),)
    assert found == Outcome(Verdict.STARTING, "Started", steps=steps, workload=cached)


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
    assert go(job, made(job, short)) == Outcome(Verdict.WAITING, "Inadmissible", "no room")


def test_a_job_without_admission_is_suspended_with_an_event() -> None:
    job = Toy(suspended=False)
    text = "Not admitted by cluster queue"
    assert go(job, made(job)) == Outcome(
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
    assert found == Outcome(Verdict.WAITING, "Pending", steps=(step,), events=events)


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
    assert go(job) == Outcome(
        Verdict.STOPPING,
        "NoMatchingWorkload",
        message,
        steps=(suspended(known=False),),
        events=(normal("Stopped", message),),
    )
    stopping = replace(job, suspended=True)
    text = "Waiting for what runs without quota to stop"
    assert go(stopping) == Outcome(Verdict.STOPPING, "NoMatchingWorkload", text)


def test_a_prebuilt_workload_that_is_missing_is_named() -> None:
    job = Toy()
    job.labels = {**job.labels, PREBUILT_LABEL: "pre"}
    text = "prebuilt Workload 'pre' not found"
    assert go(job) == Outcome(Verdict.BLOCKED, "PrebuiltWorkloadNotFound", text, retry=True)


def test_a_priority_class_that_is_missing_is_named() -> None:
    job = Toy(labels={"kueue.x-k8s.io/queue-name": "lq", "kueue.x-k8s.io/priority-class": "high"})
    text = "WorkloadPriorityClass 'high' not found; create it or submit without it"
    assert go(job) == Outcome(Verdict.BLOCKED, "PriorityClassNotFound", text, retry=True)


def test_an_owner_that_cannot_be_read_is_waited_for() -> None:
    owner = {"apiVersion": "example.com/v1", "kind": "Parent", "name": "p", "uid": "p1", "controller": True}
    job = Toy(meta={"ownerReferences": [owner]})
    need = attempt(reconcile, job, QueueInputs(), Facts(), NOW)
    question = LiveList(WORKLOAD, "ns", "kueue.x-k8s.io/job-uid=p1")
    assert need == Need((question,))
    found = reconcile(job, QueueInputs(), Facts({question: Unknown("timeout")}), NOW)
    assert found == Outcome(Verdict.BLOCKED, "OwnerUnknown", "timeout", retry=True)


# --- stopping ------------------------------------------------------------------------------------------


def test_an_evicted_job_stops_before_its_quota_is_released() -> None:
    runs = Toy(**RUNS)
    workload = made(runs, QUOTA, ADMITTED, EVICTED)
    assert go(runs, workload, options=QUIET) == Outcome(
        Verdict.STOPPING,
        "WorkloadEvicted",
        "make room",
        steps=(suspended(known=True),),
        events=(normal("Stopped", "make room"),),
    )
    ends = go(Toy(active=True), workload, options=QUIET)
    assert ends == Outcome(Verdict.STOPPING, "WorkloadEvicted", "make room")
    over = go(Toy(), workload, options=QUIET)
    assert over == Outcome(Verdict.STOPPING, "Preempted", "make room", steps=(release_quota(workload, NOW),))


def test_an_eviction_without_reason_and_message_has_a_reason() -> None:
    workload = made(Toy(), QUOTA, ADMITTED, EVICTED)
    for one in workload["status"]["conditions"]:
        if one["type"] == "Evicted":
            one.pop("reason"), one.pop("message")
    found = go(Toy(), workload, options=QUIET)
    assert (found.verdict, found.reason, found.message) == (Verdict.STOPPING, "Evicted", "")


@pytest.mark.parametrize(
    "answer",
    [Present({**Toy().obj, "metadata": {**Toy().obj["metadata"], "resourceVersion": "8"}}), Absent()],
)
def test_no_quota_is_released_for_a_job_that_has_changed(answer: Answer) -> None:
    """The cache could hide a start."""
    inputs = QueueInputs(workloads=(made(Toy(), QUOTA, ADMITTED, EVICTED),))
    facts = Facts({LiveGet(TOY, Key("ns", "toy")): answer})
    found = reconcile(Toy(), inputs, facts, NOW, options=QUIET)
    assert found == Outcome(Verdict.STOPPING, "WorkloadEvicted", "make room", retry=True)


def test_a_released_workload_waits_and_a_job_that_still_runs_is_stopped() -> None:
    released = made(Toy(), EVICTED)
    assert go(Toy(), released) == Outcome(Verdict.WAITING, "Preempted", "make room")
    runs = go(Toy(**RUNS), released)
    assert (runs.verdict, runs.reason, runs.message) == (Verdict.STOPPING, "WorkloadEvicted", "make room")
    assert runs.steps == (suspended(known=True),)


def test_a_kind_with_its_own_stop_is_asked_with_the_reason() -> None:
    job = Spawning(active=True)
    workload = made(job, QUOTA, ADMITTED, EVICTED)
    found = go(job, workload, options=QUIET)
    assert found.steps == (HALT,) and job.asked[-1] == (True, "WorkloadEvicted", "make room")
    done = Spawning(active=True, halts=False)
    assert go(done, workload, options=QUIET) == Outcome(Verdict.STOPPING, "WorkloadEvicted", "make room")


def test_a_deleted_workload_stays_until_the_job_has_stopped() -> None:
    workload = made(Toy(), QUOTA, ADMITTED, **GOING)
    text = "Workload is deleted"
    assert go(Toy(**RUNS), workload) == Outcome(
        Verdict.STOPPING,
        "WorkloadDeleted",
        text,
        steps=(suspended(known=True),),
        events=(normal("Stopped", text),),
    )
    assert go(Toy(active=True), workload) == Outcome(Verdict.STOPPING, "WorkloadDeleted", text)
    assert go(Toy(), workload) == Outcome(Verdict.STOPPING, "WorkloadDeleted", steps=(freed(workload),))


# --- a Workload that does not match --------------------------------------------------------------------


def test_a_waiting_workload_is_rewritten_with_an_event() -> None:
    found = go(Toy(cpu="2"), made(Toy()))
    name = made(Toy())["metadata"]["name"]
    text = f"Updated not matching Workload for suspended job: ns/{name}"
    assert (found.verdict, found.reason, found.message) == (Verdict.WAITING, "UpdatedWorkload", text)
    assert found.events == (normal("UpdatedWorkload", text),)


def test_a_running_job_stops_before_a_workload_that_does_not_match_is_deleted() -> None:
    held = made(Toy(), QUOTA, ADMITTED)
    text = "No matching Workload; restoring pod templates according to existent Workload"
    found = go(Toy(cpu="2", **RUNS), held)
    assert (found.verdict, found.reason, found.message) == (Verdict.STOPPING, "NoMatchingWorkload", text)
    assert found.steps == (suspended(known=True),)
    ends = go(Toy(cpu="2", active=True), held)
    assert ends == Outcome(Verdict.STOPPING, "NoMatchingWorkload", text)


def test_a_change_of_the_queue_alone_is_no_event() -> None:
    job = Toy(labels={"kueue.x-k8s.io/queue-name": "other"})
    found = go(job, made(Toy()))
    assert (found.verdict, found.reason, found.events) == (Verdict.WAITING, "", ()) and found.steps


def test_a_prebuilt_workload_that_does_not_match_has_the_reason() -> None:
    job = Toy(cpu="9")
    job.labels = {**job.labels, PREBUILT_LABEL: "pre"}
    found = go(job, prebuilt=made(Toy(), name="pre"))
    text = "The prebuilt workload is out of sync with its user job"
    assert (found.verdict, found.reason, found.message) == (Verdict.WAITING, "OutOfSync", text)
    assert found.events == ()


# --- nested --------------------------------------------------------------------------------------------


def test_a_nested_job_runs_on_the_quota_of_its_ancestor() -> None:
    above = Ancestor(Key("ns", "parent"), "Parent", made(Toy(), QUOTA, ADMITTED))
    expected = Outcome(Verdict.NESTED, message="Runs on the quota of Parent ns/parent", ancestor=above)
    assert go(Toy(**RUNS), ancestor=above) == expected
    waits = replace(above, workload=made(Toy(), QUOTA))
    text = "Kueue managed child job suspended"
    assert go(Toy(**RUNS), ancestor=waits) == Outcome(
        Verdict.NESTED, "Suspended", steps=(suspended(known=False),), events=(normal("Suspended", text),)
    )
    for job in (Toy(), Toy(ended=Ended(True, "done"), **RUNS)):
        assert go(job, ancestor=waits) == replace(expected, ancestor=waits)


def test_a_nested_kind_with_its_own_stop_is_asked_with_the_reason() -> None:
    job = Spawning(**RUNS)
    assert go(job, ancestor=Ancestor(Key("ns", "parent"), "Parent")).steps == (HALT,)
    assert job.asked == [(False, "NotAdmitted", "Kueue managed child job suspended")]


# --- on another cluster --------------------------------------------------------------------------------


def test_a_job_of_another_cluster_is_neither_started_nor_stopped() -> None:
    admitted = made(Managed(), QUOTA, ADMITTED)
    assert go(Managed(), admitted, options=QUIET).verdict is Verdict.ELSEWHERE
    assert go(Managed(), admitted, options=QUIET).steps == ()
    assert go(Managed(**RUNS), made(Managed())).steps == ()


def test_the_quota_of_a_job_of_another_cluster_is_released_whatever_its_status() -> None:
    workload = made(Managed(), QUOTA, ADMITTED, EVICTED)
    found = go(Managed(**RUNS), workload, options=QUIET)
    assert found.steps == (release_quota(workload, NOW),) and found.verdict is Verdict.ELSEWHERE


# --- out of the queue for a time -----------------------------------------------------------------------


def with_activity(active: bool, *, by_us: bool) -> Obj:
    workload = made(Toy())
    meta = {**workload["metadata"], **({"annotations": {HELD_BACK: "true"}} if by_us else {})}
    return {**workload, "metadata": meta, "spec": {**workload["spec"], "active": active}}


@pytest.mark.parametrize(
    ("held", "workload", "expected"),
    [
        (True, with_activity(True, by_us=False), (False, "true")),
        (True, made(Toy()), (False, "true")),
        (True, with_activity(False, by_us=True), None),
        (False, with_activity(False, by_us=True), (True, None)),
        (False, with_activity(False, by_us=False), None),
        (False, with_activity(True, by_us=False), None),
    ],
    ids=[
        "is held back",
        "is held back, by default",
        "is so already",
        "comes back",
        "inactive by another client",
        "active",
    ],
)
def test_a_job_holds_its_workload_back_and_activates_only_what_it_held(
    held: bool, workload: Obj, expected: tuple[bool, str | None] | None
) -> None:
    found = go(Switching(held=held), workload)
    if expected is None:
        assert found.steps == ()
        return
    meta = {"resourceVersion": "3", "annotations": {HELD_BACK: expected[1]}}
    patch = Patch(
        WORKLOAD, Key("ns", workload["metadata"]["name"]), {"metadata": meta, "spec": {"active": expected[0]}}
    )
    assert found == Outcome(Verdict.WAITING, "Activity", steps=(patch,))


# --- the reports ---------------------------------------------------------------------------------------


def test_a_report_is_an_outcome_of_its_own() -> None:
    job = Toy(**RUNS)
    admitted = made(job, QUOTA, ADMITTED)
    ready = pods_ready_patch(admitted, True, NOW)
    assert ready is not None
    assert go(job, admitted) == Outcome(Verdict.ADMITTED, "Reported", steps=(ready,))
    lost = made(Toy(), READY)
    not_ready = pods_ready_patch(lost, False, NOW)
    assert not_ready is not None
    assert go(Toy(ready=False), lost) == Outcome(Verdict.WAITING, "Reported", steps=(not_ready,))


def test_a_kind_without_pods_that_end_early_reports_none() -> None:
    class Plain(Toy):
        reclaimable_pods = None  # type: ignore[assignment]

    job = Plain(**RUNS)
    assert go(job, made(job, QUOTA, ADMITTED), options=QUIET).verdict is Verdict.ADMITTED


@pytest.mark.parametrize(
    ("held", "before", "ended", "expected"),
    [
        (True, {}, {"main": 1}, {"main": 1}),
        (True, {"main": 2}, {"main": 1}, None),
        (True, {"main": 1}, {"main": 9}, {"main": 2}),
        (True, {"main": 1}, {}, None),
        (False, {"main": 2}, {"main": 1}, {"main": 1}),
        (False, {"main": 1}, {}, {}),
        (False, {"main": 1}, {"main": 0}, {}),
        (True, {}, {"other": 1}, None),
        (True, {}, {"single": 5}, {"single": 1}),
    ],
    ids=[
        "new",
        "less",
        "more than there are",
        "kept",
        "less, free",
        "none, free",
        "zero",
        "unknown",
        "default",
    ],
)
def test_reclaimable_pods_only_grow_while_quota_is_held(
    held: bool, before: dict[str, int], ended: dict[str, int], expected: dict[str, int] | None
) -> None:
    workload = made(Toy(), *((QUOTA,) if held else ()))
    workload["spec"] = {**workload["spec"], "podSets": [*workload["spec"]["podSets"], {"name": "single"}]}
    workload["status"]["reclaimablePods"] = [{"name": name, "count": count} for name, count in before.items()]
    found = reclaim_patch(workload, ended)
    if expected is None:
        assert found is None
        return
    entries = [{"name": name, "count": count} for name, count in expected.items()]
    assert found is not None and found.subresource == "status" and found.resource == WORKLOAD
    assert found.body == {"metadata": {"resourceVersion": "3"}, "status": {"reclaimablePods": entries}}
    assert found.key == Key("ns", workload["metadata"]["name"])


@pytest.mark.parametrize(
    ("conditions", "ready", "expected"),
    [
        ((), False, None),
        ((), True, None),
        ((QUOTA, ADMITTED), True, ("True", "Started")),
        ((QUOTA, ADMITTED, Condition("PodsReady", "True", "Started", "")), True, None),
        (
            (QUOTA, ADMITTED, Condition("PodsReady", "True", "Started", "")),
            False,
            ("False", "WaitForRecovery"),
        ),
        ((QUOTA, ADMITTED, Condition("PodsReady", "False", "WaitForStart", "")), False, None),
        ((QUOTA, ADMITTED, Condition("PodsReady", "False", "WaitForRecovery", "")), False, None),
        (
            (QUOTA, ADMITTED, Condition("PodsReady", "False", "WaitForRecovery", "")),
            True,
            ("True", "Recovered"),
        ),
        ((QUOTA, ADMITTED, Condition("PodsReady", "True", "Recovered", "")), True, None),
        ((Condition("PodsReady", "True", "Started", ""),), True, ("False", "WaitForStart")),
    ],
)
def test_readiness_is_written_when_it_changes(
    conditions: tuple[Condition, ...], ready: bool, expected: tuple[str, str] | None
) -> None:
    workload = made(Toy(), *conditions, generation=4)
    found = pods_ready_patch(workload, ready, NOW)
    if expected is None:
        assert found is None
        return
    texts = {
        "WaitForRecovery": "At least one pod has failed, waiting for recovery",
        "WaitForStart": "Not all pods are ready or succeeded",
    }
    usual = "All pods reached readiness and the workload is running"
    assert found is not None
    written = found.body["status"]["conditions"]
    (one,) = [one for one in written if one["type"] == "PodsReady"]
    assert (one["status"], one["reason"]) == expected and one["observedGeneration"] == 4
    assert one["message"] == texts.get(expected[1], usual)
    assert {one["type"] for one in written} == {*(c.type for c in conditions), "PodsReady"}, "all others stay"


def test_a_workload_without_our_finalizer_is_let_go_already() -> None:
    job = Toy(meta=GOING)
    assert go(job, made(job, finalizers=["other"])).steps == ()
    both = made(job, finalizers=["other", IN_USE])
    (step,) = go(job, both).steps
    assert isinstance(step, Patch) and step.body["metadata"]["finalizers"] == ["other"]
