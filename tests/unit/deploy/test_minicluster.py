"""deploy/minicluster: what its files promise to each other and to the operator's tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from devcluster import manifests
from fournos.app.parts import PARTS
from fournos.engine.kube.resource import Resource
from fournos.engine.runtime.metrics_server.settings import MetricsSettings
from fournos.systems.miniclusters.observe import watches
from fournos.systems.miniclusters.settings import MiniClusterSettings

FOLDER = Path(__file__).parents[3] / "deploy" / "minicluster"


def objects() -> dict[tuple[str, str], dict[str, Any]]:
    found = {}
    for path in sorted(FOLDER.glob("*.yaml")):
        for document in manifests.parse(path.read_text()):
            if document and document["kind"] != "Kustomization":
                found[document["kind"], document["metadata"]["name"]] = document
    return found


def granted() -> dict[tuple[str, str], set[str]]:
    found: dict[tuple[str, str], set[str]] = {}
    for rule in objects()["ClusterRole", "minicluster-manager-role"]["rules"]:
        for group in rule["apiGroups"]:
            for plural in rule["resources"]:
                found.setdefault((group, plural), set()).update(rule["verbs"])
    return found


def test_every_file_is_in_its_kustomization() -> None:
    (listed,) = manifests.parse((FOLDER / "kustomization.yaml").read_text())
    assert {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"} == set(listed["resources"])


def test_what_is_watched_may_be_watched_and_secrets_are_never_changed() -> None:
    rights = granted()
    for watch in watches():
        resource: Resource = watch.resource
        assert {"list", "watch"} <= rights[resource.group, resource.plural], str(resource)
    assert rights["", "secrets"] == {"get", "list", "watch", "create"}
    assert all("*" not in verbs for verbs in rights.values())


def test_the_deployment_is_configured_and_hardened() -> None:
    found = objects()
    pod = found["Deployment", "operator-controller-manager"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert container["args"] == ["run", "--enable", "miniclusters"]
    variables = {
        f"{settings.model_config.get('env_prefix')}{name}".upper()
        for settings in (MiniClusterSettings, MetricsSettings)
        for name in settings.model_fields
    }
    assert {entry["name"] for entry in container["env"]} <= variables
    assert PARTS["miniclusters"].lease in str(found["Role", "minicluster-leader-election-role"])
    assert MiniClusterSettings().namespace == found["Namespace", "operator-system"]["metadata"]["name"]
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_kueue_may_look_at_the_owner_of_a_job() -> None:
    role = objects()["ClusterRole", "kueue-miniclusters"]
    assert {"get", "list", "watch"} <= set(role["rules"][0]["verbs"])
