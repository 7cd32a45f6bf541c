"""deploy/frameworks: what its files promise to each other and to the operator's tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from devcluster import manifests
from fournos.app.parts import PARTS
from fournos.engine.runtime.metrics_server.settings import MetricsSettings
from fournos.engine.runtime.webhook.settings import WebhookSettings
from fournos.systems.frameworks.admission import webhooks
from fournos.systems.frameworks.kinds import BUILT_IN, load
from fournos.systems.frameworks.settings import FrameworkSettings

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "deploy" / "frameworks"


def objects() -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (document["kind"], document["metadata"]["name"]): document
        for path in sorted(FOLDER.glob("*.yaml"))
        for document in manifests.parse(path.read_text())
        if document and document["kind"] != "Kustomization"
    }


def test_every_file_is_in_its_kustomization() -> None:
    (listed,) = manifests.parse((FOLDER / "kustomization.yaml").read_text())
    files = {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    assert files == set(listed["resources"])


def test_every_built_in_kind_may_be_queued() -> None:
    granted = {
        (group, plural): set(rule["verbs"])
        for (kind, _), role in objects().items()
        if kind == "ClusterRole" and "fournos.dev/queued-kind" in (role["metadata"].get("labels") or {})
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }
    for framework in BUILT_IN:
        resource = framework.resource
        assert granted[resource.group, resource.plural] == {"get", "list", "watch", "create", "patch"}


def test_the_table_of_the_manifest_and_the_sample_can_be_used(tmp_path: Path) -> None:
    table = tmp_path / "frameworks.yaml"
    table.write_text(objects()["ConfigMap", "fournos-frameworks"]["data"]["frameworks.yaml"])
    assert load(str(table)) == BUILT_IN
    assert len(load(str(ROOT / "samples" / "frameworks.yaml"))) == 3


def test_the_webhooks_are_those_that_are_served() -> None:
    found = objects()
    for webhook in webhooks(BUILT_IN):
        (entry,) = found["MutatingWebhookConfiguration", webhook.configuration]["webhooks"]
        assert entry["clientConfig"]["service"]["path"] == webhook.path
        assert "caBundle" not in entry["clientConfig"]
        assert webhook.configuration in str(found["ClusterRole", "fournos-frameworks"])


def test_the_deployment_is_reached_configured_and_hardened() -> None:
    found = objects()
    pod = found["Deployment", "fournos-frameworks"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert container["args"] == ["run", "--enable", "frameworks"]
    environment = {entry["name"]: entry.get("value") for entry in container["env"]}
    variables = {
        f"{settings.model_config.get('env_prefix')}{name}".upper()
        for settings in (FrameworkSettings, MetricsSettings, WebhookSettings)
        for name in settings.model_fields
    }
    assert set(environment) <= variables
    directory, _, file = str(environment["FOURNOS_FRAMEWORKS_FILE"]).rpartition("/")
    assert directory in [mount["mountPath"] for mount in container["volumeMounts"]]
    assert file in found["ConfigMap", "fournos-frameworks"]["data"]
    service = found["Service", str(environment["FOURNOS_WEBHOOK_SERVICE"])]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports[service["spec"]["ports"][0]["targetPort"]] == WebhookSettings().port
    role = str(found["Role", "fournos-frameworks"])
    secret = WebhookSettings().secret
    assert ("Secret", secret) in found and secret in role
    assert f"'{PARTS['frameworks'].lease}'" in role
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
