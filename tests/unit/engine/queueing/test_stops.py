"""The outcome of each pass that stops a job, or in which another one decides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fournos.engine.kube.resource import Key, Obj
from fournos.engine.queueing.ensure import PREBUILT_LABEL
from fournos.engine.queueing.job import Ancestor, Ended, QueueInputs, QueueOutcome, Verdict, managed_elsewhere
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.queueing.reconcile import reconcile
from fournos.engine.queueing.report import release_quota
from fournos.engine.queueing.workload import HELD_BACK
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
from tests.unit.engine.queueing.toys import (
    ADMITTED,
    EVICTED,
    FLAVOR,
    GOING,
    HALT,
    NOW,
    QUIET,
    QUOTA,
    RUNS,
    TOY,
    Managed,
    Spawning,
    Switching,
    Toy,
    freed,
    go,
    made,
    normal,
    patch_of,
    suspended,
)

# --- stopping ------------------------------------------------------------------------------------------


def test_an_evicted_job_stops_before_its_quota_is_released() -> None:
    runs = Toy(**RUNS)
    workload = made(runs, QUOTA, ADMITTED, EVICTED)
    assert go(runs, workload, options=QUIET) == QueueOutcome(
        Verdict.STOPPING,
        "WorkloadEvicted",
        "make room",
        steps=(suspended(known=True),),
        events=(normal("Stopped", "make room"),),
    )
    ends = go(Toy(active=True), workload, options=QUIET)
    assert ends == QueueOutcome(Verdict.STOPPING, "WorkloadEvicted", "make room")
    over = go(Toy(), workload, options=QUIET)
    assert over == QueueOutcome(
        Verdict.STOPPING, "Preempted", "make room", steps=(release_quota(workload, NOW),)
    )


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
    assert found == QueueOutcome(Verdict.STOPPING, "WorkloadEvicted", "make room", retry=True)


def test_a_released_workload_waits_and_a_job_that_still_runs_is_stopped() -> None:
    released = made(Toy(), EVICTED)
    assert go(Toy(), released) == QueueOutcome(Verdict.WAITING, "Preempted", "make room")
    runs = go(Toy(**RUNS), released)
    assert (runs.verdict, runs.reason, runs.message) == (Verdict.STOPPING, "WorkloadEvicted", "make room")
    assert runs.steps == (suspended(known=True),)


def test_a_kind_with_its_own_stop_is_asked_with_the_reason() -> None:
    job = Spawning(active=True)
    workload = made(job, QUOTA, ADMITTED, EVICTED)
    found = go(job, workload, options=QUIET)
    assert found.steps == (HALT,) and job.asked[-1] == (True, "WorkloadEvicted", "make room")
    done = Spawning(active=True, halts=False)
    assert go(done, workload, options=QUIET) == QueueOutcome(Verdict.STOPPING, "WorkloadEvicted", "make room")


def test_a_deleted_workload_stays_until_the_job_has_stopped() -> None:
    workload = made(Toy(), QUOTA, ADMITTED, **GOING)
    text = "Workload is deleted"
    assert go(Toy(**RUNS), workload) == QueueOutcome(
        Verdict.STOPPING,
        "WorkloadDeleted",
        text,
        steps=(suspended(known=True),),
        events=(normal("Stopped", text),),
    )
    assert go(Toy(active=True), workload) == QueueOutcome(Verdict.STOPPING, "WorkloadDeleted", text)
    assert go(Toy(), workload) == QueueOutcome(Verdict.STOPPING, "WorkloadDeleted", steps=(freed(workload),))


# --- a Workload that does not match --------------------------------------------------------------------


def test_a_waiting_workload_is_rewritten_with_an_event() -> None:
    found = go(Toy(cpu="2"), made(Toy()))
    name = made(Toy())["metadata"]["name"]
    text = f"Updated not matching Workload for suspended job: ns/{name}"
    assert (found.verdict, found.reason, found.message) == (Verdict.WAITING, "UpdatedWorkload", text)
    (step,) = found.steps
    assert isinstance(step, Patch)
    assert step.body["spec"]["podSets"] == made(Toy(cpu="2"))["spec"]["podSets"]
    assert found.events == (normal("UpdatedWorkload", text),)


def test_a_running_job_stops_before_a_workload_that_does_not_match_is_deleted() -> None:
    held = made(Toy(), QUOTA, ADMITTED)
    text = "No matching Workload; restoring pod templates according to existent Workload"
    found = go(Toy(cpu="2", **RUNS), held)
    assert (found.verdict, found.reason, found.message) == (Verdict.STOPPING, "NoMatchingWorkload", text)
    assert found.steps == (suspended(known=True),)
    ends = go(Toy(cpu="2", active=True), held)
    assert ends == QueueOutcome(Verdict.STOPPING, "NoMatchingWorkload", text)
    (step,) = go(Toy(cpu="2"), held).steps
    assert isinstance(step, Delete)


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
    expected = QueueOutcome(Verdict.NESTED, message="Runs on the quota of Parent ns/parent", ancestor=above)
    assert go(Toy(**RUNS), ancestor=above) == expected
    waits = replace(above, workload=made(Toy(), QUOTA))
    text = "Kueue managed child job suspended"
    assert go(Toy(**RUNS), ancestor=waits) == QueueOutcome(
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


@pytest.mark.parametrize("suspended", [True, False])
def test_the_quota_of_a_job_of_another_cluster_is_released_whatever_its_status(suspended: bool) -> None:
    workload = made(Managed(), QUOTA, ADMITTED, EVICTED)
    found = go(Managed(active=True, suspended=suspended, ready=False), workload)
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
    assert found == QueueOutcome(Verdict.WAITING, "Activity", steps=(patch,))


# --- Jobs that another cluster runs, and jobs inside jobs --------------------------------------------


def test_the_field() -> None:
    assert managed_elsewhere({"managedBy": "kueue.x-k8s.io/multikueue"})
    assert not managed_elsewhere({"managedBy": "example.com/other"})
    assert not managed_elsewhere({})


def test_it_gets_a_workload_that_needs_no_release_here() -> None:
    found = go(Managed())
    assert found.verdict is Verdict.ELSEWHERE
    (step,) = found.steps
    assert isinstance(step, Create)
    assert "finalizers" not in step.body["metadata"]


def test_its_admission_starts_nothing() -> None:
    found = go(Managed(), made(Managed(), QUOTA, ADMITTED))
    assert (found.verdict, len(found.steps)) == (Verdict.ELSEWHERE, 1)
    assert patch_of(found).subresource == "status"  # PodsReady, as the mirrored status has it


def test_the_mirrored_end_is_declared() -> None:
    found = go(Managed(ended=Ended(True, "done")), made(Managed(), QUOTA, ADMITTED))
    assert found.verdict is Verdict.ELSEWHERE
    assert patch_of(found).body["status"]["conditions"][-1]["reason"] == "Succeeded"


def test_on_the_worker_it_is_a_job_like_any_other() -> None:
    assert go(Managed(by=None)).verdict is Verdict.WAITING


# --- inside another job ------------------------------------------------------------------------------------

OWNER = {"apiVersion": "example.com/v1", "kind": "Box", "name": "box", "uid": "b1", "controller": True}


def owned() -> Toy:
    return Toy(meta={"ownerReferences": [OWNER]})


def workload_of_owner(*, admitted: bool) -> Obj:
    flags = [{"type": "Admitted", "status": str(admitted)}]
    return {"metadata": {"name": "box", "ownerReferences": [OWNER]}, "status": {"conditions": flags}}


def asked(job: Toy, answer: Answer) -> Any:
    """Runs a pass with an empty cache; the Workloads of the owner are read live."""
    inputs = QueueInputs(flavors={"f": FLAVOR})
    need = attempt(reconcile, job, inputs, Facts(), NOW)
    assert isinstance(need, NeededFacts)
    (question,) = need.questions
    assert question == LiveList(question.resource, "ns", "kueue.x-k8s.io/job-uid=b1")  # type: ignore[union-attr]
    return reconcile(job, inputs, Facts({question: answer}), NOW)


def test_a_cache_that_lags_makes_no_second_workload() -> None:
    found = asked(owned(), Present((workload_of_owner(admitted=True),)))
    assert isinstance(found, QueueOutcome)
    assert (found.verdict, found.steps) == (Verdict.NESTED, ())


def test_an_owner_that_is_not_queued_does_not_count() -> None:
    (step,) = asked(owned(), Present(())).steps
    assert isinstance(step, Create)


def test_while_that_is_unknown_nothing_is_made() -> None:
    found = asked(owned(), Unknown("no answer"))
    assert (found.verdict, found.steps, found.retry) == (Verdict.BLOCKED, (), True)
