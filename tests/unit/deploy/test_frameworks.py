"""deploy/frameworks: what its files promise to each other and to the operator's tables."""

from __future__ import annotations

from pathlib import Path

from fournos.app.parts import PARTS
from fournos.engine.runtime.process import ProcessSettings
from fournos.engine.runtime.webhook.registration import WebhookSettings
from fournos.systems.frameworks.kinds import BUILT_IN, load
from fournos.systems.frameworks.rules import webhooks
from fournos.systems.frameworks.settings import FrameworkSettings
from tests.unit.deploy.folder import container_of, files_of, granted, kustomization_of, objects_of

ROOT = Path(__file__).parents[3]
FOLDER = "frameworks"


def test_every_file_is_in_its_kustomization() -> None:
    assert files_of(FOLDER) == set(kustomization_of(FOLDER)["resources"])


def test_every_built_in_kind_may_be_queued() -> None:
    roles = [
        role
        for (kind, _), role in objects_of(FOLDER).items()
        if kind == "ClusterRole" and "fournos.dev/queued-kind" in (role["metadata"].get("labels") or {})
    ]
    verbs = granted(*roles)
    for framework in BUILT_IN:
        resource = framework.resource
        assert verbs[resource.group, resource.plural] == {"get", "list", "watch", "patch"}


def test_the_table_of_the_manifest_and_the_sample_can_be_used(tmp_path: Path) -> None:
    table = tmp_path / "frameworks.yaml"
    table.write_text(objects_of(FOLDER)["ConfigMap", "fournos-frameworks"]["data"]["frameworks.yaml"])
    assert load(str(table)) == BUILT_IN
    assert len(load(str(ROOT / "samples" / "frameworks.yaml"))) == 3


def test_the_webhooks_are_those_that_are_served() -> None:
    found = objects_of(FOLDER)
    for webhook in webhooks(BUILT_IN):
        (entry,) = found["MutatingWebhookConfiguration", webhook.configuration]["webhooks"]
        assert entry["clientConfig"]["service"]["path"] == webhook.path
        assert "caBundle" not in entry["clientConfig"]
        assert webhook.configuration in str(found["ClusterRole", "fournos-frameworks"])


def test_the_deployment_is_reached_and_configured() -> None:
    found = objects_of(FOLDER)
    name, classes = "fournos-frameworks", (FrameworkSettings, WebhookSettings, ProcessSettings)
    container, pod = (
        container_of(found, name, "frameworks", *classes),
        found["Deployment", name]["spec"]["template"],
    )
    environment = {entry["name"]: entry.get("value") for entry in container["env"]}
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
