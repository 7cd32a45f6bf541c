"""Versions, CRDs and clocks: what is too old, of another version, or off."""

from __future__ import annotations

import copy
import json
from datetime import timedelta
from typing import Any

import pytest

from fournos import __version__
from fournos.app.parts import kinds
from fournos.engine.kube.errors import (
    ForbiddenError,
    KubeError,
    NoSuchResourceError,
    NotFoundError,
    ServerError,
)
from fournos.insight.crds import KINDS
from fournos.insight.doctor.crds import check_crds, differences
from fournos.insight.doctor.examine import (
    check_clocks,
    check_history,
    check_messages,
    check_operator,
    check_vault,
    examine,
)
from fournos.insight.doctor.facts import VaultHealth
from fournos.insight.doctor.finding import Level, faults
from fournos.insight.doctor.versions import check_versions
from tests.unit.insight.doctor.healthy import NOW, crds, deployment, facts, lease, obj

FORBIDDEN = ForbiddenError("no", status=403)
JOBS = "fournosjobs.fournos.dev"


def levels(findings: Any) -> dict[str, Level]:
    return {one.what: one.level for one in findings}


def test_a_healthy_cluster_has_neither_fault_nor_warning() -> None:
    findings = examine(facts(), NOW)
    assert {one.level for one in findings} == {Level.OK}
    assert {one.area for one in findings} == {
        *("Versions", "CRDs", "Kueue", "Queues", "Rights", "Webhooks", "Operator", "Clocks")
    }
    assert faults(findings) == 0


def test_the_versions_of_all_parts_are_shown() -> None:
    texts = {one.what: one.text for one in check_versions(facts())}
    assert texts["client"] == f"fournos {__version__}"
    assert texts["operator bench/fournos"] == f"{__version__}, 2 of 2 ready"
    assert texts["Kueue"] == "v0.15.2, kueue.x-k8s.io/v1beta2"
    assert texts["Tekton Pipelines"] == "v1.6.0, tekton.dev/v1"
    assert texts["AppWrapper"] == "not installed"


def workload_crd(pod_sets: int, nominated: int, *fields: str) -> Any:
    """The CRD of Workloads with these maximal lengths, and further fields of the spec."""
    lists = {"podSets": {"maxItems": pod_sets}, **{field: {"type": "array"} for field in fields}}
    properties = {
        "spec": {"properties": lists},
        "status": {"properties": {"nominatedClusterNames": {"maxItems": nominated}}},
    }
    schema = {"openAPIV3Schema": {"properties": properties}}
    return {"spec": {"versions": [{"name": "v1beta1"}, {"name": "v1beta2", "schema": schema}]}}


@pytest.mark.parametrize(
    ("crd", "series"),
    [
        (workload_crd(8, 10), "v0.15"),
        (workload_crd(8, 20), "v0.16"),
        (workload_crd(8, 20, "preemptionGates"), "v0.17"),
        (workload_crd(10, 20, "preemptionGates"), "v0.18"),
        (workload_crd(18, 20, "preemptionGates"), "v0.19 or newer"),
    ],
)
@pytest.mark.parametrize("image", ["mirror/kueue@sha256:1", "mirror/kueue:stable", ""])
def test_kueues_series_is_read_from_its_schema_where_the_image_says_nothing(
    crd: Any, series: str, image: str
) -> None:
    manager = (deployment("kueue-controller-manager", image),) if image else FORBIDDEN
    texts = {one.what: one.text for one in check_versions(facts(deployments=manager, workload_crd=crd))}
    assert texts["Kueue"] == f"{series}, by its CRDs, kueue.x-k8s.io/v1beta2"


def test_kueues_version_is_that_of_the_image_then_of_the_label() -> None:
    crd, found = workload_crd(18, 20), facts().deployments
    texts = {one.what: one.text for one in check_versions(facts(workload_crd=crd, deployments=found))}
    assert texts["Kueue"] == "v0.15.2, kueue.x-k8s.io/v1beta2"
    chart = deployment("kueue-controller-manager", "mirror/kueue@sha256:1")
    chart["metadata"]["labels"] = {"app.kubernetes.io/version": "v0.19.2"}
    texts = {one.what: one.text for one in check_versions(facts(workload_crd=crd, deployments=(chart,)))}
    assert texts["Kueue"] == "v0.19.2, kueue.x-k8s.io/v1beta2"


@pytest.mark.parametrize(
    ("changes", "what", "level", "text"),
    [
        ({"kubernetes": "v1.29.9"}, "Kubernetes", Level.FAULT, "too old"),
        ({"groups": {"fournos.dev": ("v1",)}}, "Kueue", Level.FAULT, "not served"),
        ({"groups": {"kueue.x-k8s.io": ("v1beta1",)}}, "Kueue", Level.FAULT, "v1beta1"),
        ({"groups": {}}, "Fournos", Level.FAULT, "not served"),
        ({"groups": {}}, "MiniCluster", Level.OK, "not installed"),
        ({"groups": FORBIDDEN}, "APIs", Level.UNKNOWN, "may not read"),
        ({"deployments": FORBIDDEN}, "operator", Level.UNKNOWN, "may not read"),
        ({"deployments": ()}, "operator", Level.UNKNOWN, "no Deployment"),
        (
            {"deployments": (deployment("fournos", "mirror/fournos:9.9.9"),)},
            "operator bench/fournos",
            Level.WARNING,
            "9.9.9",
        ),
        (
            {"deployments": (deployment("hearth", "hearth:main-1a2b3c"),)},
            "operator bench/hearth",
            Level.OK,
            "main-1a2b3c",
        ),
        (
            {"deployments": (deployment("hearth", "registry:5000/hearth@sha256:1", ready=0),)},
            "operator bench/hearth",
            Level.FAULT,
            "none of its 2 replicas",
        ),
    ],
)
def test_versions(changes: dict[str, Any], what: str, level: Level, text: str) -> None:
    found = next(one for one in check_versions(facts(**changes)) if one.what == what)
    assert (found.level, text in found.text) == (level, True), found
    assert bool(found.fix) == (level in (Level.WARNING, Level.FAULT))


# --- CRDs --------------------------------------------------------------------------------------------


def test_the_crds_are_those_that_the_parts_declare() -> None:
    def named(kinds: Any) -> Any:
        return {definition.name: (definition, rules) for definition, rules in kinds}

    assert named(KINDS) == named(kinds())


def test_a_crd_of_another_version_is_named_with_what_differs() -> None:
    found = copy.deepcopy(crds())
    schema = found[JOBS]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["cluster"]
    schema["properties"]["spec"]["properties"]["later"] = {"type": "string"}
    finding = next(one for one in check_crds(facts(crds=found)) if one.what == JOBS)
    assert finding.level is Level.WARNING
    assert "spec.cluster is missing" in finding.text
    assert "spec.later is unknown to this client" in finding.text
    assert "kubectl apply -f manifests/crd.yaml" in finding.fix


def test_a_changed_rule_is_a_difference_and_defaults_of_the_server_are_none() -> None:
    wanted = crds()[JOBS]
    found = copy.deepcopy(wanted)
    found["spec"]["conversion"] = {"strategy": "None"}
    found["spec"]["names"]["categories"] = ["all"]
    assert differences(wanted, found) == []
    spec = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["x-kubernetes-validations"][0]["rule"] = "true"
    assert differences(wanted, found) == ["the rules of spec differ"]


def test_many_differences_are_counted() -> None:
    wanted = crds()[JOBS]
    lines = differences(wanted, {"spec": {"versions": []}})
    assert len(lines) == 4
    assert lines[-1].endswith(" more")


def test_crds_that_are_absent_refused_or_unreadable() -> None:
    absent = NotFoundError("gone", status=404)
    refused = {**crds()[JOBS], "status": {"conditions": [{"type": "Established", "status": "False"}]}}
    for found, level in ((absent, Level.FAULT), (refused, Level.FAULT), (FORBIDDEN, Level.UNKNOWN)):
        assert levels(check_crds(facts(crds={**crds(), JOBS: found})))[JOBS] is level
    optional = "appwrappers.workload.codeflare.dev"
    assert optional not in levels(check_crds(facts(crds={**crds(), optional: absent})))


# --- the operator ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "level", "text"),
    [
        (lease(NOW - timedelta(seconds=20)), Level.OK, "fournos-0 serves it"),
        (
            lease(NOW - timedelta(minutes=5)),
            Level.FAULT,
            "fournos-0 served it until 5m ago, and no operator has since",
        ),
        (obj("fournos", spec={"holderIdentity": ""}), Level.FAULT, "no operator serves it now"),
        (
            NotFoundError("no", status=404),
            Level.FAULT,
            "no operator holds a Lease here: nothing is processed",
        ),
        (ForbiddenError("no", status=403), Level.UNKNOWN, "you may not read it"),
    ],
)
def test_the_operator_of_the_namespace(found: Any, level: Level, text: str) -> None:
    shown = check_operator(facts(lease=found), NOW)
    assert (shown.level, shown.text) == (level, text)
    assert bool(shown.fix) == (level is Level.FAULT)


# --- clocks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "level", "text"),
    [
        (0, Level.OK, "within 5s"),
        (-4, Level.OK, ""),
        (5, Level.OK, ""),
        (7, Level.WARNING, "6s ahead of"),
        (-30, Level.WARNING, "30s behind"),
        (120, Level.FAULT, "1m59s ahead of"),
        (-3600, Level.FAULT, "1h behind"),
    ],
)
def test_clocks(seconds: int, level: Level, text: str) -> None:
    """The header has whole seconds: up to one second ahead is none."""
    (found,) = check_clocks(facts(server_time=NOW - timedelta(seconds=seconds)))
    assert (found.level, text in found.text) == (level, True), found


def test_a_slow_answer_is_no_difference_of_clocks() -> None:
    slow = facts(before=NOW, after=NOW + timedelta(seconds=50), server_time=NOW + timedelta(seconds=45))
    assert [one.level for one in check_clocks(slow)] == [Level.OK]


def test_a_clock_that_cannot_be_read_is_unknown() -> None:
    for server_time in (None, FORBIDDEN):
        (found,) = check_clocks(facts(server_time=server_time))
        assert found.level is Level.UNKNOWN


# --- Vault -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "level"),
    [
        (200, Level.OK),
        (429, Level.OK),
        (473, Level.OK),
        (0, Level.FAULT),
        (503, Level.FAULT),
        (404, Level.FAULT),
    ],
)
def test_vault(status: int, level: Level) -> None:
    found = check_vault(VaultHealth("https://vault", status))
    assert found.level is level
    assert bool(found.fix) == (level is Level.FAULT)


def test_vault_is_examined_where_there_is_one() -> None:
    findings = examine(facts(vault=VaultHealth("https://vault", 503)), NOW)
    assert [(one.area, one.text) for one in findings if one.level is Level.FAULT] == [
        ("Vault", "it is sealed")
    ]


@pytest.mark.parametrize(
    ("answer", "level", "text"),
    [
        (b"{}", Level.OK, "so does its store"),
        (NoSuchResourceError("404 page not found", status=404), Level.OK, "not installed"),
        (FORBIDDEN, Level.UNKNOWN, "may not read"),
        (ServerError("the store of the history does not answer", status=503), Level.FAULT, "store"),
        (ServerError("service unavailable", status=503), Level.FAULT, "service unavailable"),
    ],
)
def test_a_history_whose_store_or_api_does_not_answer_is_a_fault(
    answer: bytes | KubeError, level: Level, text: str
) -> None:
    (found,) = [one for one in examine(facts(history=answer), NOW) if one.area == "History"]
    assert found == check_history(answer)
    assert (found.level, bool(found.fix)) == (level, level is Level.FAULT)
    assert text in found.text


@pytest.mark.parametrize(
    ("sent", "failed", "level", "text"),
    [
        (3, 0, Level.OK, "3 sent in the last 7 days"),
        (3, 1, Level.WARNING, "1 of 4 in the last 7 days did not reach it"),
        (0, 2, Level.FAULT, "2 of 2 in the last 7 days did not reach it"),
    ],
)
def test_messages_that_do_not_reach_their_receiver(sent: int, failed: int, level: Level, text: str) -> None:
    answer = json.dumps([{"receiver": "webhook", "sent": sent, "failed": failed}]).encode()
    (found,) = check_messages(answer)
    assert (found.what, found.level, found.text) == ("messages to webhook", level, text)
    assert ("webhook test" in (found.fix or "")) == bool(failed)
    assert found in examine(facts(messages=answer), NOW)


def test_a_history_that_does_not_say_how_messages_went_has_no_finding() -> None:
    assert not list(check_messages(None)) and not list(check_messages(FORBIDDEN))
