"""Admission: refusals, questions and defaults."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fournos.api.kinds import MINICLUSTER
from fournos.engine.kube.resource import POD
from fournos.engine.runtime.decision import (
    Absent,
    Answer,
    Facts,
    NeededFacts,
    Present,
    Question,
    Unknown,
    UserAccess,
    attempt,
)
from fournos.engine.runtime.webhook.review import Review
from fournos.systems.appwrappers.admission import review
from fournos.systems.appwrappers.build import pod_sets_of
from fournos.systems.appwrappers.kinds import GROUP_COUNT, WRAPPED, WrappedKind
from fournos.systems.appwrappers.names import MANAGER
from fournos.systems.appwrappers.part import appwrapper_webhooks, default, label_value
from fournos.systems.appwrappers.rules import RULES
from fournos.systems.appwrappers.settings import AppWrapperSettings
from tests.unit.systems.appwrappers.actors import (
    ALICE,
    KUEUE,
    LOCAL,
    NS,
    OWN,
    SERVICE,
    deployment_template,
    job_template,
    patch,
    pod_template,
    refusals,
    request_for,
    reviewed,
    wrapper,
)


def changed(template: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {**template, "metadata": {**template["metadata"], **metadata}}


def declared(template: dict[str, Any], *pod_sets: Any) -> dict[str, Any]:
    new = wrapper(template)
    new["spec"]["components"][0]["podSets"] = list(pod_sets)
    return new


def as_account(template: dict[str, Any], account: str) -> dict[str, Any]:
    return {**template, "spec": {**template["spec"], "serviceAccountName": account}}


NESTED = {**wrapper(pod_template("p")), "metadata": {"name": "inner"}}
PATH = {"path": "template.spec.template"}


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (wrapper(pod_template("p"), SERVICE), []),
        (declared(job_template("j", parallelism=2), {**PATH, "replicas": 2}), []),
        (wrapper(SERVICE), ["pod-sets"]),
        (wrapper(*(pod_template(f"p{i}") for i in range(9))), ["pod-sets"]),
        (wrapper(changed(pod_template("p"), namespace="other")), ["namespace"]),
        (wrapper(changed(pod_template("p"), namespace=NS)), []),
        (wrapper({**pod_template("p"), "metadata": {}}), ["template"]),
        (wrapper(NESTED, pod_template("p")), ["not-nested"]),
        (wrapper(pod_template("p"), name="n" * 64), ["name-length"]),
        (declared(job_template("j", parallelism=2), PATH), ["pod-sets"]),
        (declared(job_template("j"), PATH, PATH), ["pod-sets"]),
        (declared(job_template("j"), {**PATH, "annotations": {GROUP_COUNT: "2"}}), []),
        (declared(job_template("j"), {**PATH, "annotations": {GROUP_COUNT: "9" * 5000}}), ["annotation"]),
        (declared(job_template("j"), {**PATH, "annotations": {GROUP_COUNT: "-1"}}), ["annotation"]),
        (declared(job_template("j"), {"path": "template.spec.nothing"}), ["pod-sets"]),
        (wrapper(deployment_template("d", replicas="2")), ["pod-sets"]),  # type: ignore[arg-type]
        (wrapper(as_account(pod_template("p"), "hearth")), ["operator-account"]),
        (wrapper(as_account(pod_template("p"), "pipeline")), []),
        (wrapper(job_template("j"), pod_template("j")), []),
        (wrapper(job_template("j"), SERVICE, job_template("j")), ["same-name"]),
        (wrapper(*[changed(job_template(""), generateName="j-")] * 2), []),
    ],
)
def test_creation(new: dict[str, Any], expected: list[str]) -> None:
    assert refusals(new) == expected


def test_two_components_of_one_name_are_named() -> None:
    (problem,) = reviewed(request_for(wrapper(job_template("j"), job_template("j")))).problems
    assert problem.field == "spec.components[1].template.metadata.name"
    assert problem.message.startswith("spec.components[0] is Job j, too")


def leader_worker_set(group: dict[str, Any]) -> dict[str, Any]:
    kind = {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet"}
    return {**kind, "metadata": {"name": "l"}, "spec": {"replicas": 2, "leaderWorkerTemplate": group}}


def groups(workers: int) -> dict[str, Any]:
    """The published sample of a LeaderWorkerSet: 2 leaders with 2 workers each, and what it declares."""
    group = {"leaderTemplate": pod_template(), "size": 3, "workerTemplate": pod_template()}
    path = "template.spec.leaderWorkerTemplate"
    return declared(
        leader_worker_set(group),
        {"path": f"{path}.leaderTemplate", "replicas": 2},
        {"path": f"{path}.workerTemplate", "replicas": workers},
    )


@pytest.mark.parametrize(("workers", "counted"), [(3, 4), (4, 4), (5, 5)])
def test_documented_pod_sets_are_taken_and_quota_is_asked_for_what_is_made(
    workers: int, counted: int
) -> None:
    """The published operator infers nothing of this kind, so that any count was accepted."""
    new = groups(workers)
    found = reviewed(request_for(new))
    assert not found.problems and "spec" not in patch(new)
    leaders, others = pod_sets_of(new["spec"]["components"][0])
    assert (leaders.replicas, others.replicas) == (2, counted)
    assert [f"makes {counted}: quota is asked for {counted}" in line for line in found.warnings] == (
        [True] if workers < counted else []
    )
    # A pod set that is left out would run without quota.
    del new["spec"]["components"][0]["podSets"][0]
    assert refusals(new) == ["pod-sets"]


def test_changes() -> None:
    def changing(**spec: Any) -> list[str]:
        return refusals({**old, "spec": {**old["spec"], **spec}}, old)

    old = wrapper(pod_template("p"))
    component = old["spec"]["components"][0]
    info = {"podSetInfos": [{"labels": {"a": "b"}}], "annotations": {"x": "y"}}
    assert changing(suspend=False, components=[{**component, **info}]) == []
    assert changing(components=[{"template": pod_template("q")}]) == ["template-fixed"]
    assert changing(components=[component, component]) == ["components-fixed", "podsets-fixed"]
    assert changing(components=[{**component, "podSets": [{"path": "template"}]}]) == ["podsets-fixed"]
    assert changing(managedBy="x") == ["managedby-fixed"]
    labels = {**old["metadata"]["labels"], "workload.codeflare.dev/user": "bob"}
    assert refusals({**old, "metadata": {**old["metadata"], "labels": labels}}, old) == ["user-fixed"]


def test_every_rule_is_refused_somewhere() -> None:
    assert {rule.id for rule in RULES} == {
        "name-length", "not-nested", "components-fixed", "podsets-fixed", "managedby-fixed"
    }  # fmt: skip


def test_the_user_must_be_entitled_to_every_resource() -> None:
    new = wrapper(pod_template("p"), pod_template("q"), SERVICE)
    need = attempt(review, request_for(new), Facts(), settings=KUEUE)
    assert isinstance(need, NeededFacts)
    rights = [one for one in need.questions if isinstance(one, UserAccess)]
    assert rights[0] == UserAccess(ALICE, "create", POD, NS) and len(rights) == 2

    def verdict(*answers: Answer) -> Review:
        known: dict[Question, Answer] = dict.fromkeys(need.questions, Absent())
        known.update(zip(rights, answers, strict=True))
        found = attempt(review, request_for(new), Facts(known), settings=KUEUE)
        if isinstance(found, NeededFacts):
            known |= dict.fromkeys(found.questions, Present(()))
            found = attempt(review, request_for(new), Facts(known), settings=KUEUE)
        assert isinstance(found, Review)
        return found

    assert verdict(Present(True), Present(True)) == Review()
    (denied,) = verdict(Present(True), Present(False)).problems
    assert denied.message == f"User alice is not authorized to create services in {NS}"
    unsure = verdict(Unknown("down"), Present(True))
    assert unsure.transient and unsure.problems
    # Rights are asked at creation only: whoever may change it need not be who made it.
    assert refusals(new, new) == []


@pytest.mark.parametrize("pod", [{}, {"hostPID": True}, "text"], ids=["plain", "of the node", "malformed"])
def test_a_minicluster_that_reaches_further_takes_the_right_to_make_pods(pod: Any) -> None:
    """The operator of AppWrappers makes it, so MiniClusters' policy sees the rights of that operator."""
    spec = {"containers": [{"image": "i"}], "pod": pod}
    meta = {"name": "flux"}
    template = {"apiVersion": MINICLUSTER.api_version, "kind": "MiniCluster", "metadata": meta, "spec": spec}
    need = attempt(review, request_for(wrapper(job_template("j"), template)), Facts(), settings=OWN)
    assert isinstance(need, NeededFacts)
    asked = [one.resource.kind for one in need.questions if isinstance(one, UserAccess)]
    assert asked == ["Job", "MiniCluster", *(["Pod"] if pod else [])]


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("v1", "pods"),
        ("v1", "../../other/Secret"),
        ("v1", "Pod/exec"),
        ("apps/v1/../..", "Deployment"),
        ("v1?x=y", "Pod"),
        ("", "Pod"),
    ],
)
def test_what_is_no_name_does_not_get_into_a_path(version: str, kind: str) -> None:
    template = {**pod_template("p"), "apiVersion": version, "kind": kind}
    new = wrapper(template, pod_template("q"))
    assert refusals(new) == ["template"]


KEYS = st.sampled_from(
    [
        "spec", "template", "parallelism", "replicatedJobs", "pytorchReplicaSpecs", "Master", "replicas",
        "headGroupSpec", "workerGroupSpecs", "rayClusterSpec", "leaderWorkerTemplate", "size",
        "mpiReplicaSpecs", "Launcher", "workerTemplate", "containers",
    ]
)  # fmt: skip
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 3) | st.sampled_from(["", "x"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=6,
)


@settings(max_examples=200)
@given(st.sampled_from(WRAPPED), ANYTHING)
def test_whatever_a_template_holds_there_is_a_verdict(kind: WrappedKind, spec: Any) -> None:
    resource = kind.resource
    meta = {"metadata": {"name": "t"}}
    template = {"apiVersion": resource.api_version, "kind": resource.kind, **meta, "spec": spec}
    new = wrapper(template)
    assert isinstance(reviewed(request_for(new)), Review)
    assert isinstance(attempt(default, request_for(new), Facts(), settings=KUEUE), Review)


@pytest.mark.parametrize(
    "spec", [None, "x", [], {}, {"components": "x"}, {"components": [None, "x", {"template": 1}]}]
)
def test_what_the_schema_will_refuse_is_left_to_it(spec: Any) -> None:
    new = {**wrapper(pod_template("p")), "spec": spec}
    found = default(request_for(new), Facts(), settings=KUEUE)
    assert isinstance(found, Review) and "spec" not in found.patch


# --- mutation ------------------------------------------------------------------------------------------
# What the webhook of AppWrappers sets at creation, and what it warns of.

QUEUE = "kueue.x-k8s.io/queue-name"


def unqueued(**spec: Any) -> dict[str, Any]:
    new = wrapper(pod_template("p"), queue=None)
    return {**new, "spec": {**new["spec"], **spec}}


def test_labels_name_the_user_whatever_they_had_before() -> None:
    new = unqueued()
    new["metadata"]["labels"]["workload.codeflare.dev/user"] = "somebody-else"
    assert patch(new) == {
        "metadata": {
            "labels": {"workload.codeflare.dev/user": "alice", "workload.codeflare.dev/userid": "u-1"}
        }
    }


@pytest.mark.parametrize(
    ("queued", "changes", "there", "expected"),
    [
        # Whose Workloads Kueue makes, those its own webhook suspends.
        (True, {}, False, (None, None)),
        (False, {}, False, (None, None)),
        (True, {"workloads": "own"}, False, (None, True)),
        (False, {"workloads": "own"}, False, (None, True)),
        (False, {"workloads": "own"}, True, ("default", True)),
    ],
)
def test_the_queue_and_whether_it_waits(
    queued: bool, changes: dict[str, Any], there: bool, expected: tuple[str | None, bool | None]
) -> None:
    new = wrapper(pod_template("p")) if queued else unqueued(suspend=False)
    new["spec"]["suspend"] = False
    found = patch(new, queue=LOCAL if there else Absent(), **changes)
    assert (found["metadata"]["labels"].get(QUEUE), found.get("spec", {}).get("suspend")) == expected


@pytest.mark.parametrize("expected", [None, MANAGER, "somebody.example/else"])
@pytest.mark.parametrize(
    ("check", "workloads", "elsewhere"),
    [
        ("kueue.x-k8s.io/multikueue", "own", True),
        ("fournos.dev/multikueue", "own", True),
        ("kueue.x-k8s.io/provisioning-request", "own", False),
        ("", "own", False),
        ("kueue.x-k8s.io/multikueue", "kueue", False),  # Kueue's own webhook sets it
    ],
)
def test_a_queue_that_leads_to_other_clusters_sets_managed_by(
    check: str, workloads: str, elsewhere: bool, expected: str | None
) -> None:
    new = wrapper(pod_template("p"))
    new["spec"] |= {"managedBy": expected} if expected else {}
    found = patch(new, check=check, workloads=workloads).get("spec", {})
    wanted = elsewhere and expected != "somebody.example/else"
    assert found.get("managedBy") == ("kueue.x-k8s.io/multikueue" if wanted else None)


@pytest.mark.parametrize(
    ("new", "text"),
    [(wrapper(pod_template("p")), "other clusters"), (unqueued(), "")],
    ids=["where its queue leads", "whether there is a default queue"],
)
def test_what_cannot_be_learnt_about_the_queue_is_asked_again(new: dict[str, Any], text: str) -> None:
    own = AppWrapperSettings(workloads="own")
    need = attempt(default, request_for(new), Facts(), settings=own)
    assert isinstance(need, NeededFacts)
    found = default(request_for(new), Facts({need.questions[0]: Unknown("down")}), settings=own)
    assert isinstance(found, Review) and found.transient and text in found.problems[0].message


def test_pod_sets_are_written_where_kueue_knows_none() -> None:
    group_set = leader_worker_set({"size": 3, "workerTemplate": pod_template()})
    roles = {"Launcher": {"template": pod_template()}, "Worker": {"replicas": 4, "template": pod_template()}}
    spec = {"mpiReplicaSpecs": roles}
    mpi = {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "m"}, "spec": spec}
    group = {"replicas": 2, "numOfHosts": 4, "template": pod_template()}
    ray_spec = {"headGroupSpec": {"template": pod_template()}, "workerGroupSpecs": [group]}
    ray = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "r"}, "spec": ray_spec}
    new = wrapper(group_set, mpi, pod_template("p"), ray)
    after = [one.get("podSets") for one in patch(new)["spec"]["components"]]
    assert after == [
        [{"path": "template.spec.leaderWorkerTemplate.workerTemplate", "replicas": 6}],
        [
            {"path": "template.spec.mpiReplicaSpecs.Launcher.template", "replicas": 1},
            {"path": "template.spec.mpiReplicaSpecs.Worker.template", "replicas": 4},
        ],
        None,
        [
            {"path": "template.spec.headGroupSpec.template", "replicas": 1},
            {"path": "template.spec.workerGroupSpecs[0].template", "replicas": 8},
        ],
    ]
    # What is set is admitted, and set once.
    made = {**new, "spec": {**new["spec"], **patch(new)["spec"]}}
    assert refusals(made) == [] and "spec" not in patch(made)


def test_a_template_that_is_suspended_is_warned_of() -> None:
    job = job_template("j")
    found = reviewed(request_for(wrapper({**job, "spec": {**job["spec"], "suspend": True}})))
    (line,) = found.warnings
    assert not found.problems and "never runs" in line
    assert not reviewed(request_for(wrapper(job))).warnings


def test_mutating_first_and_both_firm() -> None:
    mutating, validating = appwrapper_webhooks(AppWrapperSettings())
    assert mutating.configuration < "kueue-mutating-webhook-configuration"
    assert {mutating.failure_policy, validating.failure_policy} == {"Fail"}
    assert (mutating.operations, validating.operations) == (("CREATE",), ("CREATE", "UPDATE"))


def test_user_labels_are_label_values() -> None:
    assert label_value("system:serviceaccount:ns:sa") == "system_serviceaccount_ns_sa"
    assert label_value("-" + "a" * 70 + "@x") == "a" * 62
