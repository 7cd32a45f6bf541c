"""What is made on a worker, what an existing object of its name is, and what is written here, as tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from fournos.engine.kube.resource import Obj, Resource
from fournos.engine.runtime.decision import EventRecord, Facts, NameTaken
from fournos.systems.multikueue import names
from fournos.systems.multikueue.build import mirror, remote_workload
from fournos.systems.multikueue.observe import Remote
from fournos.systems.multikueue.remote import RemoteFailure, create
from fournos.systems.multikueue.status import MESSAGE_MAX, Context, WorkloadDraft, holds_quota, since
from tests.unit.systems.multikueue.test_decide import (
    AT,
    JOB,
    NOW,
    SETTINGS,
    TOY,
    observed,
    remote,
    true,
    twin,
    workload,
)

# --- the copies ----------------------------------------------------------------------------------------

META = {
    "name": "toy",
    "namespace": "ns",
    "uid": "u1",
    "resourceVersion": "9",
    "generation": 4,
    "finalizers": ["x"],
    "ownerReferences": [{"name": "o"}],
    "labels": {"team": "a", "kueue.x-k8s.io/job-uid": "j1"},
    "annotations": {
        "note": "b",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    },
}
BOUND = {names.WORKER: "a", names.ATTEMPT: "1"}


def test_a_copy_of_a_workload_has_no_owner_no_finalizer_and_no_status() -> None:
    own = {"metadata": META, "spec": {"queueName": "lq", "active": False}, "status": {"x": 1}}
    assert remote_workload(own, worker="a", origin="here", attempt="1") == {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": "toy",
            "namespace": "ns",
            "labels": {"team": "a", names.ORIGIN_LABEL: "here"},
            "annotations": {"note": "b", **BOUND, names.WORKLOAD_UID: "u1"},
        },
        "spec": {"priority": 0, "queueName": "lq"},
    }


def test_a_workload_without_labels_and_annotations_is_copied() -> None:
    bare = {"metadata": {"name": "w", "namespace": "ns", "uid": "u1"}, "spec": {}}
    meta = remote_workload(bare, worker="a", origin="here", attempt="1")["metadata"]
    assert meta["labels"] == {names.ORIGIN_LABEL: "here"}
    assert meta["annotations"] == {**BOUND, names.WORKLOAD_UID: "u1"}


TEKTON = Resource("tekton.dev", "v1", "PipelineRun", "pipelineruns")
FLUX = Resource("flux-framework.org", "v1alpha2", "MiniCluster", "miniclusters")
FOURNOS = Resource("fournos.dev", "v1", "FournosJob", "fournosjobs")


@pytest.mark.parametrize(
    ("kind", "spec", "copied", "held"),
    [
        (TOY, {"managedBy": "x", "image": "i"}, {"image": "i"}, False),
        (TOY, {"suspend": False}, {"suspend": True}, True),
        (TOY, {"suspend": True}, {"suspend": True}, False),
        (TEKTON, {}, {"status": "PipelineRunPending"}, True),
        (TEKTON, {"status": "PipelineRunPending"}, {"status": "PipelineRunPending"}, False),
        (FOURNOS, {"suspend": False}, {"suspend": False}, False),
        (TOY, None, {}, False),
    ],
    ids=["plain", "is suspended", "suspended by its user", "pending", "by its user", "FournosJob", "no spec"],
)
def test_a_copy_of_a_job_waits_there_for_its_workload(
    kind: Resource, spec: Any, copied: Any, held: bool
) -> None:
    """A hold that is not the user's is marked: the queue may release it."""
    job: Obj = {"metadata": META, "spec": spec, "status": {"phase": "Running"}}
    assert mirror(job, kind, workload="w", worker="a", origin="here", attempt="1") == {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "name": "toy",
            "namespace": "ns",
            "labels": {**META["labels"], names.PREBUILT: "w", names.ORIGIN_LABEL: "here"},  # type: ignore[dict-item]
            "annotations": {
                "note": "b",
                **({"fournos.dev/held": "queue"} if held else {}),
                **BOUND,
                names.PREBUILT: "w",
                names.JOB_UID: "u1",
            },
        },
        "spec": copied,
    }


@pytest.mark.parametrize(
    ("kind", "spec", "copied"),
    [
        (FOURNOS, {"ttl": "1m", "pipeline": "p"}, {"pipeline": "p"}),
        (TOY, {"ttlSecondsAfterFinished": 1}, {}),
        (FLUX, {"cleanup": True, "size": 2}, {"size": 2}),
        (TOY, {"cleanup": True, "ttl": 30}, {"cleanup": True, "ttl": 30}),
        (TOY, {"runPolicy": {"ttlSecondsAfterFinished": 1, "cleanPodPolicy": "All"}}, None),
        (TOY, {"ttlStrategy": {"secondsAfterCompletion": 1}}, {}),
        (TOY, {"runPolicy": "odd"}, {"runPolicy": "odd"}),
    ],
)
def test_a_copy_does_not_delete_itself(kind: Resource, spec: Any, copied: Any) -> None:
    """The adapter may be away longer: what is gone from a worker looks lost, and would run again."""
    found = mirror(
        {"metadata": META, "spec": spec}, kind, workload="w", worker="a", origin="here", attempt="1"
    )
    assert found["spec"] == ({"runPolicy": {"cleanPodPolicy": "All"}} if copied is None else copied)


def test_the_time_of_a_job_is_limited_by_its_manager_alone() -> None:
    label = "kueue.x-k8s.io/max-exec-time-seconds"
    meta = {**META, "labels": {label: "60"}}
    own = {"metadata": META, "spec": {"queueName": "lq", "maximumExecutionTimeSeconds": 60}}
    assert remote_workload(own, worker="a", origin="here", attempt="1")["spec"] == {
        "priority": 0,
        "queueName": "lq",
    }
    copy = mirror({"metadata": meta, "spec": {}}, TOY, workload="w", worker="a", origin="o", attempt="1")
    assert label not in copy["metadata"]["labels"]


# --- an object of the name that is there already -------------------------------------------------------

OURS: Obj = {
    "metadata": {
        "name": "toy",
        "namespace": "ns",
        "labels": {names.ORIGIN_LABEL: "here"},
        "annotations": {names.ATTEMPT: "1", names.WORKER: "a"},
    }
}


def there(**changes: Any) -> Obj:
    return {"metadata": {**OURS["metadata"], **changes}}


WAITS = NameTaken(f"{TOY} ns/toy is of an earlier attempt, or of another worker's name", waits=True)
FOREIGN = NameTaken(f"{TOY} ns/toy exists already and was not made by this manager")


@pytest.mark.parametrize(
    ("live", "expected"),
    [
        (OURS, None),
        (there(annotations={names.ATTEMPT: "0", names.WORKER: "a"}), WAITS),
        (there(annotations={names.ATTEMPT: "1", names.WORKER: "b"}), WAITS),
        (there(annotations=None), WAITS),
        (there(deletionTimestamp=AT), WAITS),
        (there(labels={names.ORIGIN_LABEL: "there"}), FOREIGN),
        (there(labels=None), FOREIGN),
        (there(labels=None, deletionTimestamp=AT), FOREIGN),
    ],
    ids=[
        "ours",
        "earlier",
        "another name",
        "no notes",
        "goes",
        "another manager",
        "a user's",
        "a user's that goes",
    ],
)
def test_an_object_of_the_name_is_ours_if_its_notes_are(live: Obj, expected: NameTaken | None) -> None:
    step = create(TOY, OURS)
    assert step.name_taken is not None
    assert step.name_taken(step, live) == expected


@pytest.mark.parametrize(
    ("error", "attempt", "refused"),
    [
        ("ForeignObject", f"{AT}/0", True),
        ("InvalidError", f"{AT}/0", True),
        ("InvalidError", f"{AT}/1", False),
        ("InvalidError", "", False),
        ("ForbiddenError", f"{AT}/0", False),
    ],
)
def test_a_worker_refuses_one_attempt_for_good(error: str, attempt: str, refused: bool) -> None:
    failing = replace(remote("a"), failure=RemoteFailure(error, "no", attempt))
    assert context(failing).refused(failing) is refused
    assert not context(remote("a")).refused(remote("a"))


# --- what belongs to an attempt ------------------------------------------------------------------------


def context(*remotes: Remote, own: Obj | None = None, **changes: Any) -> Context:
    around = replace(observed(workload() if own is None else own, *remotes), **changes)
    return Context(around, Facts({}), NOW, SETTINGS)


def noted(**notes: str) -> Obj:
    known = {"attempt": names.ATTEMPT, "workload": names.WORKLOAD_UID, "job": names.JOB_UID}
    return {"metadata": {"annotations": {known[name]: value for name, value in notes.items()}}}


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        (noted(attempt=f"{AT}/0", workload="w1"), True),
        (noted(attempt=f"{AT}/0", workload="w2"), False),
        (noted(attempt=f"{AT}/1", workload="w1"), False),
        (noted(attempt=f"{AT}/0", job="j1"), True),
        (noted(attempt=f"{AT}/0", job="j2"), False),
        (noted(attempt=f"{AT}/0", workload="w2", job="j1"), False),
        (noted(attempt=f"{AT}/0"), False),
        ({"metadata": {}}, False),
    ],
)
def test_an_object_is_of_this_attempt_by_its_notes(obj: Obj, expected: bool) -> None:
    assert context().is_current(obj) is expected


def test_a_copy_of_a_job_that_is_not_seen_is_of_no_attempt() -> None:
    assert not context(job=None).is_current(noted(attempt=f"{AT}/0", job="j1"))


def test_each_reservation_and_each_eviction_begins_an_attempt() -> None:
    later = "2030-01-01T00:00:09Z"
    assert context().attempt == f"{AT}/0"
    assert context(own=workload(true("QuotaReserved", later))).attempt == f"{later}/0"
    evictions = [{"reason": "Preempted", "count": 2}, {"reason": "PodsReadyTimeout", "count": 1}, {}]
    assert context(own=workload(schedulingStats={"evictions": evictions})).attempt == f"{AT}/3"


def test_the_copies_of_a_worker_are_those_of_this_attempt() -> None:
    job = {**noted(attempt=f"{AT}/0", job="j1"), "kind": "Toy"}
    other = noted(attempt=f"{AT}/9", job="j1")
    here = replace(remote("a"), jobs=((TEKTON, job), (TOY, other), (TOY, job)))
    assert context(here).mirror(here) == job and context(here).current(here) == here.workload
    assert context(here).mirror(replace(here, jobs=((TEKTON, job), (TOY, other)))) is None
    earlier = replace(remote("a"), workload=noted(attempt="earlier", workload="w1"))
    assert context(here).current(remote("b", there=False)) is context(here).current(earlier) is None


def test_conditions_of_a_workload() -> None:
    assert since(twin("a", true("B", "later"), true("A", "now")), "A", "B") == "now"
    assert since(twin("a", true("B", "later")), "A", "B") == "later" and since(twin("a"), "A") == ""
    quota = true("QuotaReserved")
    assert holds_quota(twin("a", quota)) and not holds_quota(twin("a"))
    assert not holds_quota(twin("a", quota, true("Finished")))


# --- the status here -----------------------------------------------------------------------------------

LATER = datetime(2030, 1, 1, 0, 5, tzinfo=UTC)


def draft(*checks: Any, name: str = "ours", **status: Any) -> WorkloadDraft:
    own: Obj = {"metadata": {}, "status": {"admissionChecks": list(checks), **status}}
    return WorkloadDraft(own, LATER, check=name)


def entry(state: str, message: str = "m", name: str = "ours", **more: Any) -> dict[str, Any]:
    return {"name": name, "state": state, "message": message, "lastTransitionTime": AT, **more}


def test_only_our_check_is_written_and_its_other_fields_stay() -> None:
    other = entry("Pending", name="other")
    found = draft(other, entry("Pending", podSetUpdates=[1]))
    found.check("Ready", "reserved")
    ready = entry("Ready", "reserved", podSetUpdates=[1]) | {"lastTransitionTime": "2030-01-01T00:05:00Z"}
    assert found.render()["admissionChecks"] == [other, ready]
    assert found.events == [EventRecord("Normal", "MultiKueue", "reserved")]


@pytest.mark.parametrize(
    ("state", "message", "time", "event"),
    [
        ("Pending", "m", AT, None),
        ("Pending", "other", AT, None),
        ("Ready", "m", "2030-01-01T00:05:00Z", "Normal"),
        ("Retry", "m", "2030-01-01T00:05:00Z", "Warning"),
        ("Rejected", "m", "2030-01-01T00:05:00Z", "Warning"),
    ],
)
def test_the_time_of_a_check_is_that_of_its_state(
    state: str, message: str, time: str, event: str | None
) -> None:
    found = draft(entry("Pending"))
    found.check(state, message)
    (written,) = found.render()["admissionChecks"]
    assert written == entry(state, message) | {"lastTransitionTime": time}
    assert [one.type for one in found.events] == ([event] if event else [])


def test_a_check_without_a_time_gets_one_and_a_long_message_is_cut() -> None:
    found = draft(entry("Pending", lastTransitionTime=""))
    found.check("Pending", "x" * (MESSAGE_MAX + 1))
    (written,) = found.render()["admissionChecks"]
    assert written["lastTransitionTime"] == "2030-01-01T00:05:00Z" and len(written["message"]) == MESSAGE_MAX


def test_what_is_read_of_a_status() -> None:
    found = draft(entry("Ready"), entry("Retry", name="other"), clusterName="a", nominatedClusterNames=["b"])
    assert (found.cluster_name, found.nominated, found.check_state) == ("a", ("b",), "Ready")
    assert not found.other_checks_ready
    assert draft(entry("Pending"), entry("Ready", name="other")).other_checks_ready
    empty = WorkloadDraft({"metadata": {}}, LATER, check="ours")
    assert (empty.cluster_name, empty.nominated, empty.check_state) == ("", (), "Pending")
    assert empty.other_checks_ready
    unnamed = draft(entry("Ready", name=""), name="")
    assert unnamed.check_state == "Pending", "without a check of ours, no entry is ours"


def test_a_winner_and_nominated_workers_exclude_each_other() -> None:
    found = draft(nominatedClusterNames=["a", "b"])
    found.claim("a")
    assert found.render() == {"admissionChecks": [], "clusterName": "a"}
    found.claim(None, ("b",))
    assert found.render() == {"admissionChecks": [], "nominatedClusterNames": ["b"]}
    found.claim(None)
    assert found.render() == {"admissionChecks": []}


def test_a_status_is_copied_to_the_job_of_this_uid_only_if_it_differs() -> None:
    def copied(status: Any, own: Any = None, **changes: Any) -> list[Any]:
        ctx = context(**{"job": {**JOB, "status": own}, **changes})
        ctx.copy_status(None if status is None else {"metadata": {}, "status": status})
        return [step.body for step in ctx.steps]  # type: ignore[union-attr]

    body = {"metadata": {"uid": "j1"}, "status": {"phase": "Running"}}
    assert copied({"phase": "Running"}) == [body]
    assert copied({"phase": "Running"}, {"phase": "Running"}) == []
    assert copied({}, {"phase": "Running"}) == [], "an empty status replaces nothing"
    assert (
        copied(None)
        == copied({"phase": "Running"}, kind=None)
        == copied({"phase": "Running"}, job=None)
        == []
    )
    gone = copied({"phase": "Running"}, {"phase": "Running", "old": 1})
    assert gone == [{"metadata": {"uid": "j1"}, "status": {"old": None}}]
