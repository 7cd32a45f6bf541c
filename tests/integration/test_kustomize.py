"""`kubectl apply -k`: what deploy and deploy/appwrapper render."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster.existing import kubectl_program
from fournos.history.settings import HistorySettings

ROOT = Path(__file__).parents[2]


def rendered(folder: str = "deploy") -> list[dict[str, Any]]:
    command = [*kubectl_program(), "kustomize", str(ROOT / folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=400)
    assert not re.search(r"\$(SECRETS_)?NAMESPACE", done.stdout)
    return [document for document in yaml.safe_load_all(done.stdout) if document]


# The fixture makes sure that there is a kubectl: a cluster brings its own.
@pytest.mark.usefixtures("kubeconfig")
def test_everything_lands_in_its_namespace() -> None:
    found = {(item["kind"], item["metadata"]["name"]): item for item in rendered()}
    policies = {"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
    cluster_wide = {"Namespace", "CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", *policies}
    for (kind, name), item in found.items():
        namespace = item["metadata"].get("namespace")
        if kind in cluster_wide:
            assert namespace is None
        else:
            assert namespace == ("psap-secrets" if name.startswith("fournos-secrets-reader") else "fournos")
        assert {subject["namespace"] for subject in item.get("subjects", ())} <= {"fournos"}
        reference = item.get("roleRef")
        assert not reference or (reference["kind"], reference["name"]) in found
    assert ("Deployment", "fournos") in found
    assert ("CustomResourceDefinition", "fournosjobs.fournos.dev") in found


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
    assert postgresql[3]["FOURNOS_HISTORY_ARTIFACT_FILES"]["value"] == "0"


def test_two_replicas_of_the_history_share_a_bucket(kubeconfig: Path) -> None:
    without, found = rendered("deploy/history-postgres"), rendered("deploy/history-postgres-s3")
    names = [[(one["kind"], one["metadata"]["name"]) for one in documents] for documents in (without, found)]
    assert names[0] == names[1], "credentials are in a Secret that a person makes"
    deployment = deployment_of(found)
    accepted(kubeconfig, deployment)
    assert deployment["spec"]["replicas"] == 2
    # Logs and artifacts are on: the settings have their defaults.
    off = {"FOURNOS_HISTORY_LOG_MB", "FOURNOS_HISTORY_ARTIFACT_FILES"}
    assert off <= environment(without) and not off & environment(found)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    secrets = {
        one["name"]: (secret["key"], secret.get("optional", False))
        for one in container["env"]
        if (secret := one.get("valueFrom", {}).get("secretKeyRef", {})).get("name") == "fournos-history-s3"
    }
    assert secrets == {
        "FOURNOS_HISTORY_BLOBS": ("url", False),
        "FOURNOS_HISTORY_S3_ENDPOINT": ("endpoint", True),
        "FOURNOS_HISTORY_S3_REGION": ("region", True),
        "AWS_ACCESS_KEY_ID": ("access-key-id", True),
        "AWS_SECRET_ACCESS_KEY": ("secret-access-key", True),
    }
    fields = {f"FOURNOS_HISTORY_{name}".upper() for name in HistorySettings.model_fields}
    assert {name for name in secrets if name.startswith("FOURNOS_")} <= fields
    (policy,) = (one["spec"] for one in found if one["kind"] == "NetworkPolicy")
    assert policy["policyTypes"] == ["Ingress", "Egress"] and policy["ingress"]
    (way,) = policy["egress"]
    ports = {one["port"] for one in way["ports"]}
    assert {53, 443, 6443, 5432} <= ports, "names, S3 and the API server, the database"


def test_the_page_with_and_without_its_overlays(kubeconfig: Path) -> None:
    added: dict[str, tuple[set[str], set[str]]] = {
        "deploy/web": (set(), set()),
        "deploy/web-ingress": ({"Ingress"}, {"FOURNOS_WEB_PUBLIC_URL", "FOURNOS_WEB_PROXIES"}),
        "deploy/web-route": ({"Route"}, {"FOURNOS_WEB_PUBLIC_URL", "FOURNOS_WEB_PROXIES"}),
        "deploy/web-impersonation": ({"ClusterRole", "ClusterRoleBinding"}, {"FOURNOS_WEB_IMPERSONATE"}),
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
