"""deploy/history: what its files promise to each other and to the recorder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from devcluster import manifests
from fournos.app.parts import PARTS
from fournos.engine.kube.resource import Resource
from fournos.engine.runtime.metrics_server.settings import MetricsSettings
from fournos.history.recorder.observe import watches
from fournos.history.settings import HistorySettings

FOLDER = Path(__file__).parents[3] / "deploy" / "history"


def objects() -> dict[tuple[str, str], dict[str, Any]]:
    found = {}
    for path in sorted(FOLDER.glob("*.yaml")):
        for document in manifests.parse(path.read_text()):
            if document and document["kind"] != "Kustomization":
                found[document["kind"], document["metadata"]["name"]] = document
    return found


def test_the_component_of_a_bucket_lists_its_files() -> None:
    folder = FOLDER.with_name("history-s3")
    (listed,) = manifests.parse((folder / "kustomization.yaml").read_text())
    assert listed["kind"] == "Component"
    assert {path.name for path in folder.glob("*.yaml")} - {"kustomization.yaml"} == {
        patch["path"] for patch in listed["patches"] if "path" in patch
    }


def granted() -> dict[tuple[str, str], set[str]]:
    found: dict[tuple[str, str], set[str]] = {}
    for rule in objects()["ClusterRole", "fournos-history-recorder"]["rules"]:
        for group in rule["apiGroups"]:
            for plural in rule["resources"]:
                found.setdefault((group, plural), set()).update(rule["verbs"])
    return found


def test_every_file_is_in_its_kustomization() -> None:
    (listed,) = manifests.parse((FOLDER / "kustomization.yaml").read_text())
    assert {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"} == set(listed["resources"])


def test_what_is_watched_may_be_watched_and_one_field_be_written() -> None:
    rights, settings = granted(), HistorySettings()
    for recorded in settings.resources():
        for watch in watches(settings, recorded):
            resource: Resource = watch.resource
            assert rights[resource.group, resource.plural] >= {"list", "watch"}, str(resource)
    assert rights.pop(("", "pods/log")) == {"get"}
    writes = {right: verbs for right, verbs in rights.items() if verbs - {"list", "watch"}}
    assert writes == {
        ("fournos.dev", "fournosjobs/status"): {"patch"},
        ("history.fournos.dev", "runs"): {"create"},
        ("events.k8s.io", "events"): {"create", "list", "watch"},
        ("authentication.k8s.io", "tokenreviews"): {"create"},
        ("authorization.k8s.io", "subjectaccessreviews"): {"create"},
    }


def test_the_network_reaches_the_ports_of_the_pod_alone() -> None:
    found = objects()
    pod = found["Deployment", "fournos-history"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    policy = found["NetworkPolicy", "fournos-history"]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    (rule,) = policy["ingress"]
    assert {one["port"] for one in rule["ports"]} == {one["name"] for one in container["ports"]}


def test_the_deployment_is_configured_hardened_and_one() -> None:
    found = objects()
    deployment = found["Deployment", "fournos-history"]
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert container["args"] == ["run", "--enable", "history"]
    assert (deployment["spec"]["replicas"], deployment["spec"]["strategy"]) == (1, {"type": "Recreate"})
    variables = {
        f"{settings.model_config.get('env_prefix')}{name}".upper()
        for settings in (HistorySettings, MetricsSettings)
        for name in settings.model_fields
    }
    assert {entry["name"] for entry in container["env"]} <= variables
    assert PARTS["history"].lease in str(found["Role", "fournos-history"])
    assert HistorySettings().namespace == found["Namespace", "fournos-history"]["metadata"]["name"]
    volumes = {mount["mountPath"] for mount in container["volumeMounts"]}
    (directory,) = (e["value"] for e in container["env"] if e["name"] == "FOURNOS_HISTORY_DIRECTORY")
    assert directory == HistorySettings().directory
    assert directory in volumes
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_api_has_an_address_while_its_store_does_not_answer() -> None:
    """Its pods are not ready then, and no deletion of a namespace ends while an APIService is unavailable."""
    service = objects()["APIService", "v1.history.fournos.dev"]["spec"]["service"]
    assert objects()["Service", service["name"]]["spec"]["publishNotReadyAddresses"] is True
    (budget,) = manifests.parse((FOLDER.with_name("history-postgres") / "disruption.yaml").read_text())
    assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow", "nodes are drained meanwhile"
