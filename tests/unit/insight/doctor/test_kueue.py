"""Kueue's Configuration and the queues: what keeps Workloads from being made or admitted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fournos.engine.kube.errors import ForbiddenError, NotFoundError
from fournos.engine.queueing.queues import DISPATCHERS
from fournos.insight.doctor.finding import Level
from fournos.insight.doctor.kueue import check_kueue
from fournos.insight.doctor.namespaces import selected
from fournos.insight.doctor.queues import check_queues
from tests.unit.insight.doctor.healthy import active, bad, configuration, facts, obj

FORBIDDEN = ForbiddenError("no", status=403)
ABSENT = NotFoundError("gone", status=404)
OWN = "workload.codeflare.dev/appwrapper"
EXTERNAL = "AppWrapper.v1beta2.workload.codeflare.dev"
MINICLUSTERS = "MiniCluster.v1alpha2.flux-framework.org"
JOBS = "FournosJob.v1.fournos.dev"
GROUPS = {"workload.codeflare.dev": ("v1beta2",)}


def but(name: str) -> dict[str, Any]:
    """The selector of all namespaces but one."""
    expression = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [name]}
    return {"matchExpressions": [expression]}


def integrations(*own: str, external: tuple[str, ...] = ()) -> dict[str, Any]:
    return configuration(integrations={"frameworks": list(own), "externalFrameworks": list(external)})


@pytest.mark.parametrize("error", [FORBIDDEN, ABSENT])
def test_a_configuration_that_cannot_be_read_is_unknown(error: Exception) -> None:
    findings = list(check_kueue(facts(kueue=error)))
    assert [one.level for one in findings] == [Level.UNKNOWN]


@pytest.mark.parametrize("text", ["a: [", "- a", "multiKueue: {gone: 1}", "multiKueue: {}\nmultikueue: {}"])
def test_a_configuration_that_kueue_refuses_is_a_fault(text: str) -> None:
    broken = {**obj("kueue-manager-config"), "data": {"controller_manager_config.yaml": text}}
    assert bad(list(check_kueue(facts(kueue=broken)))) == [("configuration", Level.FAULT)]


@pytest.mark.parametrize(
    ("kueue", "expected"),
    [
        (integrations(OWN), []),
        (integrations(external=(EXTERNAL,)), []),
        (integrations(OWN, external=(EXTERNAL,)), [("AppWrappers", Level.FAULT)]),
        (integrations("batch/job"), [("AppWrappers", Level.WARNING)]),
    ],
)
def test_appwrappers_are_listed_once(kueue: Any, expected: list[Any]) -> None:
    assert bad(list(check_kueue(facts(groups=GROUPS, kueue=kueue)))) == expected
    assert bad(list(check_kueue(facts(groups={}, kueue=kueue)))) == []


@pytest.mark.parametrize(("external", "expected"), [((MINICLUSTERS,), 0), ((), 1)])
def test_miniclusters_are_listed_as_external(external: tuple[str, ...], expected: int) -> None:
    served = facts(groups={"flux-framework.org": ("v1alpha2",)}, kueue=integrations(external=external))
    assert len(bad(list(check_kueue(served)))) == expected


@pytest.mark.parametrize(("role", "expected"), [(ABSENT, 1), (obj("kueue-fournos-kinds"), 0), (FORBIDDEN, 0)])
def test_kueue_needs_the_right_to_read_the_kinds_that_it_lists(role: Any, expected: int) -> None:
    listed = facts(kueue=integrations(external=(JOBS,)), kueue_role=role)
    assert len(bad(list(check_kueue(listed)))) == expected
    assert bad(list(check_kueue(facts(kueue_role=role)))) == []


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, 1),
        ({}, 1),
        (
            {
                "matchExpressions": [
                    {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system"]}
                ]
            },
            1,
        ),
        (
            {
                "matchExpressions": [
                    {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["bench"]}
                ]
            },
            0,
        ),
        ({"matchLabels": {"managed": "yes"}}, 0),
    ],
)
def test_jobs_without_a_queue_name(selector: Any, expected: int) -> None:
    kueue = configuration(manageJobsWithoutQueueName=True, managedJobsNamespaceSelector=selector)
    assert len(bad(list(check_kueue(facts(kueue=kueue))))) == expected


@pytest.mark.parametrize(
    ("namespace", "fields", "expected"),
    [
        ("bench", {}, []),
        ("bench", {"managedJobsNamespaceSelector": but("kube-system")}, []),
        ("bench", {"managedJobsNamespaceSelector": but("bench")}, [("namespace bench", Level.WARNING)]),
        # What is advised where Kueue also manages what names no queue.
        (
            "bench",
            {"managedJobsNamespaceSelector": but("bench"), "manageJobsWithoutQueueName": True},
            [],
        ),
        ("kube-system", {}, [("namespace kube-system", Level.FAULT)]),
        ("kueue-system", {}, [("namespace kueue-system", Level.FAULT)]),
    ],
)
def test_a_namespace_that_kueue_leaves_out(namespace: str, fields: Any, expected: list[Any]) -> None:
    place = replace(facts().place, namespace=namespace)
    found = facts(place=place, namespace=obj(namespace), kueue=configuration(**fields))
    assert bad(list(check_kueue(found))) == expected


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


def queue(**spec: Any) -> Any:
    groups = [{"coveredResources": ["fournos/cluster-slot"], "flavors": [{"name": "cluster-1"}]}]
    return obj("all", spec={"resourceGroups": groups, "namespaceSelector": {}, **spec}, status=active())


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"local_queues": ()}, [("LocalQueue fournos-queue", Level.FAULT)]),
        (
            {"local_queues": (obj("fournos-queue", status=active("False", reason="Stopped")),)},
            [("LocalQueue fournos-queue", Level.FAULT)],
        ),
        ({"local_queues": (obj("fournos-queue"),)}, [("LocalQueue fournos-queue", Level.WARNING)]),
        (
            {"local_queues": (obj("fournos-queue", spec={"stopPolicy": "Hold"}, status=active()),)},
            [("LocalQueue fournos-queue", Level.FAULT)],
        ),
        ({"cluster_queues": {"all": ABSENT}}, [("ClusterQueue all", Level.FAULT)]),
        ({"cluster_queues": {"all": FORBIDDEN}}, []),
        ({"local_queues": FORBIDDEN}, []),
        ({"flavors": ()}, [("ClusterQueue all", Level.FAULT)]),
        ({"flavors": FORBIDDEN}, []),
        (
            {"cluster_queues": {"all": queue(resourceGroups=[])}},
            [("ClusterQueue all", Level.FAULT)],
        ),
        ({"cluster_queues": {"all": queue(namespaceSelector=None)}}, [("ClusterQueue all", Level.FAULT)]),
        (
            {"cluster_queues": {"all": queue(namespaceSelector={"matchLabels": {"a": "b"}})}},
            [("ClusterQueue all", Level.FAULT)],
        ),
        ({"cluster_queues": {"all": queue()}}, []),
    ],
)
def test_queues(changes: dict[str, Any], expected: list[Any]) -> None:
    assert bad(list(check_queues(facts(**changes)))) == expected


def test_the_fix_of_a_selector_is_its_label() -> None:
    closed = facts(cluster_queues={"all": queue(namespaceSelector={"matchLabels": {"a": "b"}})})
    assert "kubectl label ns/bench a=b" in [one.fix for one in check_queues(closed)]


def test_without_the_right_to_read_the_namespace_its_labels_are_not_judged() -> None:
    unread = replace(facts(cluster_queues={"all": queue(namespaceSelector=None)}), namespace=FORBIDDEN)
    assert bad(list(check_queues(unread))) == []


@pytest.mark.parametrize(
    ("mode", "level"), [("TryPreferredFlavors", Level.FAULT), ("RetainFirstAdmission", Level.WARNING)]
)
def test_a_queue_of_clusters_must_not_migrate_what_runs(mode: str, level: Level) -> None:
    migrating = {"concurrentAdmissionPolicy": {"migration": {"mode": mode}}}
    found = facts(cluster_queues={"all": queue(**migrating)})
    assert bad(list(check_queues(found))) == [("ClusterQueue all", level)]
    nodes = [{"coveredResources": ["cpu"], "flavors": [{"name": "cluster-1"}]}]
    other = facts(cluster_queues={"all": queue(resourceGroups=nodes, **migrating)})
    assert not any("concurrentAdmissionPolicy" in one.text for one in check_queues(other))


def check(name: str, controller: str) -> Any:
    return obj(name, spec={"controllerName": controller})


@pytest.mark.parametrize("multikueue", sorted(DISPATCHERS))
def test_a_provisioning_check_beside_multikueue_is_a_fault(multikueue: str) -> None:
    provisioning = "kueue.x-k8s.io/provisioning-request"
    strategy = {"admissionChecks": [{"name": "nodes"}, {"name": "workers"}]}
    strict = queue(admissionChecksStrategy=strategy)
    for controllers, expected in (
        ((provisioning, multikueue), [("ClusterQueue all", Level.FAULT)]),
        ((provisioning, "example.com/other"), []),
    ):
        checks = tuple(check(*pair) for pair in zip(("nodes", "workers"), controllers, strict=True))
        found = facts(cluster_queues={"all": strict}, admission_checks=checks)
        assert bad(list(check_queues(found))) == expected
    unread = facts(cluster_queues={"all": strict}, admission_checks=FORBIDDEN)
    assert bad(list(check_queues(unread))) == []
