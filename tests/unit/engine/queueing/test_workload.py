"""What a Workload is to its job, its priority, and its name, as tables."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.api.kinds import FOURNOS_JOB
from fournos.engine.kube.resource import Key, Obj, Resource, usual_plural
from fournos.engine.queueing.job import UnusableClass, priority_of
from fournos.engine.queueing.kinds import ADMISSION_CHECK, CLUSTER_QUEUE, LOCAL_QUEUE
from fournos.engine.queueing.managed_by import cluster_queue_of, dispatches, leads_elsewhere
from fournos.engine.queueing.workload import (
    BadNameError,
    PodSet,
    Priority,
    QueueState,
    WorkloadRequest,
    WorkloadView,
    build,
    cure_of,
    generic_name,
    name_of,
    parse_name,
    view,
)
from fournos.engine.runtime.decision import (
    Absent,
    Answer,
    Facts,
    LiveGet,
    NeededFacts,
    Present,
    Unknown,
    attempt,
)
from tests.unit.engine.queueing.toys import Toy

# --- state ------------------------------------------------------------------------------------------


def on(type_: str, reason: str = "", message: str = "", status: str = "True") -> dict[str, str]:
    return {"type": type_, "status": status, "reason": reason, "message": message}


QUOTA = on("QuotaReserved", "QuotaReserved", "in cq")
FLAVORS = {"main": {"cpu": "f"}, "bare": {}}
ADMISSION = {"podSetAssignments": [{"name": "main", "flavors": {"cpu": "f"}}, {"name": "bare"}]}


def seen(*conditions: Any, meta: Any = None, active: Any = None, checks: Any = ()) -> WorkloadView:
    spec = {} if active is None else {"active": active}
    status = {"conditions": list(conditions), "admission": ADMISSION, "admissionChecks": list(checks)}
    return view({"metadata": meta or {}, "spec": spec, "status": status})


# --- the state -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conditions", "meta", "state", "reason", "message"),
    [
        ((), {}, QueueState.WAITING, "Pending", ""),
        (
            (on("QuotaReserved", "Inadmissible", "no room", "False"),),
            {},
            QueueState.WAITING,
            "Inadmissible",
            "no room",
        ),
        ((QUOTA,), {}, QueueState.WAITING, "QuotaReserved", "in cq"),
        ((QUOTA, on("Admitted", "x", "y")), {}, QueueState.ADMITTED, "Admitted", "in cq"),
        ((QUOTA, on("Admitted", "x", "y", "False")), {}, QueueState.WAITING, "QuotaReserved", "in cq"),
        (
            (QUOTA, on("Admitted"), on("Evicted", "Preempted", "make room")),
            {},
            QueueState.EVICTED,
            "Preempted",
            "make room",
        ),
        ((on("Evicted", "Preempted", "make room"),), {}, QueueState.RELEASED, "Preempted", "make room"),
        ((on("Evicted"),), {}, QueueState.RELEASED, "Evicted", ""),
        ((QUOTA, on("Evicted", "x", "y", "False")), {}, QueueState.WAITING, "QuotaReserved", "in cq"),
        ((QUOTA, on("Evicted"), on("Finished")), {}, QueueState.FINISHED, "Finished", "in cq"),
        (
            (QUOTA, on("Finished")),
            {"deletionTimestamp": "2030-01-01T00:00:00Z"},
            QueueState.GONE,
            "WorkloadDeleted",
            "Workload is deleted",
        ),
    ],
    ids=[
        "new",
        "no room",
        "checks",
        "admitted",
        "not yet",
        "evicted",
        "released",
        "no reason",
        "back",
        "over",
        "goes",
    ],
)
def test_the_state_is_that_of_the_condition_that_counts_most(
    conditions: Any, meta: Any, state: QueueState, reason: str, message: str
) -> None:
    assert seen(*conditions, meta=meta) == WorkloadView(state, reason, message, FLAVORS)


@pytest.mark.parametrize(("active", "expected"), [(None, True), (True, True), (False, False)])
def test_a_workload_is_active_unless_it_is_switched_off(active: bool | None, expected: bool) -> None:
    for conditions in ((), (QUOTA, on("Admitted")), (on("Evicted"),), (on("Finished"),)):
        assert seen(*conditions, active=active).active is expected
    going = {"deletionTimestamp": "2030-01-01T00:00:00Z"}
    assert seen(meta=going, active=active).active is expected


def test_pending_checks_are_what_an_admission_waits_for() -> None:
    checks = [
        {"name": "a", "state": "Pending", "message": "asks"},
        {"name": "b", "state": "Ready", "message": "yes"},
        {"name": "c", "state": "Pending", "message": ""},
        {"name": "d", "state": "Pending", "message": "waits"},
    ]
    assert seen(QUOTA, checks=checks).message == "a: asks, d: waits"
    assert seen(QUOTA, on("Admitted"), checks=checks).message == "in cq"


def test_a_flavor_is_that_of_its_pod_set() -> None:
    found = seen(QUOTA)
    assert found.flavor("main", "cpu") == "f"
    assert found.flavor("main", "memory") is found.flavor("other", "cpu") is None
    assert view({"metadata": {}, "spec": {}}).flavors == {}


# --- the priority --------------------------------------------------------------------------------------

WORKLOAD_CLASSES: dict[str, Obj] = {"high": {"value": 1000}, "fournos-lock-held": {"value": 1_000_000_000}}
POD_CLASSES: dict[str, Obj] = {
    "pods": {"metadata": {"name": "pods"}, "value": 7},
    "d1": {"metadata": {"name": "d1"}, "value": 5, "globalDefault": True},
    "d2": {"metadata": {"name": "d2"}, "value": 3, "globalDefault": True},
}


CRITICAL: dict[str, Obj] = {
    "critical": {"metadata": {"name": "critical"}, "value": 2_000_000_000, "globalDefault": True}
}


def reserved(kind: str, name: str) -> UnusableClass:
    return UnusableClass(kind, name, "PriorityReserved")


def of_pods(name: str, value: int) -> Priority:
    return Priority(name, value, group="scheduling.k8s.io", kind="PriorityClass")


@pytest.mark.parametrize(
    ("label", "pods", "classes", "expected"),
    [
        ("high", "pods", POD_CLASSES, Priority("high", 1000)),
        ("none", "pods", POD_CLASSES, UnusableClass("WorkloadPriorityClass", "none")),
        ("", "pods", POD_CLASSES, of_pods("pods", 7)),
        ("", "none", POD_CLASSES, UnusableClass("PriorityClass", "none")),
        ("", "", POD_CLASSES, of_pods("d2", 3)),
        ("fournos-lock-held", "", POD_CLASSES, reserved("WorkloadPriorityClass", "fournos-lock-held")),
        ("", "critical", CRITICAL, reserved("PriorityClass", "critical")),
        ("", "", CRITICAL, reserved("PriorityClass", "critical")),
        ("", "", {"pods": POD_CLASSES["pods"]}, None),
    ],
    ids=["label", "no such", "pods", "no such", "lowest default"]
    + [f"reserved by {how}" for how in ("label", "pods", "default")]
    + ["none"],
)
def test_the_priority_in_the_order_of_kueue(
    label: str, pods: str, classes: dict[str, Obj], expected: Any
) -> None:
    class Classed(Toy):
        def pod_sets(self) -> list[PodSet]:
            spec = {"priorityClassName": pods} if pods else {}
            return [PodSet("bare", 1, {}), PodSet("main", 1, {"spec": spec})]

    labels = {"kueue.x-k8s.io/priority-class": label} if label else {}
    assert priority_of(Classed(labels=labels), WORKLOAD_CLASSES, classes) == expected


# --- the Workload --------------------------------------------------------------------------------------

OWNER: Obj = {"kind": "Toy", "name": "toy", "uid": "u1"}


def request(**changes: Any) -> WorkloadRequest:
    return WorkloadRequest(
        **{"key": Key("ns", "w"), "queue": "lq", "pod_sets": (), "owner": OWNER, **changes}
    )


def test_a_workload_has_what_is_requested_and_nothing_empty() -> None:
    assert build(request(labels={"a": "b"})) == {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": "w",
            "namespace": "ns",
            "labels": {"a": "b", "kueue.x-k8s.io/queue-name": "lq"},
            "ownerReferences": [OWNER],
        },
        "spec": {"queueName": "lq", "podSets": [], "priority": 0},
    }
    full = build(
        request(
            priority=Priority("high", 5),
            annotations={"n": "1"},
            finalizers=("f",),
            max_execution_seconds=60,
            pod_sets=(PodSet("main", 2, {"metadata": {"x": "y"}}, min_count=0),),
        )
    )
    assert full["metadata"]["annotations"] == {"n": "1"} and full["metadata"]["finalizers"] == ["f"]
    reference = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}
    assert full["spec"] == {
        "queueName": "lq",
        "podSets": [
            {
                "name": "main",
                "count": 2,
                "template": {"metadata": {"x": "y"}, "spec": {}},
                "minCount": 0,
            }
        ],
        "priorityClassRef": reference,
        "priority": 5,
        "maximumExecutionTimeSeconds": 60,
    }


def test_a_priority_without_a_class_is_a_number() -> None:
    spec = build(request(priority=Priority("", 5)))["spec"]
    assert spec == {"queueName": "lq", "podSets": [], "priority": 5}


def test_names_have_the_form_and_the_length_of_kueue() -> None:
    name = generic_name(kind="Job", group="batch", name="a", uid="u")
    assert name.startswith("job-a-") and len(name) == len("job-a-") + 5
    others = [
        generic_name(kind="Job", group="batch", name="a", uid="v"),
        generic_name(kind="Job", group="other", name="a", uid="u"),
    ]
    assert len({name, *others}) == 3
    assert len(generic_name(kind="Job", group="batch", name="a" * 300, uid="u")) == 253


@pytest.mark.parametrize("section", ["initContainers", "containers"])
def test_a_variable_is_sent_once_with_its_last_value(section: str) -> None:
    env = [{"name": "A", "value": "1"}, {"name": "B"}, {"name": "A", "value": "2"}]
    spec = {section: [{"name": "c", "env": env, "image": "i"}, {"name": "d"}], "other": 1}
    (found,) = build(request(pod_sets=(PodSet("main", 1, {"spec": spec}),)))["spec"]["podSets"]
    assert found["template"]["spec"] == {
        section: [
            {"name": "c", "env": [{"name": "A", "value": "2"}, {"name": "B"}], "image": "i"},
            {"name": "d"},
        ],
        "other": 1,
    }


# --- the queue -----------------------------------------------------------------------------------------

LQ, CQ = LiveGet(LOCAL_QUEUE, Key("ns", "lq")), LiveGet(CLUSTER_QUEUE, Key("", "cq"))
A, B = (LiveGet(ADMISSION_CHECK, Key("", name)) for name in "ab")
LOCAL = Present({"spec": {"clusterQueue": "cq"}})
CLUSTER = Present({"spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "a"}, {"name": "b"}]}}})
OURS, KUEUES, OTHER = (
    Present({"spec": {"controllerName": name}})
    for name in ("fournos.dev/multikueue", "kueue.x-k8s.io/multikueue", "example.com/provisioning")
)


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ({LQ: Absent()}, False),
        ({LQ: Unknown("timeout")}, Unknown("timeout")),
        ({LQ: LOCAL, CQ: Absent()}, False),
        ({LQ: LOCAL, CQ: Unknown("timeout")}, Unknown("timeout")),
        ({LQ: LOCAL, CQ: Present({"spec": {}})}, False),
        ({LQ: LOCAL, CQ: CLUSTER, A: OTHER, B: OURS}, True),
        ({LQ: LOCAL, CQ: CLUSTER, A: KUEUES, B: OTHER}, True),
        ({LQ: LOCAL, CQ: CLUSTER, A: OTHER, B: Absent()}, False),
        ({LQ: LOCAL, CQ: CLUSTER, A: OTHER, B: Unknown("timeout")}, Unknown("timeout")),
    ],
)
def test_where_the_jobs_of_a_queue_run(answers: dict[Any, Answer], expected: Any) -> None:
    assert leads_elsewhere("ns", "lq", Facts(answers)) == expected


def test_all_checks_are_one_question() -> None:
    assert attempt(cluster_queue_of, "ns", "lq", Facts()) == NeededFacts((LQ,))
    assert attempt(dispatches, CLUSTER.value, Facts()) == NeededFacts((A, B))


# --- names of kinds ---------------------------------------------------------------------------------
# `Kind.version.group`, and the plurals that servers use.


def test_a_name_is_read_and_written() -> None:
    found = parse_name("Foo.v1beta1.x.example.com")
    assert found == Resource("x.example.com", "v1beta1", "Foo", "foos")
    assert name_of(found) == "Foo.v1beta1.x.example.com"
    assert parse_name("Box.v1.example.com", plural="boxen").plural == "boxen"


def test_a_wrong_name_has_a_reason() -> None:
    with pytest.raises(BadNameError, match="'Pipeline-Run' is not a kind"):
        parse_name("Pipeline-Run.v1.tekton.dev")


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("Foo", "foos"),
        ("Box", "boxes"),
        ("Class", "classes"),
        ("Proxy", "proxies"),
        ("Gateway", "gateways"),
        ("NetworkPolicy", "networkpolicies"),
    ],
)
def test_plurals(kind: str, plural: str) -> None:
    assert usual_plural(kind) == plural


SILENT = (
    'Internal error occurred: failed calling webhook "mjob.kb.io": failed to call webhook: Post '
    '"https://kueue-webhook-service.kueue-system.svc:443/mutate-batch-v1-job?timeout=10s": '
    "context deadline exceeded"
)


@pytest.mark.parametrize(
    ("message", "cured"),
    [
        (SILENT, True),
        (SILENT.replace("kueue", "other"), False),
        ("etcdserver: request timed out", False),
    ],
)
def test_a_webhook_of_kueue_that_does_not_answer_has_a_cure(message: str, cured: bool) -> None:
    text = cure_of(message, FOURNOS_JOB)
    wanted = ("FournosJob.v1.fournos.dev", "read fournosjobs", "kubectl apply --server-side -k deploy/kueue")
    assert [word in text for word in wanted] == [cured] * 3 and bool(text) is cured
