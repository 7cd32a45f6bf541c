"""The dispatch decisions one by one: who may win, what is read live before a deletion, what comes back."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fournos.engine.api.values import format_time
from fournos.engine.kube.resource import Key, Obj, Resource, uid_of
from fournos.engine.queueing.kinds import WORKLOAD
from fournos.engine.runtime.decision import (
    Absent,
    Answer,
    Create,
    Decision,
    Delete,
    Facts,
    LiveGet,
    NeededFacts,
    Present,
    Unknown,
    attempt,
)
from fournos.systems.multikueue import names
from fournos.systems.multikueue.build import mirrored_status
from fournos.systems.multikueue.decide import decide
from fournos.systems.multikueue.observe import (
    Observed,
    Remote,
    of_workload,
    project_remote_job,
    project_remote_workload,
    workload_of,
)
from fournos.systems.multikueue.remote import Send
from tests.multikueue_configuration import settings
from tests.unit.systems.multikueue.workers import FOO
from tests.unit.systems.multikueue.workers import SETTINGS as FOO_SETTINGS

AT = "2030-01-01T00:00:00Z"
NOW = datetime(2030, 1, 1, 0, 1, tzinfo=UTC)
KEY = Key("ns", "w")
TOY = Resource("example.com", "v1", "Toy", "toys")
CHECK: Obj = {"metadata": {"name": "ours"}}
SETTINGS = settings("Toy.v1.example.com", origin="here")
JOB: Obj = {
    "metadata": {"name": "toy", "namespace": "ns", "uid": "j1", "generation": 3},
    "spec": {"managedBy": names.MULTIKUEUE},
}
OWNER = {"apiVersion": "example.com/v1", "kind": "Toy", "name": "toy", "uid": "j1", "controller": True}


def true(type_: str, since: str = AT) -> dict[str, Any]:
    return {"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": since}


def workload(*conditions: dict[str, Any], uid: str = "w1", **status: Any) -> Obj:
    """The manager's, with quota unless other conditions are given."""
    checks = [{"name": "ours", "state": "Pending", "lastTransitionTime": AT, "message": ""}]
    meta = {"name": "w", "namespace": "ns", "uid": uid, "resourceVersion": "5", "ownerReferences": [OWNER]}
    shown = {"conditions": list(conditions) or [true("QuotaReserved")], "admissionChecks": checks}
    return {"metadata": meta, "spec": {"podSets": [], "queueName": "lq"}, "status": {**shown, **status}}


def twin(worker: str, *conditions: dict[str, Any]) -> Obj:
    """What a worker has of this attempt."""
    notes = {names.ATTEMPT: f"{AT}/0", names.WORKLOAD_UID: "w1", names.WORKER: worker}
    meta = {"name": "w", "namespace": "ns", "uid": f"{worker}-w", "resourceVersion": "1"}
    shown = {"conditions": list(conditions)}
    return {"metadata": {**meta, "annotations": notes}, "spec": {}, "status": shown}


def remote(name: str, *conditions: dict[str, Any], there: bool = True) -> Remote:
    return Remote(name, listed=True, usable=True, workload=twin(name, *conditions) if there else None)


def observed(own: Obj | None, *remotes: Remote) -> Observed:
    return Observed(KEY, own, CHECK, TOY, JOB, remotes)


def decided(around: Observed, answers: dict[LiveGet, Answer] | None = None) -> Decision:
    found = decide(around, Facts(dict(answers or {})), NOW, settings=SETTINGS)
    assert isinstance(found, Decision)
    return found


def orders(decision: Decision) -> list[tuple[str, type]]:
    return [(step.worker, type(step.step)) for step in decision.steps if isinstance(step, Send)]


# --- who wins --------------------------------------------------------------------------------------


def test_a_worker_wins_only_when_its_nomination_is_on_record() -> None:
    """Kueue refuses a clusterName that was not nominated before; and two winners are possible without it."""
    admitted = remote("a", true("Admitted"))
    first = decided(observed(workload(), admitted))
    assert first.status is not None
    assert "clusterName" not in first.status and first.status["nominatedClusterNames"] == ["a"]
    second = decided(observed(workload(nominatedClusterNames=["a"]), admitted))
    assert second.status is not None
    assert second.status["clusterName"] == "a" and "nominatedClusterNames" not in second.status


def test_the_earliest_admission_wins() -> None:
    late, early = "2030-01-01T00:00:30Z", "2030-01-01T00:00:10Z"
    both = workload(nominatedClusterNames=["a", "b"])
    for times, winner in (((late, early), "b"), ((early, late), "a")):
        remotes = (remote("a", true("Admitted", times[0])), remote("b", true("Admitted", times[1])))
        status = decided(observed(both, *remotes)).status
        assert status is not None and status["clusterName"] == winner


@pytest.mark.parametrize("ends", [true("Evicted"), None], ids=["evicted", "inactive"])
def test_an_admission_that_is_being_taken_back_wins_nothing(ends: dict[str, Any] | None) -> None:
    there = remote("a", true("Admitted"), *([ends] if ends else []))
    assert there.workload is not None
    if ends is None:
        there = replace(there, workload={**there.workload, "spec": {"active": False}})
    status = decided(observed(workload(nominatedClusterNames=["a"]), there)).status
    assert status is not None and "clusterName" not in status


# --- other checks ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("state", "requested"), [("Pending", False), ("Retry", False), ("Ready", True)])
def test_workers_are_asked_only_after_the_other_checks(state: str, requested: bool) -> None:
    own = workload()
    own["status"]["admissionChecks"].append({"name": "provisioning", "state": state})
    decision = decided(observed(own, remote("a", there=False)))
    assert orders(decision) == ([("a", Create)] if requested else [])


# --- before a deletion -----------------------------------------------------------------------------

LIVE = LiveGet(WORKLOAD, KEY)
GONE = workload(true("Evicted"))


def test_what_workers_have_goes_only_after_a_live_read() -> None:
    need = attempt(decide, observed(GONE, remote("a")), Facts({}), NOW, settings=SETTINGS)
    assert need == NeededFacts((LIVE,))


@pytest.mark.parametrize(
    ("cached", "answer", "goes"),
    [
        (GONE, Present(GONE), True),
        (None, Absent(), True),
        (GONE, Absent(), False),  # the cache is about to show it
        (None, Absent(no_kind=True), False),  # Kueue's CRD is not served for the moment
        (GONE, Unknown("timeout"), False),
        (None, Unknown("timeout"), False),
        (GONE, Present(workload(uid="w2")), False),  # another one has its name by now
        (GONE, Present(workload(true("Evicted"), uid="w2")), False),
        (None, Present(workload(uid="w2")), False),
        (GONE, Present(workload()), False),  # it has quota again
    ],
)
def test_a_cache_alone_deletes_nothing(cached: Obj | None, answer: Answer, goes: bool) -> None:
    decision = decided(observed(cached, remote("a")), {LIVE: answer})
    assert orders(decision) == ([("a", Delete)] if goes else [])
    assert decision.retry is not goes


# --- the status that comes back --------------------------------------------------------------------


def test_the_status_of_a_worker_comes_back_with_this_clusters_generation() -> None:
    foreign: Obj = {
        "metadata": {"generation": 9},
        "status": {
            "observedGeneration": 9,
            "phase": "Running",
            "conditions": [
                {"type": "Ready", "status": "True", "observedGeneration": 9},
                {"type": "Old", "status": "True", "observedGeneration": 8},
                {"type": "Plain", "status": "True"},
            ],
        },
    }
    status = mirrored_status(JOB, foreign)
    assert (status["phase"], status["observedGeneration"]) == ("Running", 3)
    by_type = {one["type"]: one for one in status["conditions"]}
    assert by_type["Ready"]["observedGeneration"] == 3
    assert "observedGeneration" not in by_type["Old"], "it is not up to date there, so not here either"
    assert by_type["Plain"] == {"type": "Plain", "status": "True"}


def test_an_outdated_status_is_not_declared_current() -> None:
    foreign: Obj = {"metadata": {"generation": 9}, "status": {"observedGeneration": 8, "phase": "Running"}}
    assert mirrored_status(JOB, foreign) == {"phase": "Running"}


def test_each_cluster_has_a_history_of_its_own() -> None:
    own = {"phase": "Running", "archivedAt": AT}
    there = {"phase": "Succeeded", "archivedAt": "2030-01-02T00:00:00Z", "suspectedAt": AT}
    foreign: Obj = {"metadata": {"generation": 1}, "status": there}
    assert mirrored_status({**JOB, "status": own}, foreign) == {"phase": "Succeeded", "archivedAt": AT}
    assert mirrored_status(JOB, foreign) == {"phase": "Succeeded"}, "not recorded here"


def test_qualified_conditions_of_the_manager_stay_unless_the_worker_has_them() -> None:
    own = {
        "conditions": [
            {"type": "example.com/Audited", "status": "True"},
            {"type": "example.com/Both", "status": "True"},
            {"type": "Ready", "status": "True"},
        ],
        "phase": "Old",
    }
    foreign: Obj = {
        "metadata": {"generation": 1},
        "status": {"conditions": [{"type": "example.com/Both", "status": "False"}]},
    }
    assert mirrored_status({**JOB, "status": own}, foreign) == {
        "conditions": [
            {"type": "example.com/Both", "status": "False"},
            {"type": "example.com/Audited", "status": "True"},
        ]
    }
    assert mirrored_status({**JOB, "status": own}, {"metadata": {}}) == {
        "conditions": own["conditions"][:2]  # type: ignore[index]
    }


# --- hostile -------------------------------------------------------------------------------------------
# A worker may hand us anything: what is kept of it never makes a decision raise.

BEGUN = datetime(2030, 1, 1, tzinfo=UTC)
BEGUN_AT = format_time(BEGUN)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
CONDITIONS = st.lists(
    ANYTHING
    | st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["Admitted", "Evicted", "Finished", "QuotaReserved"]) | ANYTHING,
            "status": st.sampled_from(["True", "False"]) | ANYTHING,
            "reason": ANYTHING,
            "message": ANYTHING,
            "lastTransitionTime": st.just(BEGUN_AT) | ANYTHING,
        },
    ),
    max_size=5,
)
STATUS = st.dictionaries(st.text(), ANYTHING, max_size=3) | st.fixed_dictionaries(
    {"conditions": CONDITIONS | ANYTHING}, optional={"observedGeneration": ANYTHING, "phase": ANYTHING}
)


def meta(name: str, **more: Any) -> dict[str, Any]:
    own = {names.ATTEMPT: f"{BEGUN_AT}/0", names.WORKER: "w1", **more.pop("annotations", {})}
    return {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "7", "annotations": own, **more}


@pytest.mark.parametrize("name", ["labels", "annotations", "finalizers", "uid", "ownerReferences"])
@given(value=ANYTHING, spec=ANYTHING, status=ANYTHING)
def test_one_object_of_another_form_stops_no_other(name: str, value: Any, spec: Any, status: Any) -> None:
    """It is looked at with all others: for what belongs to no Workload, and for each Workload."""
    odd = {"metadata": {**meta("foo-a"), name: value}, "spec": spec, "status": status}
    for project in (project_remote_workload, project_remote_job):
        kept = project(odd)
        assert workload_of(kept).namespace == "ns"
        assert list(of_workload(kept)) and isinstance(uid_of(kept), str)
        there = Remote("w1", listed=True, usable=True, workload=kept, jobs=((FOO, kept),), last_read="7")
        decide(observed(workload(clusterName="w1"), there), Facts(), NOW, settings=SETTINGS)


@pytest.mark.parametrize("claim", ["", "w1"])
@given(twin=STATUS, copy=STATUS, spec=st.dictionaries(st.text(), ANYTHING, max_size=2))
def test_no_decision_raises(claim: str, twin: Any, copy: Any, spec: Any) -> None:
    reserved = {"type": "QuotaReserved", "status": "True", "lastTransitionTime": BEGUN_AT}
    owner = {"apiVersion": "example.com/v1", "kind": "Foo", "name": "a", "uid": "a", "controller": True}
    check = {"metadata": {"name": "check", "uid": "c", "resourceVersion": "1"}, "spec": {}}
    checks = [{"name": "check", "state": "Pending", "message": ""}]
    where = {"clusterName": claim} if claim else {"nominatedClusterNames": ["w1"]}
    status: dict[str, Any] = {"conditions": [reserved], "admissionChecks": checks, **where}
    own = {**meta("foo-a"), "ownerReferences": [owner]}
    workload = {"metadata": own, "spec": {"podSets": []}, "status": status}
    job = {"metadata": meta("a"), "spec": {"managedBy": names.MULTIKUEUE}}
    foreign = {
        "metadata": meta("foo-a", annotations={names.WORKLOAD_UID: "foo-a"}),
        "spec": spec,
        "status": twin,
    }
    mirror = {"metadata": meta("a", annotations={names.JOB_UID: "a"}), "spec": spec, "status": copy}
    remote = Remote(
        "w1",
        listed=True,
        usable=True,
        workload=project_remote_workload(foreign),
        jobs=((FOO, project_remote_job(mirror)),),
        last_read="7",
    )
    seen = Observed(Key("ns", "foo-a"), workload, check, FOO, job, (remote,))
    decide(seen, Facts(), BEGUN, settings=FOO_SETTINGS)
