"""A job in the queue, as tables: what it waits for, what it fails of, and how it claims its cluster."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.resource import Key
from fournos.engine.queueing.workload import WORKLOAD, WORKLOAD_PRIORITY_CLASS
from fournos.engine.runtime.decision import (
    Absent,
    Answer,
    Create,
    Decision,
    EventRecord,
    LiveGet,
    Patch,
    Present,
    StepFailure,
    Unknown,
)
from fournos.systems.jobs import names
from tests.unit.systems.jobs.actors import NS
from tests.unit.systems.jobs.passes import GONE, KEY, NOW, a_job, ago, condition_of, true, written
from tests.unit.systems.jobs.pending_passes import ON, pending, queued, requested

CLASS = LiveGet(WORKLOAD_PRIORITY_CLASS, Key("", "urgent"))
WAITING = "Workload created, waiting for Kueue admission"


# --- the Workload --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "message"), [({}, WAITING), ({"lockOnly": True}, "Cluster lock pending admission")]
)
def test_a_job_enters_the_queue(spec: Any, message: str) -> None:
    found = pending(status={"retryAt": ago(1)}, **spec)
    (step,) = found.steps
    assert isinstance(step, Create) and (step.resource, step.body["metadata"]["name"]) == (WORKLOAD, "job")
    assert written(found, "phase", "message", "retryAt") == ("Pending", message, None)
    assert condition_of(found, "WorkloadAdmitted") == ("False", "Pending", message)
    assert found.settled, "Kueue's answer is an event"


@pytest.mark.parametrize(
    ("answer", "made"),
    [
        (Present(a_job("Pending")), True),
        (Present(a_job("Pending", meta={"resourceVersion": "8"})), False),
        (Absent(), False),
    ],
    ids=["there", "changed", "gone"],
)
def test_a_second_workload_is_made_only_for_a_job_that_is_there(answer: Answer, made: bool) -> None:
    """The garbage collector deletes the Workload of a deleted job, and that may be seen first."""
    found = pending(queued_before=True, answers={LiveGet(FOURNOS_JOB, KEY): answer})
    assert (bool(found.steps), found.retry) == (made, not made)


def test_a_failed_attempt_is_not_queued_before_its_time() -> None:
    at = (NOW + timedelta(seconds=5)).strftime("%Y-%m-%dT%H:%M:%SZ")
    early = pending(status={"retryAt": at})
    assert early.steps == () and early.wake_at == NOW + timedelta(seconds=5)
    assert written(early, "retryAt") == (at,)
    assert pending(status={"retryAt": ago(0)}).steps


def test_a_job_is_not_queued_before_its_start_time() -> None:
    at = NOW + timedelta(hours=5)
    spec = {"scheduledStartTime": at.strftime("%Y-%m-%dT%H:%M:%SZ"), "timeouts": {"pending": "1h"}}
    text = f"Not queued before {spec['scheduledStartTime']} (spec.scheduledStartTime)"
    early = pending(**spec)
    assert early.steps == () and early.wake_at == at
    assert written(early, "phase", "message") == ("Pending", text)
    assert condition_of(early, "WorkloadAdmitted") == ("False", "NotBefore", text)
    assert pending(queued(), **spec).steps == (GONE,), "the time was set while it waited"
    due = {**spec, "scheduledStartTime": ago(0)}
    assert pending(**due).steps and pending(queued(), **due).wake_at == NOW + timedelta(hours=1)


def test_the_finalizer_of_the_attempt_before_goes_first() -> None:
    (step,) = pending(meta={"finalizers": [names.FINALIZER]}).steps
    assert isinstance(step, Patch) and step.resource == FOURNOS_JOB
    assert step.body["metadata"]["finalizers"] in (None, [])


def test_a_suspended_job_leaves_the_queue_and_comes_back() -> None:
    text = "Suspended: set spec.suspend to false to queue the job"
    held = pending(queued(), suspend=True)
    assert held.steps == (GONE,) and written(held, "message") == (text,)
    assert condition_of(held, "Suspended") == ("True", "Suspended", text)
    resumed = pending(status={"conditions": [true("Suspended")]})
    assert condition_of(resumed, "Suspended") == ("False", "Resumed", "") and resumed.steps


# --- what Kueue answers --------------------------------------------------------------------------------

SHORT = "couldn't assign flavors to pod set launcher: insufficient unused quota"


@pytest.mark.parametrize(
    ("conditions", "changes", "reason", "message"),
    [
        (
            ({"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": SHORT},),
            {},
            "Pending",
            f"Waiting for admission: {SHORT}",
        ),
        (
            (true("Evicted", "Preempted", "make room"),),
            {},
            "Preempted",
            "Evicted by Kueue (Preempted): make room. Waiting to be admitted again",
        ),
        (
            (true("Evicted", "Deactivated", "by hand"),),
            {"active": False},
            "Deactivated",
            "Deactivated: by hand. Set spec.active to true on the Workload to queue it again",
        ),
    ],
    ids=["no room", "evicted", "deactivated"],
)
def test_why_a_job_waits_is_that_of_its_workload(
    conditions: Any, changes: Any, reason: str, message: str
) -> None:
    workload = queued(*conditions)
    workload["spec"] = {**workload["spec"], **changes}
    found = pending(workload)
    assert written(found, "phase", "message") == ("Pending", message)
    assert condition_of(found, "WorkloadAdmitted") == ("False", reason, message)
    assert found.steps == ()


def test_a_workload_that_kueue_has_not_seen_changes_no_message() -> None:
    found = pending(queued(), status={"message": "before"})
    assert written(found, "message") == ("before",) and "conditions" not in (found.status or {})


def test_a_cluster_that_one_job_holds_alone_is_named_with_it() -> None:
    text = "couldn't assign flavors to pod set launcher: insufficient quota for fournos/cluster-slot"
    condition = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": text}
    found = pending(queued(condition), holders=("other",), exclusive_holders=("other",))
    expected = "Cluster cluster-1 is exclusively locked by job other, waiting for it to finish"
    waiting = {"cause": "Lock", "cluster": "cluster-1", "holder": "other"}
    assert written(found, "message", "waiting") == (expected, waiting)
    # The version before wrote the message alone: the next pass adds the field.
    before = {"message": expected}
    again = pending(queued(condition), status=before, holders=("other",), exclusive_holders=("other",))
    assert written(again, "message", "waiting") == (expected, waiting)


def test_the_holder_goes_with_the_message_that_names_it() -> None:
    status = {"message": "before", "waiting": {"cause": "Lock", "cluster": "cluster-1", "holder": "other"}}
    found = pending(queued(), status=status, suspend=True)
    assert written(found, "message", "waiting") == (
        "Suspended: set spec.suspend to false to queue the job",
        None,
    )


def test_a_change_of_the_workload_is_followed_by_another_pass() -> None:
    found = pending(queued(), cluster="cluster-2")
    assert found.steps and not found.settled and "conditions" not in (found.status or {})


def test_an_admission_that_is_over_already_changes_no_message() -> None:
    status = {"attempt": 1, "attempts": [{"number": 1, "outcome": "Failed"}], "message": "before"}
    cached = queued(*ON, cluster="cluster-1")
    over = {**cached, "status": {"conditions": []}}
    live = LiveGet(WORKLOAD, Key(NS, "job"))
    found = pending(cached, status=status, answers={live: Present(over)})
    assert written(found, "phase", "message") == ("Pending", "before")
    assert found.retry and found.steps == () and found.events == ()


# --- the claim -----------------------------------------------------------------------------------------


def test_a_job_claims_its_cluster_before_anything_is_made() -> None:
    found = pending(queued(*ON, cluster="cluster-1"))
    assert found.steps == ()
    text = "Workload admitted, assigned to cluster cluster-1"
    assert written(found, "phase", "message", "cluster", "attempt") == ("Admitted", text, "cluster-1", 1)
    entry = {
        "number": 1,
        "cluster": "cluster-1",
        "startedAt": ago(0),
        "workload": "job",
        "pipelineRun": "job",
    }
    assert written(found, "attempts") == ([entry],)
    assigned = "Assigned to cluster cluster-1"
    assert condition_of(found, "WorkloadAdmitted") == ("True", "Admitted", assigned)
    assert found.events == (EventRecord("Normal", "Admitted", assigned),)


def test_a_lock_claims_its_cluster_without_a_run() -> None:
    found = pending(queued(*ON, cluster="cluster-1", lockOnly=True), lockOnly=True)
    (attempts,) = written(found, "attempts")
    assert written(found, "message") == ("Cluster lock held on cluster-1",)
    assert "pipelineRun" not in attempts[0] and attempts[0]["workload"] == "job"


def test_the_run_has_the_name_of_its_workload_unless_that_is_of_another_client() -> None:
    def run_of(name: str) -> str:
        workload = queued(*ON, cluster="cluster-1")
        workload["metadata"]["name"] = name
        live = LiveGet(WORKLOAD, Key(NS, name))
        status = {"attempt": 1, "attempts": [{"number": 1, "outcome": "Failed"}]}
        found = pending(workload, status=status, answers={live: Present(workload)})
        (attempts,) = written(found, "attempts")
        return str(attempts[-1]["pipelineRun"])

    usual, other = names.attempt_names("job", 2, "u1")
    assert [run_of(usual), run_of(other), run_of("theirs")] == [usual, other, usual]


def test_an_admission_without_a_cluster_fails_the_job() -> None:
    found = pending(queued(*ON))
    text = "Workload admitted but no flavor assigned"
    assert written(found, "phase", "message") == ("Failed", text) and found.steps == (GONE,)
    detail = "Workload was admitted but no ResourceFlavor was assigned"
    assert condition_of(found, "WorkloadAdmitted") == ("False", "NoFlavorAssigned", detail)


# --- the limit of the wait -----------------------------------------------------------------------------


def test_a_job_that_is_not_admitted_in_time_fails_with_what_it_waited_for() -> None:
    def after(seconds: float) -> Decision:
        status = {"phaseTimes": {"pending": ago(seconds)}, "message": "no room"}
        return pending(queued(), status=status, timeouts={"pending": "1m"})

    early = after(59)
    assert early.steps == () and early.wake_at == NOW + timedelta(seconds=1)
    due = after(60)
    text = "Not admitted within spec.timeouts.pending (1m): no room"
    assert written(due, "phase", "message") == ("Failed", text) and due.steps == (GONE,)
    assert condition_of(due, "WorkloadAdmitted") == ("False", "PendingTimeout", text)


def test_time_in_which_a_job_may_not_be_queued_counts_not_against_its_limit() -> None:
    """A hold of two hours, and a backoff of ten minutes."""
    long_ago, limit = {"pending": ago(7200)}, {"pending": "1m"}
    held = {"type": "Suspended", "status": "True", "reason": "Suspended", "lastTransitionTime": ago(7200)}
    resumed = pending(status={"phaseTimes": long_ago, "conditions": [held]}, timeouts=limit)
    assert isinstance(resumed.steps[0], Create) and resumed.wake_at == NOW + timedelta(minutes=1)
    retried = pending(status={"phaseTimes": long_ago, "retryAt": ago(0)}, timeouts=limit)
    assert isinstance(retried.steps[0], Create)
    after_it = pending(queued(since=10), status={"phaseTimes": long_ago}, timeouts=limit)
    assert after_it.steps == () and after_it.wake_at == NOW + timedelta(seconds=50)


# --- a Workload that cannot be made --------------------------------------------------------------------


def refused(error: str, **job: Any) -> Decision:
    step = Create(WORKLOAD, requested())
    failure = StepFailure(step, error, "no", transient=False, count=1)
    return pending(failure=failure, **job)


@pytest.mark.parametrize("error", ["InvalidError", "ForeignObject"])
def test_a_workload_that_is_refused_fails_the_job(error: str) -> None:
    found = refused(error)
    assert written(found, "phase", "message") == ("Failed", "Failed to create Workload: no")
    detail = "Workload creation failed: no"
    assert condition_of(found, "WorkloadAdmitted") == ("False", "WorkloadFailed", detail)


@pytest.mark.parametrize(
    ("error", "reason", "message"),
    [
        ("NoSuchResourceError", "KueueNotInstalled", "Waiting: Kueue is not installed"),
        ("ForbiddenError", "Forbidden", "Waiting: the operator may not do this: no"),
    ],
)
def test_a_workload_that_a_person_can_make_possible_is_waited_for(
    error: str, reason: str, message: str
) -> None:
    found = refused(error)
    assert written(found, "phase", "message") == ("Pending", message) and found.retry
    assert condition_of(found, "WorkloadAdmitted") == ("False", reason, message)


def test_a_later_attempt_gives_way_to_a_foreign_workload() -> None:
    status = {"attempt": 1, "attempts": [{"number": 1, "outcome": "Failed"}]}
    usual, other = names.attempt_names("job", 2, "u1")
    step = Create(WORKLOAD, {"metadata": {"name": usual, "namespace": NS}})
    failure = StepFailure(step, "ForeignObject", "taken", transient=False, count=1)
    (again,) = pending(failure=failure, status=status).steps
    assert isinstance(again, Create) and again.body["metadata"]["name"] == other


# --- its priority class --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "reason", "message"),
    [
        (
            Absent(),
            "PriorityClassNotFound",
            "Waiting: WorkloadPriorityClass 'urgent' not found; create it or submit without priority",
        ),
        (Absent(no_kind=True), "KueueNotInstalled", "Waiting: Kueue is not installed"),
        (
            Unknown("timeout"),
            "PriorityClassUnknown",
            "Waiting: cannot read WorkloadPriorityClass 'urgent': timeout",
        ),
        (
            Present({"value": 1_000_000_000}),
            "PriorityReserved",
            "Waiting: WorkloadPriorityClass 'urgent' has the priority of a held lock (1000000000) or more, "
            "which is for locks of clusters only; name another class",
        ),
    ],
    ids=["missing", "no Kueue", "unknown", "reserved"],
)
def test_a_priority_class_that_cannot_be_used_is_waited_for(
    answer: Answer, reason: str, message: str
) -> None:
    found = pending(priority="urgent", answers={CLASS: answer})
    assert written(found, "phase", "message") == ("Pending", message)
    assert condition_of(found, "WorkloadAdmitted") == ("False", reason, message)
    assert found.retry and found.steps == ()


@pytest.mark.parametrize(
    "known", [{"answers": {CLASS: Present({"value": 5})}}, {"priority_value": 5}], ids=["live", "cached"]
)
def test_a_workload_has_the_value_of_its_priority_class(known: Any) -> None:
    (step,) = pending(priority="urgent", **known).steps
    assert isinstance(step, Create)
    assert (step.body["spec"]["priority"], step.body["spec"]["priorityClassRef"]["name"]) == (5, "urgent")
