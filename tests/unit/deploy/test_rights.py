"""The shipped Roles grant what each part watches, and nothing wider than it has to be."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
import yaml

from fournos.api.pod_rights import OPERATOR_ACCOUNTS
from fournos.app.parts import PARTS
from fournos.engine.kube.resource import Resource
from fournos.engine.runtime.clock import SystemClock
from fournos.engine.runtime.metrics import Metrics
from fournos.engine.runtime.part import Part
from fournos.web.serving import watched
from fournos.web.settings import WebSettings
from tests.multikueue_configuration import configuration
from tests.unit.deploy.shipped import ROOT
from tests.unit.deploy.shipped import documents as objects_in

Right = tuple[str, str, str, str, str]
"""Account, where, verb, resource.group, names."""

OWN, CLUSTER = "own", "cluster"
"""The namespace into which a part is deployed, where the manifests leave it open; a ClusterRoleBinding."""
ACCOUNTS = {
    "jobs": "fournos",
    "schedules": "fournos",
    "clusters": "hearth",
    "appwrappers": "appwrapper-controller-manager",
    "miniclusters": "operator-controller-manager",
    "frameworks": "fournos-frameworks",
    "multikueue": "fournos-multikueue",
    "history": "fournos-history",
}
ALL_NAMESPACES = {
    *ACCOUNTS.values(),
    "multikueue",
    "multikueue-logs",
    "system:serviceaccounts",
    "fournos-web",
    "kueue-controller-manager",
} - {"fournos", "hearth"}
"""Accounts that work in namespaces that are not known in advance."""
CLUSTER_SCOPED = {
    "nodes",
    "namespaces",
    "clusterqueues",
    "resourceflavors",
    "workloadpriorityclasses",
    "priorityclasses",
    "admissionchecks",
    "multikueueclusters",
    "multikueueconfigs",
    "tokenreviews",
    "subjectaccessreviews",
    "apiservices",
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
}


@cache
def documents() -> tuple[dict[str, Any], ...]:
    paths = (path for folder in ("deploy", "manifests") for path in sorted((ROOT / folder).rglob("*.yaml")))
    return tuple(one for path in paths for one in objects_in(path) if "kind" in one)


BUILT_IN: dict[tuple[str, str, str | None], dict[str, Any]] = {
    ("Role", "extension-apiserver-authentication-reader", "kube-system"): {
        "metadata": {},
        "rules": [
            {
                "apiGroups": [""],
                "resources": ["configmaps"],
                "resourceNames": ["extension-apiserver-authentication"],
                "verbs": ["get", "list", "watch"],
            }
        ],
    }
}
"""The roles of Kubernetes that our bindings name."""


@cache
def shipped() -> set[Right]:
    roles = {
        (one["kind"], one["metadata"]["name"], one["metadata"].get("namespace")): one
        for one in documents()
        if one["kind"] in ("Role", "ClusterRole")
    }
    roles |= BUILT_IN
    found: set[Right] = set()
    for one in documents():
        if one["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        reference, namespace = one["roleRef"], one["metadata"].get("namespace")
        role = roles[
            (reference["kind"], reference["name"], namespace if reference["kind"] == "Role" else None)
        ]
        where = "cluster" if one["kind"] == "ClusterRoleBinding" else namespace or "own"
        for subject in one["subjects"]:
            for rule in (rule for each in _aggregated(role, roles.values()) for rule in each["rules"]):
                for right in _rights(rule):
                    found.add((subject["name"], where, *right))
    return found


def _aggregated(role: dict[str, Any], roles: Any) -> list[dict[str, Any]]:
    selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors")
    if not selectors:
        return [role]
    return [
        one
        for one in roles
        if any(
            wanted["matchLabels"].items() <= (one["metadata"].get("labels") or {}).items()
            for wanted in selectors
        )
    ]


def _rights(rule: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    names = ",".join(rule.get("resourceNames", ()))
    for url in rule.get("nonResourceURLs", ()):
        yield from ((verb, url, "") for verb in rule["verbs"])
    for group in rule.get("apiGroups", ()):
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                yield verb, f"{resource}.{group}" if group else resource, names


def not_granted(account: str, watches: list[tuple[str, Resource]]) -> set[tuple[str, str, str]]:
    granted = {right[1:4] for right in shipped() if right[0] == account and not right[4]}
    needed = {
        (where, verb, f"{resource.plural}.{resource.group}".removesuffix("."))
        for where, resource in watches
        for verb in ("list", "watch")
    }
    return {one for one in needed if not granted & {one, (CLUSTER, *one[1:])}}


@pytest.mark.parametrize("part", [part for part in PARTS.values() if part.lease], ids=lambda part: part.name)
def test_every_watch_of_a_part_is_granted(part: Part[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOURNOS_NAMESPACE", OWN)
    monkeypatch.setenv("FOURNOS_APPWRAPPER_WORKLOADS", "own")
    monkeypatch.setenv("FOURNOS_MULTIKUEUE_CONFIG_FILE", configuration("PipelineRun.v1.tekton.dev"))
    started = part.start(part.settings(), SystemClock(), Metrics(), lambda controller, key: None)
    watches = [
        (watch.namespace or CLUSTER, watch.resource)
        for controller in started.controllers
        for watch in controller.watches
    ]
    assert watches
    assert not not_granted(ACCOUNTS[part.name], watches)


def test_every_watch_of_the_page_is_granted() -> None:
    assert not not_granted("fournos-web", [(CLUSTER, kind) for kind in watched(WebSettings())])


def test_nothing_is_cluster_wide_that_can_be_by_name_or_namespace() -> None:
    wide = {
        (account, verb, resource)
        for account, where, verb, resource, _ in shipped()
        if where == "cluster"
        and not resource.startswith("/")
        and resource.partition(".")[0] not in CLUSTER_SCOPED
    }
    # Hearth's published check of its rights asks in whatever namespace one is.
    assert {one for one in wide if one[0] not in ALL_NAMESPACES} == {
        ("hearth", "list", "fournosclusters.fournos.dev")
    }


def test_what_can_be_by_name_is_by_name() -> None:
    for account, where, verb, resource, names in shipped():
        if resource == "leases.coordination.k8s.io":
            assert verb == "create" or names, (account, where)
        if resource.endswith("webhookconfigurations.admissionregistration.k8s.io"):
            assert verb in ("list", "watch") or names, account
        if resource == "configmaps" and where != "cluster":
            assert verb == "create" or names, account


def test_no_right_is_a_wildcard() -> None:
    assert not [right for right in shipped() if "*" in right[2] or "*" in right[3]]


def test_who_may_list_secrets_and_what_a_resolver_may() -> None:
    listing = {right for right in shipped() if right[2] in ("list", "watch") and right[3:] == ("secrets", "")}
    assert {(account, where) for account, where, *_ in listing} == {
        ("hearth", "psap-secrets"),
        ("fournos-multikueue", "kueue-system"),  # where Kueue keeps kubeconfigs of workers
        ("operator-controller-manager", CLUSTER),  # MiniClusters' certificates, by label
    }
    resolver = {right[1:] for right in shipped() if right[0] == "fournos-resolver"}
    assert resolver == {(OWN, verb, "fournosjobs.fournos.dev", "") for verb in ("get", "patch")}


def test_no_token_is_shipped_that_does_not_end() -> None:
    kinds = {one["type"] for one in documents() if one["kind"] == "Secret"}
    assert "kubernetes.io/service-account-token" not in kinds


def test_who_takes_jobs_to_workers_reads_no_logs_there_and_who_reads_logs_changes_nothing() -> None:
    of = {(account, verb, resource) for account, _, verb, resource, _ in shipped()}
    assert not of & {("multikueue", verb, "pods/log") for verb in ("get", "list", "watch")}
    assert {verb for account, verb, _ in of if account == "multikueue-logs"} == {"get", "list", "watch"}


def test_every_deployment_of_ours_runs_with_an_account_that_the_policy_keeps_for_it() -> None:
    pods = [one["spec"]["template"]["spec"] for one in documents() if one["kind"] == "Deployment"]
    accounts = {pod["serviceAccountName"] for pod in pods if "serviceAccountName" in pod}
    policies = [one for one in documents() if one["kind"] == "ValidatingAdmissionPolicy"]
    (policy,) = (one for one in policies if one["metadata"]["name"] == "fournos-operator-account")
    (listed,) = (one for one in policy["spec"]["variables"] if one["name"] == "operators")
    assert accounts == OPERATOR_ACCOUNTS == set(yaml.safe_load(listed["expression"]))
