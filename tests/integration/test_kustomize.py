"""`kubectl apply -k`: what deploy and deploy/appwrapper render."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from dev import resources
from devcluster import manifests
from devcluster.existing import kubectl_program
from fournos.engine.kube.resource import Obj
from fournos.engine.runtime.webhook.registration import Service, configurations
from fournos.history.settings import HistorySettings
from fournos.systems.jobs.own_job import job_webhooks
from fournos.systems.jobs.settings import JobSettings

ROOT = Path(__file__).parents[2]


def rendered(folder: str) -> list[dict[str, Any]]:
    command = [*kubectl_program(), "kustomize", str(ROOT / folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=400)
    assert not re.search(r"\$(SECRETS_)?NAMESPACE", done.stdout)
    return manifests.parse(done.stdout)


NAMES = ("ovens-control", "ovens-jobs", "oven-keys")
"""Names of the operator's, the jobs' and the secrets namespace that are none of the shipped ones."""
SHIPPED = ("fournos-operator", "fournos", "psap-secrets")
IN_JOBS = {
    "LocalQueue/fournos-queue",
    "ServiceAccount/fournos-resolver",
    *(f"{kind}/fournos{role}" for kind in ("Role", "RoleBinding") for role in ("", "-engine", "-resolver")),
}


# The fixture makes sure that there is a kubectl: a cluster brings its own.
@pytest.mark.usefixtures("kubeconfig")
@pytest.mark.parametrize("names", [SHIPPED, NAMES], ids=["shipped", "others"])
def test_everything_lands_in_its_namespace(names: tuple[str, str, str]) -> None:
    """Whatever names.yaml holds: it is the one place to change."""
    operator, jobs, secrets = names
    objects = resources.kustomized(*names)
    assert not re.search(r"\$(SECRETS_)?NAMESPACE", str(objects))
    found = {(item["kind"], item["metadata"]["name"]): item for item in objects}
    assert len(found) == len(objects)
    policies = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    cluster_wide = {"Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", *policies}
    for (kind, name), item in found.items():
        namespace = item["metadata"].get("namespace")
        if kind in cluster_wide or kind.endswith("WebhookConfiguration"):
            assert namespace is None
        elif name == f"fournos-secrets-reader-{jobs}":
            assert namespace == secrets
        else:
            assert namespace == (jobs if f"{kind}/{name}" in IN_JOBS else operator), (kind, name)
        for subject in item.get("subjects", ()):
            assert subject["namespace"] == (operator if subject["name"] == "fournos" else jobs)
        reference = item.get("roleRef")
        assert not reference or (reference["kind"], reference["name"]) in found
    assert {name for kind, name in found if kind == "Namespace"} == set(names)
    assert ("CustomResourceDefinition", "fournosjobs.fournos.dev") in found
    _works_in(found, *names)


def _works_in(found: Mapping[tuple[str, str], Any], operator: str, jobs: str, secrets: str) -> None:
    """The names that are values: settings, and what the webhook is called, reached and responsible for."""
    (container,) = found["Deployment", "fournos"]["spec"]["template"]["spec"]["containers"]
    values = {one["name"]: one.get("value") for one in container["env"]}
    settings = JobSettings(
        **{name.removeprefix("FOURNOS_").lower(): value for name, value in values.items() if value}
    )
    assert (settings.namespace, settings.secrets_namespace) == (jobs, secrets)
    assert settings.secret_policy == "listed"
    (place,) = (one for one in container["env"] if one["name"] == "FOURNOS_CONTROLLER_NAMESPACE")
    assert place["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.namespace"
    service = Service(operator, str(values["FOURNOS_WEBHOOK_SERVICE"]))
    assert ("Service", service.name) in found
    wanted = configurations(job_webhooks(settings), service, owner=operator)
    for (resource, name), body in wanted.items():
        assert found[resource.kind, name] == body
    assert _named(found["ClusterRole", f"fournos-job-webhooks-{jobs}"]) == [name for _, name in wanted]


@pytest.mark.usefixtures("kubeconfig")
def test_the_webhook_of_an_operator_in_one_namespace(tmp_path: Path) -> None:
    """docs/install.md changes the files for another namespace."""
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    (command,) = re.findall(
        r"^(kubectl kustomize deploy/job-webhooks .*?) \| kubectl apply", page, re.M | re.S
    )
    (tmp_path / "kubectl").write_text(f'#!/bin/sh\nexec {" ".join(kubectl_program())} "$@"\n')
    (tmp_path / "kubectl").chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "FOURNOS_NAMESPACE": "ovens"}
    text = subprocess.run(
        ["bash", "-c", command],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=400,
    ).stdout
    found = {(item["kind"], item["metadata"]["name"]): item for item in manifests.parse(text)}
    wanted = configurations(
        job_webhooks(JobSettings(namespace="ovens")), Service("ovens", "fournos-webhooks"), owner="ovens"
    )
    for (resource, name), body in wanted.items():
        assert found.pop((resource.kind, name)) == body
    for item in found.values():
        assert item["metadata"].get("namespace", "ovens") == "ovens"
        assert {subject["namespace"] for subject in item.get("subjects", ())} <= {"ovens"}
    assert _named(found["ClusterRole", "fournos-job-webhooks-ovens"]) == [name for _, name in wanted]


def _named(role: Obj) -> list[str]:
    """The objects that the rules of a role name, in their order."""
    return [name for rule in role["rules"] for name in rule.get("resourceNames", ())]


@pytest.mark.usefixtures("kubeconfig")
def test_the_upgrade_takes_the_rights_of_an_operator_beside_its_jobs() -> None:
    """All bindings of the published commands get the new account: the earlier operator can renew no Lease."""
    _, jobs, secrets = SHIPPED
    after = {(item["kind"], item["metadata"]["name"]): item for item in resources.kustomized(*SHIPPED)}
    before = [item for item in resources.rbac(jobs, secrets) if item["kind"].endswith("Binding")]
    of_operator = [
        item for item in before if any(one["name"] == "fournos" for one in item.get("subjects", ()))
    ]
    assert len(of_operator) == 3
    for item in of_operator:
        replaced = after[item["kind"], item["metadata"]["name"]]
        assert {one["namespace"] for one in replaced["subjects"]} == {"fournos-operator"}
        assert replaced["metadata"].get("namespace", jobs) == item["metadata"].get("namespace", jobs)


@pytest.mark.usefixtures("kubeconfig")
def test_the_appwrapper_operator_lands_in_its_namespace() -> None:
    cluster_wide = {"Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding"}
    for folder in ("deploy/appwrapper", "deploy/appwrapper-own-workloads"):
        found = {(item["kind"], item["metadata"]["name"]): item for item in rendered(folder)}
        for (kind, _), item in found.items():
            free = kind in cluster_wide or kind.endswith("WebhookConfiguration")
            assert item["metadata"].get("namespace") == (None if free else "appwrapper-system")
            reference = item.get("roleRef")
            assert not reference or (reference["kind"], reference["name"]) in found
            for subject in item.get("subjects", ()):
                kueue = (subject["name"], subject["namespace"]) == (
                    "kueue-controller-manager",
                    "kueue-system",
                )
                assert kueue or (subject["kind"], subject["name"]) in found
        (container,) = found["Deployment", "appwrapper-controller-manager"]["spec"]["template"]["spec"][
            "containers"
        ]
        own = {"name": "FOURNOS_APPWRAPPER_WORKLOADS", "value": "own"} in container["env"]
        assert own == folder.endswith("own-workloads")


def accepted(kubeconfig: Path, deployment: dict[str, Any]) -> None:
    deployment["metadata"]["namespace"] = "default"
    done = subprocess.run(
        [*kubectl_program(), "create", "--dry-run=server", "--validate=strict", "-f", "-"],
        input=yaml.safe_dump(deployment),
        env={**os.environ, "KUBECONFIG": str(kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr


def test_the_history_on_a_volume_and_on_postgresql(kubeconfig: Path) -> None:
    """Each Deployment is one that an API server takes, without a field that it would drop."""
    found = {}
    for folder in ("deploy/history", "deploy/history-postgres"):
        documents = rendered(folder)
        (deployment,) = (one for one in documents if one["kind"] == "Deployment")
        accepted(kubeconfig, deployment)
        pod = deployment["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        mounts = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
        assert set(mounts.values()) == {one["name"] for one in pod["volumes"]}
        variables = {one["name"]: one for one in container["env"]}
        claims = [one for one in documents if one["kind"] == "PersistentVolumeClaim"]
        budgets = [one for one in documents if one["kind"] == "PodDisruptionBudget"]
        assert len(budgets) == deployment["spec"]["replicas"] - 1, "a budget of one replica would stop drains"
        assert deployment["spec"]["strategy"]["type"] == ("RollingUpdate" if budgets else "Recreate")
        found[folder] = (deployment["spec"]["replicas"], len(claims), "/var/lib/fournos" in mounts, variables)
    sqlite, postgresql = found.values()
    assert sqlite[:3] == (1, 1, True)
    assert postgresql[:3] == (2, 0, False)
    assert "FOURNOS_HISTORY_URL" not in sqlite[3]
    secret = postgresql[3]["FOURNOS_HISTORY_URL"]["valueFrom"]["secretKeyRef"]
    assert secret == {"name": "fournos-history-database", "key": "url"}
    assert postgresql[3]["FOURNOS_HISTORY_ARTIFACT_MB"]["value"] == "0"


def test_two_replicas_of_the_history_share_a_bucket(kubeconfig: Path) -> None:
    without, found = rendered("deploy/history-postgres"), rendered("deploy/history-postgres-s3")
    names = [[(one["kind"], one["metadata"]["name"]) for one in documents] for documents in (without, found)]
    assert names[0] == names[1], "credentials are in a Secret that a person makes"
    deployment = deployment_of(found)
    accepted(kubeconfig, deployment)
    assert deployment["spec"]["replicas"] == 2
    # Logs and artifacts are on: the settings have their defaults.
    off = {"FOURNOS_HISTORY_LOG_MB", "FOURNOS_HISTORY_ARTIFACT_MB"}
    assert off <= environment(without) and not off & environment(found)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    secrets = {
        one["name"]: (secret["key"], secret.get("optional", False))
        for one in container["env"]
        if (secret := one.get("valueFrom", {}).get("secretKeyRef", {})).get("name") == "fournos-history-s3"
    }
    assert secrets == {
        "FOURNOS_HISTORY_BLOBS": ("url", False),
        "AWS_ENDPOINT_URL": ("endpoint", True),
        "AWS_REGION": ("region", True),
        "AWS_ACCESS_KEY_ID": ("access-key-id", True),
        "AWS_SECRET_ACCESS_KEY": ("secret-access-key", True),
    }
    fields = {f"FOURNOS_HISTORY_{name}".upper() for name in HistorySettings.model_fields}
    assert {name for name in secrets if name.startswith("FOURNOS_")} <= fields


@pytest.mark.usefixtures("kubeconfig")
@pytest.mark.parametrize(
    ("folder", "more"),
    [
        ("deploy/web", set()),
        ("deploy/history", set()),
        ("deploy/history-postgres", {5432}),
        ("deploy/history-postgres-s3", {5432, 9000}),
    ],
)
def test_egress_of_page_and_history_has_only_the_ports_that_they_need(folder: str, more: set[int]) -> None:
    """Names, and the API server or S3 by https; the database and another port of S3."""
    objects = rendered(folder)
    labels = deployment_of(objects)["spec"]["template"]["metadata"]["labels"]
    policies = [one["spec"] for one in objects if one["kind"] == "NetworkPolicy"]
    selected = [one for one in policies if one["podSelector"]["matchLabels"].items() <= labels.items()]
    (policy,) = (one for one in selected if "Egress" in one["policyTypes"])
    assert "Ingress" in policy["policyTypes"] and policy["ingress"]
    assert {port["port"] for way in policy["egress"] for port in way["ports"]} == {53, 5353, 443, 6443} | more


@pytest.mark.usefixtures("kubeconfig")
@pytest.mark.parametrize(
    ("folder", "name"),
    [("history", "history"), ("history-postgres", "history"), ("web", "web")],
)
def test_the_documented_patch_opens_another_port(folder: str, name: str, tmp_path: Path) -> None:
    text = (ROOT / "docs" / "install.md").read_text().partition("\n## Other ports\n")[2]
    shown = text.partition("```yaml\n")[2].partition("```")[0]
    for tree in ("deploy", "manifests"):
        shutil.copytree(ROOT / tree, tmp_path / tree)
    mine = tmp_path / "mine"
    mine.mkdir()
    shown = shown.replace("../deploy/history", f"../deploy/{folder}").replace(
        "fournos-history", f"fournos-{name}"
    )
    (mine / "kustomization.yaml").write_text(shown)
    before, after = (
        next(one["spec"] for one in rendered(place) if named(one) == ("NetworkPolicy", f"fournos-{name}"))
        for place in (f"deploy/{folder}", str(mine))
    )
    added = {"ports": [{"port": 8443, "protocol": "TCP"}]}
    assert after == {**before, "egress": [*before["egress"], added]}


def named(item: dict[str, Any]) -> tuple[str, str]:
    return item["kind"], item["metadata"]["name"]


def test_the_page_with_and_without_its_overlay(kubeconfig: Path) -> None:
    added: dict[str, tuple[set[str], set[str]]] = {
        "deploy/web": (set(), set()),
        "deploy/web-impersonation": (
            {"ClusterRole", "ClusterRoleBinding"},
            {"FOURNOS_WEB_PROXY_SECRET_FILE"},
        ),
    }
    base = rendered("deploy/web")
    kinds = {(item["kind"], item["metadata"]["name"]) for item in base}
    for folder, (more, variables) in added.items():
        found = rendered(folder)
        new = {item["kind"] for item in found if (item["kind"], item["metadata"]["name"]) not in kinds}
        assert new == more, folder
        for item in found:
            free = item["kind"] in ("Namespace", "ClusterRole", "ClusterRoleBinding")
            assert item["metadata"].get("namespace") == (None if free else "fournos-web"), item["metadata"]
        assert environment(found) - environment(base) >= variables, folder
        accepted(kubeconfig, deployment_of(found))


def deployment_of(found: list[dict[str, Any]]) -> dict[str, Any]:
    (deployment,) = (item for item in found if item["kind"] == "Deployment")
    return deployment


def environment(found: list[dict[str, Any]]) -> set[str]:
    (container,) = deployment_of(found)["spec"]["template"]["spec"]["containers"]
    return {variable["name"] for variable in container["env"]}


@pytest.mark.usefixtures("kubeconfig")
def test_argo_deploys_everything_with_the_history_in_use() -> None:
    objects = rendered("argocd/fournos")
    keys = [(item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]) for item in objects]
    assert len(set(keys)) == len(keys)
    namespaces = {name for kind, _, name in keys if kind == "Namespace"}
    others = {namespace for _, namespace, _ in keys if namespace} - namespaces
    assert others == {"hearth", "kube-system"}  # of Hearth's Application, and of Kubernetes
    assert {name for kind, _, name in keys if kind == "Deployment"} == {
        "fournos",
        "appwrapper-controller-manager",
        "operator-controller-manager",
        "fournos-frameworks",
        "fournos-history",
        "fournos-web",
    }
    enabled = [
        item["metadata"]["name"]
        for item in objects
        if item["kind"] == "Deployment"
        for container in item["spec"]["template"]["spec"]["containers"]
        if {"name": "FOURNOS_HISTORY_ENABLED", "value": "true"} in container["env"]
    ]
    assert enabled == ["fournos"]
    hearth = yaml.safe_load((ROOT / "argocd" / "app-hearth.yaml").read_text())
    for path in hearth["spec"]["source"]["directory"]["include"].strip("{}").split(","):
        for one in manifests.parse((ROOT / "deploy" / path).read_text()):
            assert (one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) not in keys


@pytest.mark.usefixtures("kubeconfig")
def test_what_operators_write_is_neither_compared_nor_put_back_by_argo() -> None:
    found = rendered("argocd/fournos")
    spec = yaml.safe_load((ROOT / "argocd" / "app-fournos.yaml").read_text())["spec"]
    assert "RespectIgnoreDifferences=true" in spec["syncPolicy"]["syncOptions"]
    ignored = {entry["kind"]: entry for entry in spec["ignoreDifferences"]}
    assert len(ignored) == len(spec["ignoreDifferences"]) and set(ignored) <= {one["kind"] for one in found}
    for one in found:
        if one["kind"] == "Secret":
            assert not {"data", "stringData"} & set(one), one["metadata"]["name"]
            assert ignored["Secret"]["jsonPointers"] == ["/data"]
        elif one["kind"].endswith("WebhookConfiguration"):
            expressions = ignored[one["kind"]]["jqPathExpressions"]
            assert expressions == [".webhooks[]?.clientConfig.caBundle"]
        elif one["kind"] == "APIService":
            assert ignored["APIService"]["jsonPointers"] == ["/spec/caBundle"]
        elif "aggregationRule" in one:
            assert "rules" in ignored["ClusterRole"]["jqPathExpressions"][0]
