"""How the objects of install.yaml are divided between bundle/ and its prerequisites."""

from __future__ import annotations

from typing import Any

import pytest

from dev.olm_objects import BUNDLED, NAMESPACE, divided
from dev.release_install import missing_namespaces
from fournos.engine.runtime.webhook.registration import LABEL
from tests.unit.deploy.olm_bundle import deployments, objects, of, prerequisites, spec, variables

OLM_KINDS = {
    "ClusterRole", "ClusterRoleBinding", "ConfigMap", "ConsoleCLIDownload", "ConsoleLink", "ConsolePlugin",
    "ConsoleQuickStart", "ConsoleYAMLSample", "CustomResourceDefinition", "PodDisruptionBudget",
    "PriorityClass", "PrometheusRule", "Role", "RoleBinding", "Secret", "Service", "ServiceAccount",
    "ServiceMonitor", "VerticalPodAutoscaler",
}  # fmt: skip
"""What OLM v0 takes beside the ClusterServiceVersion, in all versions since Kubernetes 1.30."""


def test_every_object_is_of_a_kind_that_olm_knows_and_in_no_namespace() -> None:
    others = [item for item in objects() if item["kind"] != "ClusterServiceVersion"]
    assert {item["kind"] for item in others} == BUNDLED <= OLM_KINDS
    assert [item["metadata"] for item in others if "namespace" in item["metadata"]] == []
    names = [(item["kind"], item["metadata"]["name"]) for item in others]
    assert len(names) == len(set(names))


def test_nothing_that_others_fill_in_is_replaced_by_an_update() -> None:
    assert [item["metadata"]["name"] for item in objects() if "aggregationRule" in item] == []
    assert not {"Secret", "ConfigMap"} & {item["kind"] for item in objects()}


def test_services_and_budgets_find_pods() -> None:
    labels = [deployment["spec"]["template"]["metadata"]["labels"] for deployment in deployments()]
    for item in (*of("Service"), *of("PodDisruptionBudget")):
        selector = item["spec"]["selector"]
        selector = selector.get("matchLabels", selector)
        found = [one for one in labels if selector.items() <= one.items()]
        assert len(found) == 1, item["metadata"]["name"]
    for item in of("PodDisruptionBudget"):
        assert item["spec"]["maxUnavailable"] == 1, "0 would stop updates of nodes"


def test_prerequisites_are_whole() -> None:
    items = list(prerequisites())
    assert missing_namespaces(items) == set()
    names = {(item["kind"], item["metadata"]["name"]) for item in (*items, *objects())}
    accounts = {deployment["spec"]["template"]["spec"]["serviceAccountName"] for deployment in deployments()}
    for item in items:
        if role := item.get("roleRef"):
            assert (role["kind"], role["name"]) in names
            for subject in item["subjects"]:
                assert subject["namespace"] != NAMESPACE or subject["name"] in accounts
    made = {item["metadata"]["name"] for item in items if item["kind"] == "Namespace"}
    assert made == {NAMESPACE, "fournos", "psap-secrets"}
    both = {(item["kind"], item["metadata"]["name"]) for item in objects()} & {
        (item["kind"], item["metadata"]["name"]) for item in items
    }
    assert both == set(), "OLM would take over what is applied by hand"


def test_what_a_deployment_mounts_is_there() -> None:
    there = {(item["kind"], item["metadata"]["name"]) for item in prerequisites()}
    for deployment in deployments():
        for volume in deployment["spec"]["template"]["spec"]["volumes"]:
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in there


def test_webhooks_lead_to_the_services_of_the_bundle() -> None:
    """They are not OLM's: its webhooks have neither match conditions nor a choice of namespaces."""
    assert "webhookdefinitions" not in spec()
    services = {item["metadata"]["name"]: item["spec"]["ports"] for item in of("Service")}
    configurations = [item for item in prerequisites() if item["kind"].endswith("WebhookConfiguration")]
    assert len(configurations) == 5
    for item in configurations:
        assert item["metadata"]["labels"] == {LABEL: NAMESPACE}, "its operator looks for it by this"
        for webhook in item["webhooks"]:
            service = webhook["clientConfig"]["service"]
            assert service["namespace"] == NAMESPACE
            assert service["port"] in [port["port"] for port in services[service["name"]]]
            assert webhook["admissionReviewVersions"] == ["v1"] and webhook["sideEffects"] == "None"
    named = {
        webhook["clientConfig"]["service"]["name"] for item in configurations for webhook in item["webhooks"]
    }
    assert named == {
        variables(each).get("FOURNOS_WEBHOOK_SERVICE", {}).get("value") for each in deployments()
    } - {None}


def test_each_operator_has_secrets_of_its_own_in_the_shared_namespace() -> None:
    chosen = [
        variables(each).get(name, {"value": default})["value"]
        for each in deployments()
        for name, default, needs in (
            ("FOURNOS_METRICS_SECRET", "fournos-metrics-cert", "FOURNOS_METRICS_SERVICE"),
            ("FOURNOS_WEBHOOK_SECRET", "fournos-webhook-cert", "FOURNOS_WEBHOOK_SERVICE"),
        )
        if needs in variables(each)
    ]
    secrets = [item["metadata"]["name"] for item in prerequisites() if item["kind"] == "Secret"]
    assert sorted(chosen) == sorted(secrets) and len(set(secrets)) == len(secrets) == 9


def _operator(*, namespace: str = "ours", **role: Any) -> list[dict[str, Any]]:
    """An operator with one binding to a ClusterRole."""
    pod = {"serviceAccountName": "cook", "containers": [{"name": "cook", "env": []}]}
    return [
        {"kind": "Deployment", "metadata": {"name": "cook", "namespace": namespace},
         "spec": {"template": {"spec": pod}}},
        {"kind": "ServiceAccount", "metadata": {"name": "cook", "namespace": namespace}},
        {"kind": "ClusterRole", "metadata": {"name": "cooking"}, "rules": [{"verbs": ["get"]}], **role},
        {"kind": "ClusterRoleBinding", "metadata": {"name": "cooking"},
         "roleRef": {"kind": "ClusterRole", "name": "cooking"},
         "subjects": [{"kind": "ServiceAccount", "name": "cook", "namespace": namespace}]},
        {"kind": "Namespace", "metadata": {"name": namespace}},
    ]  # fmt: skip


def test_an_operator_moves_with_its_account_and_rights() -> None:
    division = divided(_operator())
    assert [item["metadata"] for item in division.deployments] == [{"name": "cook", "namespace": NAMESPACE}]
    assert division.rights == {"cook": [{"verbs": ["get"]}]}
    assert division.bundled == []
    role, binding = division.prerequisites
    (rule,) = role["rules"]
    assert (rule["resourceNames"], rule["verbs"]) == (["cook"], ["use"]), "OLM makes the Deployment"
    assert {subject["namespace"] for subject in binding["subjects"]} == {
        "openshift-operator-lifecycle-manager",
        "olm",
    }


def test_an_operator_whose_account_olm_would_not_make_is_refused() -> None:
    with pytest.raises(ValueError, match="no ClusterRole of its own: cook"):
        divided(_operator(aggregationRule={}))
