"""A job in the queue, as tables: what it waits for, what it fails of, and how it claims its cluster."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from fournos.api.fournosjob import Waiting
from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.resource import Key, Obj, owner_reference
from fournos.engine.queueing.kinds import WORKLOAD, WORKLOAD_PRIORITY_CLASS
from fournos.engine.queueing.workload import QueueState, WorkloadView
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
from fournos.systems.jobs.pending import admission, waits_for
from fournos.systems.jobs.status import Context
from tests.unit.systems.jobs.actors import NS
from tests.unit.systems.jobs.passes import (
    GONE,
    KEY,
    NOW,
    ON,
    a_job,
    a_workload,
    ago,
    condition_of,
    decided,
    pending,
    queued,
    requested,
    true,
    written,
)

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


def no_quota(message: str) -> dict[str, Any]:
    return {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": message}


@pytest.mark.parametrize(
    ("condition", "changes", "reason", "message"),
    [
        (no_quota(SHORT), {}, "Pending", f"Waiting for admission: {SHORT}"),
        (
            true("Evicted", "Preempted", "make room"),
            {},
            "Preempted",
            "Evicted by Kueue (Preempted): make room. Waiting to be admitted again",
        ),
        (
            true("Evicted", "Deactivated", "by hand"),
            {"active": False},
            "Deactivated",
            "Deactivated: by hand. Set spec.active to true on the Workload to queue it again",
        ),
    ],
    ids=["no room", "evicted", "deactivated"],
)
def test_why_a_job_waits_is_that_of_its_workload(
    condition: Any, changes: Any, reason: str, message: str
) -> None:
    workload = queued(condition)
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
    condition = no_quota(text)
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
    entry = {"number": 1, "cluster": "cluster-1", "workload": "job", "pipelineRun": "job"}
    assert written(found, "attempts") == ([{**entry, "startedAt": ago(0)}],)
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


def test_an_admission_to_another_cluster_fails_the_job() -> None:
    """Kueue gives a flavor without the label to any job."""
    found = pending(queued(*ON, cluster="cluster-2"))
    assert written(found, "phase") == ("Failed",)
    status, reason, text = condition_of(found, "WorkloadAdmitted")
    assert (status, reason) == ("False", "WrongCluster") and "ResourceFlavor cluster-2" in text


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
    found, detail = refused(error), "Workload creation failed: no"
    assert written(found, "phase", "message") == ("Failed", "Failed to create Workload: no")
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


URGENT = "WorkloadPriorityClass 'urgent'"


@pytest.mark.parametrize(
    ("answer", "reason", "message"),
    [
        (
            Absent(),
            "PriorityClassNotFound",
            f"Waiting: {URGENT} not found; create it or submit without priority",
        ),
        (Absent(no_kind=True), "KueueNotInstalled", "Waiting: Kueue is not installed"),
        (Unknown("timeout"), "PriorityClassUnknown", f"Waiting: cannot read {URGENT}: timeout"),
        (
            Present({"value": 1_000_000_000}),
            "PriorityReserved",
            f"Waiting: {URGENT} has the priority of a held lock (1000000000) or more, "
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


# --- pending on others quota ---------------------------------------------------------------------------
# A job in the queue with a Workload that it has not made, as tables: that of MultiKueue.

PARENT = {"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper", "name": "aw", "uid": "aw1"}

PREBUILT = {"labels": {"kueue.x-k8s.io/prebuilt-workload-name": "pre"}}
LIVE = LiveGet(WORKLOAD, Key(NS, "pre"))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Absent(), "Waiting: its Workload 'pre' is not there"),
        (Unknown("timeout"), "Waiting: its Workload 'pre' cannot be read"),
    ],
)
def test_a_prebuilt_workload_that_is_missing_is_waited_for(answer: Answer, message: str) -> None:
    found = pending(meta=PREBUILT, answers={LIVE: answer})
    assert written(found, "phase", "message") == ("Pending", message) and found.retry and found.steps == ()
    assert condition_of(found, "WorkloadAdmitted") == ("False", "PrebuiltMissing", message)


def prebuilt(owner: Any) -> Obj:
    base = a_workload(name="pre")
    return {**base, "metadata": {**base["metadata"], "ownerReferences": [owner] if owner else []}}


def test_a_prebuilt_workload_of_another_owner_fails_the_job_and_stays() -> None:
    theirs = {**PARENT, "controller": True}
    found = pending(meta=PREBUILT, answers={LIVE: Present(prebuilt(theirs))})
    text = "Workload 'pre' belongs to AppWrapper aw"
    assert written(found, "phase", "message") == ("Failed", text) and found.steps == ()
    assert condition_of(found, "WorkloadAdmitted") == ("False", "PrebuiltTaken", text)


@pytest.mark.parametrize("owner", [None, owner_reference(FOURNOS_JOB, a_job(""))], ids=["free", "ours"])
def test_a_prebuilt_workload_that_only_the_cache_misses_is_waited_for(owner: Any) -> None:
    found = pending(meta=PREBUILT, answers={LIVE: Present(prebuilt(owner))})
    assert found == Decision(retry=True)


def test_a_job_that_does_not_match_its_prebuilt_workload_fails() -> None:
    """The Workload is finished after the status: its end is the signal to the manager cluster."""
    labels = {"kueue.x-k8s.io/prebuilt-workload-name": "job"}
    owner = owner_reference(FOURNOS_JOB, a_job(""))
    base = queued()
    ours = {**base, "metadata": {**base["metadata"], "ownerReferences": [owner]}}
    found = pending(ours, meta={"labels": labels}, prebuilt=ours, cluster="cluster-2")
    text = (
        "The prebuilt workload is out of sync with its user job: "
        "write the GPUs that it needs into spec.hardware where it is submitted"
    )
    assert written(found, "phase", "message") == ("Failed", text) and found.steps == ()
    assert condition_of(found, "WorkloadAdmitted") == ("False", "OutOfSync", text)


def test_a_free_prebuilt_workload_is_taken_before_anything_else() -> None:
    found = decided(a_job("", meta=PREBUILT, status={"resolved": None}), prebuilt=prebuilt(None))
    (step,) = found.steps
    assert isinstance(step, Patch) and (step.resource, step.key) == (WORKLOAD, Key(NS, "pre"))
    assert step.body["metadata"]["ownerReferences"][0]["uid"] == "u1" and found.status is None


# --- waiting -------------------------------------------------------------------------------------------
# The message of a queued job when clusters take no jobs: a plain reason instead of Kueue's taints.

PREFIX = "couldn't assign flavors to pod set launcher: "
DRAINED = "untolerated taint {fournos.dev/unavailable draining NoSchedule <nil>} in flavor c1"
LOST = "untolerated taint {fournos.dev/unavailable unreachable NoSchedule <nil>} in flavor c2.lab"
SHORT_OF = "insufficient unused quota for fournos/gpu-a100 in flavor c3, 2 more needed"
ELSEWHERE = "flavor c4 doesn't match node affinity"
SPOT = "untolerated taint {instance spot NoSchedule <nil>} in flavor c5"


def admitted(*reasons: str, cluster: str | None = None, **observed: Any) -> tuple[str, Waiting]:
    """As Kueue joins them (its flavor assigner sorts the reasons)."""
    nothing = {"exclusive_holders": (), "holders": (), "all_locked": False, "may_name_holder": True}
    seen = SimpleNamespace(**{**nothing, **observed})
    ctx: Any = SimpleNamespace(observed=seen, spec=SimpleNamespace(cluster=cluster, exclusive=False))
    queue = WorkloadView(QueueState.WAITING, "Pending", PREFIX + ", ".join(sorted(reasons)), {}, True)
    return admission(cast(Context, ctx), queue)


@pytest.mark.parametrize(
    ("word", "text"),
    [
        ("draining", "it is being drained"),
        ("removing", "it is being taken out of service"),
        ("unreachable", "it cannot be reached"),
        ("kubeconfig-invalid", "its kubeconfig is not accepted"),
        ("kubeconfig-missing", "its kubeconfig Secret is missing"),
        ("not-ready", "it is not ready yet"),
        ("tuesday", "tuesday"),
    ],
)
def test_the_wanted_cluster_takes_no_jobs(word: str, text: str) -> None:
    reason = DRAINED.replace("draining", word)
    expected = f"Cluster c1 takes no jobs: {text}. Waiting until it does"
    assert admitted(reason, cluster="c1")[0] == expected
    assert admitted(reason, LOST, ELSEWHERE, cluster="c1")[0] == expected


BOTH = "c1: it is being drained; c2.lab: it cannot be reached"
WAITS = f"Waiting for admission: {PREFIX}"


@pytest.mark.parametrize(
    ("reasons", "cluster", "message"),
    [
        ((DRAINED, LOST, SHORT_OF), "c3", WAITS + SHORT_OF),
        ((SHORT_OF, LOST), "c3", WAITS + SHORT_OF),
        ((DRAINED,), None, "Cluster c1 takes no jobs: it is being drained. Waiting until one does"),
        ((DRAINED, LOST), None, f"No cluster takes jobs: {BOTH}. Waiting until one does"),
        ((DRAINED, LOST, SHORT_OF), None, f"{WAITS}{SHORT_OF} ({BOTH})"),
        ((SPOT,), None, WAITS + SPOT),
        ((DRAINED, SPOT), None, f"{WAITS}{SPOT} (c1: it is being drained)"),
    ],
    ids=[
        "others' problems",
        "another's",
        "the one",
        "all",
        "some have no room",
        "a foreign taint",
        "and ours",
    ],
)
def test_what_the_message_says_of_clusters_that_take_no_jobs(
    reasons: tuple[str, ...], cluster: str | None, message: str
) -> None:
    assert admitted(*reasons, cluster=cluster)[0] == message


SLOTS = "insufficient unused quota for fournos/cluster-slot in flavor c1, 100 more needed"


@pytest.mark.parametrize(
    ("reasons", "cluster", "seen", "expected"),
    [
        ((DRAINED,), "c1", {}, {"cause": "Lock", "cluster": "c1"}),
        ((DRAINED,), None, {}, {"cause": "Lock"}),
        ((SHORT_OF,), "c3", {}, {"cause": "Quota"}),
        ((SLOTS,), "c1", {}, {"cause": "Quota", "cluster": "c1"}),
        ((SLOTS,), None, {}, {"cause": "Quota"}),
        ((SLOTS,), None, {"all_locked": True}, {"cause": "Lock"}),
        ((SLOTS,), "c1", {"exclusive_holders": ("a",)}, {"cause": "Lock", "cluster": "c1", "holder": "a"}),
        (
            (SLOTS,),
            "c1",
            {"exclusive_holders": ("a",), "may_name_holder": False},
            {"cause": "Lock", "cluster": "c1"},
        ),
        (('topology "rack" has no room',), None, {}, {"cause": "Scheduling"}),
    ],
)
def test_what_a_queued_job_waits_for_is_a_field(
    reasons: tuple[str, ...], cluster: str | None, seen: dict[str, Any], expected: dict[str, str]
) -> None:
    message, waiting = admitted(*reasons, cluster=cluster, **seen)
    assert waiting.model_dump(exclude_none=True) == expected
    assert ("job a," in message) == ("holder" in expected)


@pytest.mark.parametrize(
    ("phase", "waiting", "expected"),
    [
        ("Pending", {"cause": "Lock", "cluster": "c1", "holder": "first"}, ("job/first",)),
        ("Pending", {"cause": "Quota", "cluster": "c1"}, ("cluster/c1",)),
        ("Pending", {"cause": "Lock", "cluster": "c1"}, ()),
        ("Pending", {"cause": "Quota"}, ()),
        ("Pending", None, ()),
        ("Running", {"cause": "Lock", "cluster": "c1", "holder": "first"}, ()),
    ],
)
def test_a_job_is_woken_by_what_its_status_says_that_it_waits_for(
    phase: str, waiting: dict[str, str] | None, expected: tuple[str, ...]
) -> None:
    message = "Cluster c1 is exclusively locked by job forged, waiting for it to finish"
    assert waits_for({"status": {"phase": phase, "message": message, "waiting": waiting}}) == expected


def test_a_job_without_status_waits_for_nothing() -> None:
    assert waits_for({}) == ()
