"""deploy/appwrapper: what its files promise to each other and to the operator's tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from devcluster import manifests
from fournos.api.kinds import FOURNOS_JOB, MINICLUSTER, PIPELINE_RUN
from fournos.app.parts import PARTS
from fournos.engine.runtime.metrics_server.settings import MetricsSettings
from fournos.engine.runtime.webhook.settings import WebhookSettings
from fournos.systems.appwrappers.kinds import WRAPPED
from fournos.systems.appwrappers.settings import AppWrapperSettings
from fournos.systems.appwrappers.webhooks import appwrapper_webhooks

ROOT = Path(__file__).parents[3]
NAMESPACE = "appwrapper-system"
VERBS = {"get", "list", "watch", "create", "delete"}


def objects(folder: str = "appwrapper") -> dict[tuple[str, str], dict[str, Any]]:
    found = {}
    for path in sorted((ROOT / "deploy" / folder).glob("*.yaml")):
        for document in manifests.parse(path.read_text()):
            if document and document["kind"] != "Kustomization":
                found[document["kind"], document["metadata"]["name"]] = document
    return found


def test_every_file_is_in_its_kustomization() -> None:
    for folder in ("appwrapper", "appwrapper-own-workloads", "kueue"):
        (listed,) = manifests.parse((ROOT / "deploy" / folder / "kustomization.yaml").read_text())
        files = {path.name for path in (ROOT / "deploy" / folder).glob("*.yaml")} - {"kustomization.yaml"}
        assert files == {name for name in listed["resources"] if not name.startswith("..")}


def test_every_wrapped_kind_may_be_made_watched_and_deleted() -> None:
    rules = objects()["ClusterRole", "appwrapper-wrapped-kinds"]["rules"]
    granted = {
        (group, plural): set(rule["verbs"])
        for rule in rules
        for group in rule["apiGroups"]
        for plural in rule["resources"]
    }
    for kind in WRAPPED:
        assert granted[kind.resource.group, kind.resource.plural] == VERBS, str(kind.resource)


def test_kueue_may_look_at_the_owner_of_what_our_kinds_make() -> None:
    """Kueue may read every wrapped kind that it has no integration for, and nothing else."""
    (rules,) = [one["rules"] for (kind, _), one in objects("kueue").items() if kind == "ClusterRole"]
    granted = {(one["apiGroups"][0], plural): one["verbs"] for one in rules for plural in one["resources"]}
    ours = {(one.group, one.plural) for one in (FOURNOS_JOB, MINICLUSTER, PIPELINE_RUN)}
    assert set(granted) == ours | {("tekton.dev", "taskruns")}
    assert all(verbs == ["get", "list", "watch"] for verbs in granted.values())
    (listed,) = manifests.parse((ROOT / "deploy/appwrapper-own-workloads/kustomization.yaml").read_text())
    assert "../kueue" in listed["resources"]


def test_the_webhooks_are_those_that_are_served() -> None:
    found = objects()
    webhooks = appwrapper_webhooks(AppWrapperSettings())
    for webhook in webhooks:
        kind = f"{webhook.kind.capitalize()}WebhookConfiguration"
        (entry,) = found[kind, webhook.configuration]["webhooks"]
        assert entry["clientConfig"]["service"]["path"] == webhook.path
        assert "caBundle" not in entry["clientConfig"]
    named = [
        name
        for rule in found["ClusterRole", "appwrapper-manager-role"]["rules"]
        for name in rule.get("resourceNames", ())
    ]
    assert sorted(named) == sorted(webhook.configuration for webhook in webhooks)


def test_the_deployment_is_reached_configured_and_hardened() -> None:
    found = objects()
    deployment = found["Deployment", "appwrapper-controller-manager"]
    pod = deployment["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    assert container["args"] == ["run", "--enable", "appwrappers"]
    environment = {entry["name"]: entry.get("value") for entry in container["env"]}
    variables = {
        f"{settings.model_config.get('env_prefix')}{name}".upper()
        for settings in (AppWrapperSettings, WebhookSettings, MetricsSettings)
        for name in settings.model_fields
    }
    assert set(environment) <= variables
    service = found["Service", str(environment["FOURNOS_WEBHOOK_SERVICE"])]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports[service["spec"]["ports"][0]["targetPort"]] == WebhookSettings().port
    secret = str(environment["FOURNOS_WEBHOOK_SECRET"])
    role = found["Role", "appwrapper-leader-election-role"]
    assert ("Secret", secret) in found and secret in str(role)
    assert PARTS["appwrappers"].lease in str(role)
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_the_operator_s_own_roles_are_aggregated_to_no_other() -> None:
    for (kind, name), role in objects().items():
        if kind == "ClusterRole":
            labels = set(role["metadata"].get("labels") or {})
            manager = name in ("appwrapper-manager-role", "appwrapper-wrapped-role")
            assert not (manager and labels), name


def test_names_are_those_of_the_published_operator() -> None:
    assert {
        ("Namespace", NAMESPACE),
        ("Deployment", "appwrapper-controller-manager"),
        ("ServiceAccount", "appwrapper-controller-manager"),
        ("Service", "appwrapper-webhook-service"),
        ("Service", "appwrapper-controller-manager-metrics-service"),
        ("Secret", "appwrapper-webhook-server-cert"),
        ("ClusterRole", "appwrapper-manager-role"),
        ("ClusterRole", "appwrapper-metrics-auth-role"),
        ("ClusterRole", "appwrapper-metrics-reader"),
        ("MutatingWebhookConfiguration", "appwrapper-mutating-webhook-configuration"),
        ("ValidatingWebhookConfiguration", "appwrapper-validating-webhook-configuration"),
    } <= set(objects())
