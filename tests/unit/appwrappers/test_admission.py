"""What admission refuses, asks and sets."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.appwrappers.admission import MayCreate, Review, ReviewFacts, User, defaults, label_value, review
from fournos.appwrappers.rules import RULES
from fournos.appwrappers.settings import AdmissionSettings
from fournos.kube.kinds import POD
from tests.unit.appwrappers.actors import (
    NS,
    SERVICE,
    deployment_template,
    job_template,
    pod_template,
    wrapper,
)

ALICE = User("alice", "u-1", ("dev",))
FREE = AdmissionSettings(user_rbac_admission_check=False)
CHECKED = AdmissionSettings()


def refusals(new: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    found = review(old, new, ReviewFacts(ALICE), settings=FREE)
    assert isinstance(found, Review)
    return [one.rule for one in found.problems]


def changed(template: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {**template, "metadata": {**template["metadata"], **metadata}}


def declared(template: dict[str, Any], *pod_sets: Any) -> dict[str, Any]:
    new = wrapper(template)
    new["spec"]["components"][0]["podSets"] = list(pod_sets)
    return new


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
        (declared(job_template("j"), {"path": "template.spec.nothing"}), ["pod-sets"]),
        (wrapper(deployment_template("d", replicas="2")), ["pod-sets"]),  # type: ignore[arg-type]
    ],
)
def test_creation(new: dict[str, Any], expected: list[str]) -> None:
    assert refusals(new) == expected


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
    questions = review(None, new, ReviewFacts(ALICE), settings=CHECKED)
    assert isinstance(questions, tuple)
    assert questions[0] == MayCreate(ALICE, POD, NS) and len(questions) == 2

    def verdict(*allowed: bool | None) -> Review:
        facts = ReviewFacts(ALICE, dict(zip(questions, allowed, strict=True)))  # type: ignore[arg-type]
        found = review(None, new, facts, settings=CHECKED)
        assert isinstance(found, Review)
        return found

    assert verdict(True, True) == Review()
    (denied,) = verdict(True, False).problems
    assert denied.message == f"User alice is not authorized to create services in {NS}"
    assert verdict(None, True).transient


def test_defaults() -> None:
    settings = AdmissionSettings(workloads="own", default_queue_name="standard")
    new = wrapper(pod_template("p"), queue=None)
    new["metadata"]["labels"]["workload.codeflare.dev/user"] = "somebody-else"
    assert defaults(new, ALICE, settings=settings) == {
        "metadata": {
            "labels": {
                "workload.codeflare.dev/user": "alice",
                "workload.codeflare.dev/userid": "u-1",
                "kueue.x-k8s.io/queue-name": "standard",
            }
        },
        "spec": {"suspend": True},
    }
    assert "spec" not in defaults(new, ALICE, settings=AdmissionSettings())
    group = {"size": 2, "workerTemplate": pod_template()}
    template = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "l"},
        "spec": {"leaderWorkerTemplate": group},
    }
    (component,) = defaults(wrapper(template), ALICE, settings=CHECKED)["spec"]["components"]
    assert component["podSets"] == [
        {"path": "template.spec.leaderWorkerTemplate.workerTemplate", "replicas": 2}
    ]


def test_user_labels_are_label_values() -> None:
    assert label_value("system:serviceaccount:ns:sa") == "system_serviceaccount_ns_sa"
    assert label_value("-" + "a" * 70 + "@x") == "a" * 62
