"""The looks of `fournos doctor`: what is too old, missing, closed, forbidden, or at its end."""

from __future__ import annotations

import base64
import copy
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from fournos import __version__
from fournos.api.kinds import FOURNOS_JOB
from fournos.app.parts import kinds
from fournos.engine.kube.errors import (
    ForbiddenError,
    KubeError,
    NotFoundError,
    ServerError,
)
from fournos.engine.kube.resource import (
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    DEPLOYMENT,
    ENDPOINT_SLICE,
    LEASE,
    SERVICE_ACCOUNT,
    VALIDATING_WEBHOOKS,
)
from fournos.engine.queueing.kinds import CLUSTER_QUEUE, LOCAL_QUEUE, RESOURCE_FLAVOR
from fournos.insight.doctor import KINDS, examine, schema_differences
from fournos.insight.doctor_access import NEEDS, Level, faults, selected
from tests.unit.cli.objects import NS
from tests.unit.cli.objects import job as job_of
from tests.unit.insight.healthy import (
    NOW,
    PLACE,
    Server,
    active,
    authority,
    bad,
    configuration,
    crds,
    deployment,
    found,
    lease,
    local_queue,
    obj,
    webhooks,
)

FORBIDDEN = ForbiddenError("no", status=403)
ABSENT = NotFoundError("gone", status=404)
JOBS = "fournosjobs.fournos.dev"
LATER = NOW + timedelta(days=90)


async def test_a_healthy_cluster_has_neither_fault_nor_warning() -> None:
    findings = await examine(Server(), PLACE, NOW)
    assert {one.level for one in findings} == {Level.OK}
    areas = {"Versions", "CRDs", "Kueue", "Queues", "Rights", "Webhooks", "Operator", "History"}
    assert {one.area for one in findings} == areas
    assert faults(findings) == 0


# --- versions ----------------------------------------------------------------------------------------


async def test_the_versions_of_all_parts_are_shown() -> None:
    texts = {one.what: one.text for one in await found("Versions", Server())}
    assert texts["client"] == f"fournos {__version__}"
    assert texts[f"operator {NS}/fournos"] == __version__
    assert texts["Kueue"] == "kueue.x-k8s.io/v1beta2"
    assert texts["AppWrapper"] == "not installed"


@pytest.mark.parametrize(
    ("served", "what", "level", "text"),
    [
        ({"fournos.dev": ("v1",)}, "Kueue", Level.FAULT, "not served"),
        ({"kueue.x-k8s.io": ("v1beta1",)}, "Kueue", Level.FAULT, "v1beta1"),
        ({}, "Fournos", Level.FAULT, "not served"),
        ({}, "MiniCluster", Level.OK, "not installed"),
    ],
)
async def test_apis(served: dict[str, Any], what: str, level: Level, text: str) -> None:
    server = Server()
    server.served = served
    (finding,) = [one for one in await found("Versions", server) if one.what == what]
    assert (finding.level, text in finding.text) == (level, True), finding
    assert bool(finding.fix) == (level is Level.FAULT)


async def test_an_old_kubernetes_is_a_fault() -> None:
    server = Server()
    server.kubernetes = "v1.29.9"
    assert bad(await found("Versions", server)) == [("Kubernetes", Level.FAULT)]


@pytest.mark.parametrize(
    ("operator", "level", "text"),
    [
        (deployment("fournos", "mirror/fournos:9.9.9"), Level.WARNING, "9.9.9"),
        (deployment("hearth", "hearth:main-1a2b3c"), Level.OK, "main-1a2b3c"),
        (None, Level.UNKNOWN, "no Deployment"),
        (FORBIDDEN, Level.UNKNOWN, "may not read"),
    ],
)
async def test_operators(operator: Any, level: Level, text: str) -> None:
    server = Server()
    server.only(DEPLOYMENT, *([operator] if isinstance(operator, dict) else ()))
    if isinstance(operator, KubeError):
        server.fails["list", DEPLOYMENT] = operator
    (finding,) = [one for one in await found("Versions", server) if one.what.startswith("operator")]
    assert (finding.level, text in finding.text) == (level, True), finding


# --- CRDs --------------------------------------------------------------------------------------------


def test_the_crds_are_those_that_the_parts_declare() -> None:
    def named(kinds: Any) -> Any:
        return {definition.name: (definition, rules) for definition, rules in kinds}

    assert named(KINDS) == named(kinds())


async def test_a_crd_of_another_version_is_named_with_what_differs() -> None:
    changed = copy.deepcopy(crds()[JOBS])
    schema = changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["cluster"]
    schema["properties"]["spec"]["properties"]["later"] = {"type": "string"}
    server = Server()
    server.add(CUSTOM_RESOURCE_DEFINITION, changed)
    (finding,) = [one for one in await found("CRDs", server) if one.what == JOBS]
    assert finding.level is Level.WARNING
    assert "which differs in spec.cluster, spec.later" in finding.text
    assert "kubectl apply -f manifests/crd.yaml" in finding.fix


def test_a_changed_rule_is_a_difference_and_defaults_of_the_server_are_none() -> None:
    wanted = crds()[JOBS]
    installed = copy.deepcopy(wanted)
    installed["spec"]["conversion"] = {"strategy": "None"}
    installed["spec"]["names"]["categories"] = ["all"]
    assert schema_differences(wanted, installed) == []
    spec = installed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["x-kubernetes-validations"][0]["rule"] = "true"
    assert schema_differences(wanted, installed) == ["spec"]


async def test_crds_that_are_absent_refused_or_unreadable() -> None:
    server = Server()
    refused = {**crds()[JOBS], "status": {"conditions": [{"type": "Established", "status": "False"}]}}
    server.add(CUSTOM_RESOURCE_DEFINITION, refused)
    assert (JOBS, Level.FAULT) in bad(await found("CRDs", server))
    server.only(CUSTOM_RESOURCE_DEFINITION)
    absent = bad(await found("CRDs", server))
    assert (JOBS, Level.FAULT) in absent
    assert "appwrappers.workload.codeflare.dev" not in dict(absent), "they are not required"
    server.fails["get", CUSTOM_RESOURCE_DEFINITION] = FORBIDDEN
    assert {one.level for one in await found("CRDs", server)} == {Level.UNKNOWN}


# --- namespaces that Kueue leaves out -------------------------------------------------------------------


def but(name: str) -> dict[str, Any]:
    """The selector of all namespaces but one."""
    expression = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [name]}
    return {"matchExpressions": [expression]}


@pytest.mark.parametrize("error", [FORBIDDEN, ABSENT])
async def test_a_configuration_that_cannot_be_read_is_unknown(error: KubeError) -> None:
    server = Server()
    server.fails["get", CONFIG_MAP] = error
    assert [one.level for one in await found("Kueue", server)] == [Level.UNKNOWN]


@pytest.mark.parametrize("text", ["a: [", "- a"])
async def test_a_configuration_that_is_no_map_is_a_fault(text: str) -> None:
    server = Server()
    server.add(CONFIG_MAP, {**configuration(), "data": {"controller_manager_config.yaml": text}})
    assert bad(await found("Kueue", server)) == [("configuration", Level.FAULT)]


@pytest.mark.parametrize(
    ("namespace", "fields", "level"),
    [
        (NS, {}, None),
        (NS, {"managedJobsNamespaceSelector": but("kube-system")}, None),
        (NS, {"managedJobsNamespaceSelector": but(NS)}, Level.WARNING),
        # What is advised where Kueue also manages what names no queue.
        (NS, {"managedJobsNamespaceSelector": but(NS), "manageJobsWithoutQueueName": True}, None),
        (
            NS,
            {"managedJobsNamespaceSelector": but("kube-system"), "manageJobsWithoutQueueName": True},
            Level.WARNING,
        ),
        (NS, {"manageJobsWithoutQueueName": True}, Level.WARNING),
        ("kube-system", {}, Level.FAULT),
        ("kueue-system", {}, Level.FAULT),
    ],
)
async def test_a_namespace_that_kueue_leaves_out(namespace: str, fields: Any, level: Level | None) -> None:
    server = Server()
    server.add(CONFIG_MAP, configuration(**fields))
    findings = bad(await found("Kueue", server, replace(PLACE, namespace=namespace)))
    assert findings == ([(f"namespace {namespace}", level)] if level else [])


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (("team", "In", ["a", "b"]), True),
        (("team", "In", ["c"]), False),
        (("team", "NotIn", ["c"]), True),
        (("gone", "NotIn", ["c"]), True),
        (("team", "Exists", None), True),
        (("gone", "Exists", None), False),
        (("team", "DoesNotExist", None), False),
        (("gone", "DoesNotExist", None), True),
    ],
)
def test_label_selectors(expression: tuple[str, str, Any], expected: bool) -> None:
    one = dict(zip(("key", "operator", "values"), expression, strict=True))
    assert selected({"matchExpressions": [one]}, {"team": "a"}) is expected


# --- queues ------------------------------------------------------------------------------------------


def cluster_queue(**spec: Any) -> Any:
    groups = [{"coveredResources": ["fournos/cluster-slot"], "flavors": [{"name": "cluster-1"}]}]
    return obj("all", spec={"resourceGroups": groups, "namespaceSelector": {}, **spec}, status=active())


@pytest.mark.parametrize(
    ("resource", "objects", "expected"),
    [
        (LOCAL_QUEUE, (), [("LocalQueue fournos-queue", Level.FAULT)]),
        (
            LOCAL_QUEUE,
            ({**local_queue(), "status": active("False", reason="Stopped")},),
            [("LocalQueue fournos-queue", Level.FAULT)],
        ),
        (LOCAL_QUEUE, ({**local_queue(), "status": {}},), [("LocalQueue fournos-queue", Level.WARNING)]),
        (LOCAL_QUEUE, (local_queue(stopPolicy="Hold"),), [("LocalQueue fournos-queue", Level.FAULT)]),
        (CLUSTER_QUEUE, (), [("ClusterQueue all", Level.FAULT)]),
        (RESOURCE_FLAVOR, (), [("ClusterQueue all", Level.FAULT)]),
        (CLUSTER_QUEUE, (cluster_queue(resourceGroups=[]),), [("ClusterQueue all", Level.FAULT)]),
        (CLUSTER_QUEUE, (cluster_queue(namespaceSelector=None),), [("ClusterQueue all", Level.FAULT)]),
        (
            CLUSTER_QUEUE,
            (cluster_queue(namespaceSelector={"matchLabels": {"a": "b"}}),),
            [("ClusterQueue all", Level.FAULT)],
        ),
        (CLUSTER_QUEUE, (cluster_queue(),), []),
    ],
)
async def test_queues(resource: Any, objects: Any, expected: list[Any]) -> None:
    server = Server()
    server.only(resource, *objects)
    assert bad(await found("Queues", server)) == expected


@pytest.mark.parametrize("resource", [LOCAL_QUEUE, CLUSTER_QUEUE, RESOURCE_FLAVOR])
async def test_queues_that_cannot_be_read_are_no_fault(resource: Any) -> None:
    server = Server()
    server.fails["*", resource] = FORBIDDEN
    assert bad(await found("Queues", server)) == []


async def test_the_fix_of_a_selector_is_its_label() -> None:
    server = Server()
    server.only(CLUSTER_QUEUE, cluster_queue(namespaceSelector={"matchLabels": {"a": "b"}}))
    assert f"kubectl label ns/{NS} a=b" in [one.fix for one in await found("Queues", server)]


# --- webhooks ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("webhook", "level", "text"),
    [
        (webhooks(authority(LATER)), Level.OK, f"trusted until {LATER:%Y-%m-%d}"),
        (webhooks(authority(NOW - timedelta(days=3))), Level.FAULT, "ended 3d ago"),
        (webhooks(authority(NOW - timedelta(days=3)), policy="Ignore"), Level.WARNING, "ended 3d ago"),
        (webhooks(""), Level.FAULT, "no certificate that can be read"),
        (webhooks("%%%"), Level.FAULT, "no certificate that can be read"),
        (webhooks(base64.b64encode(b"x").decode()), Level.FAULT, "no certificate that can be read"),
        (webhooks("", url="https://elsewhere:1/path"), Level.OK, "at https://elsewhere:1"),
    ],
)
async def test_authorities(webhook: Any, level: Level, text: str) -> None:
    server = Server()
    server.only(VALIDATING_WEBHOOKS, webhook)
    (finding,) = await found("Webhooks", server)
    assert (finding.level, text in finding.text) == (level, True), finding


NUMBERED_ZERO = b"""-----BEGIN CERTIFICATE-----
MIIBYjCCAQigAwIBAgIBADAKBggqhkjOPQQDAjAPMQ0wCwYDVQQDDAR6ZXJvMCAX
DTI2MTEyMjIzMjU1NloYDzIxMjYxMDI5MjMyNTU2WjAPMQ0wCwYDVQQDDAR6ZXJv
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE2ZvMwtuuzZbpqjWjc8rRmEANoAHi
EzsREFSkSikj73WcRIZSI+56O8TzByEoTstJSKD6ejEzX6liNklDlCtTc6NTMFEw
HQYDVR0OBBYEFFCV1j/LjyBOuoA5ci2UCv9059a7MB8GA1UdIwQYMBaAFFCV1j/L
jyBOuoA5ci2UCv9059a7MA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSAAw
RQIgGPud+pLemeR+/EQAj7AYJGzckdJQ+cuNOaPKNHAbXZQCIQC8ePPqQV5AcU7g
MeOGB4gYpVv4KnxavtvOBPwSCuKb1g==
-----END CERTIFICATE-----
"""
"""An authority as old tools make it; RFC 5280 wants a positive serial number."""


async def test_an_authority_that_others_made_is_read_without_a_warning(
    recwarn: pytest.WarningsRecorder,
) -> None:
    server = Server()
    server.only(VALIDATING_WEBHOOKS, webhooks(base64.b64encode(NUMBERED_ZERO).decode()))
    assert bad(await found("Webhooks", server)) == []
    assert [str(one.message) for one in recwarn] == []


@pytest.mark.parametrize(
    ("ready", "level"),
    [
        ((True,), Level.OK),
        ((None,), Level.OK),
        ((False, True), Level.OK),
        ((False,), Level.FAULT),
        ((), Level.FAULT),
    ],
)
async def test_services(ready: tuple[bool | None, ...], level: Level) -> None:
    server = Server()
    server.endpoints(*({"conditions": {} if one is None else {"ready": one}} for one in ready))
    (finding,) = await found("Webhooks", server)
    assert finding.level is level
    if level is Level.FAULT:
        assert f"{NS}/fournos-webhooks has no ready endpoint" in finding.text
        server.fails["list", ENDPOINT_SLICE] = FORBIDDEN
        assert bad(await found("Webhooks", server)) == []


# --- rights ------------------------------------------------------------------------------------------


async def test_all_rights() -> None:
    findings = await found("Rights", Server())
    assert {one.level for one in findings} == {Level.OK}
    assert len(findings) == len(NEEDS)


async def test_a_right_on_jobs_that_lacks_is_a_fault() -> None:
    server = Server()
    server.refused = {"create fournosjobs"}
    (finding,) = [one for one in await found("Rights", server) if one.level is not Level.OK]
    assert finding.level is Level.FAULT
    assert f"you may not create fournosjobs.fournos.dev in namespace {NS}" in finding.text
    assert "submit" in finding.text
    assert "create on fournosjobs.fournos.dev" in finding.fix


async def test_a_right_on_queues_or_clusters_that_lacks_is_a_warning() -> None:
    server = Server()
    server.refused = {"list workloads", "patch fournosclusters"}
    findings = [one for one in await found("Rights", server) if one.level is not Level.OK]
    assert [one.level for one in findings] == [Level.WARNING, Level.WARNING]
    assert any("in namespace hearth" in one.text for one in findings)


# --- the operator and the history ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("there", "level", "text"),
    [
        (lease(NOW - timedelta(seconds=20)), Level.OK, "fournos-0 serves it"),
        (
            lease(NOW - timedelta(minutes=5)),
            Level.FAULT,
            "fournos-0 served it until 5m ago, and no operator has since",
        ),
        (obj("fournos", namespace=NS, spec={"holderIdentity": ""}), Level.FAULT, "no operator serves it now"),
        (None, Level.FAULT, "no operator holds a Lease here: nothing is processed"),
        (FORBIDDEN, Level.UNKNOWN, "you may not read it"),
    ],
)
async def test_the_operator_of_the_namespace(there: Any, level: Level, text: str) -> None:
    server = Server()
    server.only(LEASE, *([there] if isinstance(there, dict) else ()))
    if isinstance(there, KubeError):
        server.fails["get", LEASE] = there
    (finding,) = await found("Operator", server)
    assert (finding.level, finding.text) == (level, text)
    assert bool(finding.fix) == (level is Level.FAULT)


async def test_a_namespace_without_the_account_of_resolvers() -> None:
    server = Server()
    server.only(SERVICE_ACCOUNT)
    assert bad(await found("Operator", server)) == [("ServiceAccount fournos-resolver", Level.FAULT)]
    server.fails["get", SERVICE_ACCOUNT] = FORBIDDEN
    assert bad(await found("Operator", server)) == []


@pytest.mark.parametrize(
    ("error", "level", "text"),
    [
        (FORBIDDEN, Level.UNKNOWN, "may not read"),
        (ServerError("the store of the history does not answer", status=503), Level.FAULT, "store"),
    ],
)
async def test_a_history_that_does_not_answer(error: KubeError, level: Level, text: str) -> None:
    server = Server()
    server.history = error
    (finding,) = await found("History", server)
    assert (finding.level, bool(finding.fix), text in finding.text) == (level, level is Level.FAULT, True)


@pytest.mark.parametrize(
    ("minutes", "status", "level"),
    [
        (5, {}, Level.OK),
        (60, {}, Level.FAULT),
        (60, {"archivedAt": "2026-01-01T00:00:00Z"}, Level.OK),
    ],
)
async def test_ended_jobs_that_the_history_does_not_record(minutes: int, status: Any, level: Level) -> None:
    server = Server()
    server.history = b"{}"
    ended = {"finished": f"{NOW - timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%SZ}"}
    waiting = {"phaseTimes": ended}
    server.add(FOURNOS_JOB, job_of("one", "Succeeded", status={**waiting, **status}))
    answers, records = await found("History", server)
    assert (answers.level, records.level) == (Level.OK, level)
    assert ("one" in records.text) == (level is Level.FAULT)
