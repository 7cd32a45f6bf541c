"""deploy/appwrapper: what its files promise to each other and to the operator's tables."""

from __future__ import annotations

from fournos.api.kinds import FOURNOS_JOB, MINICLUSTER, PIPELINE_RUN
from fournos.app.parts import PARTS
from fournos.engine.runtime.process import ProcessSettings
from fournos.engine.runtime.webhook.registration import WebhookSettings
from fournos.systems.appwrappers.kinds import WRAPPED
from fournos.systems.appwrappers.part import appwrapper_webhooks
from fournos.systems.appwrappers.settings import AppWrapperSettings
from tests.unit.deploy.folder import container_of, files_of, granted, kustomization_of, objects_of

NAMESPACE = "appwrapper-system"
VERBS = {"get", "list", "watch", "create", "delete"}


def test_every_file_is_in_its_kustomization() -> None:
    for folder in ("appwrapper", "appwrapper-own-workloads", "kueue"):
        listed = kustomization_of(folder)["resources"]
        assert files_of(folder) == {name for name in listed if not name.startswith("..")}


def test_every_wrapped_kind_may_be_made_watched_and_deleted() -> None:
    verbs = granted(objects_of("appwrapper")["ClusterRole", "appwrapper-wrapped-kinds"])
    for kind in WRAPPED:
        assert verbs[kind.resource.group, kind.resource.plural] == VERBS, str(kind.resource)


def test_kueue_may_look_at_the_owner_of_what_our_kinds_make() -> None:
    """Kueue may read every wrapped kind that it has no integration for, and nothing else."""
    (role,) = [role for (kind, _), role in objects_of("kueue").items() if kind == "ClusterRole"]
    verbs = granted(role)
    ours = {(one.group, one.plural) for one in (FOURNOS_JOB, MINICLUSTER, PIPELINE_RUN)}
    assert set(verbs) == ours | {("tekton.dev", "taskruns")}
    assert all(each == {"get", "list", "watch"} for each in verbs.values())
    assert "../kueue" in kustomization_of("appwrapper-own-workloads")["resources"]


def test_the_webhooks_are_those_that_are_served() -> None:
    found = objects_of("appwrapper")
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


def test_the_deployment_is_reached_and_configured() -> None:
    found = objects_of("appwrapper")
    name, classes = "appwrapper-controller-manager", (AppWrapperSettings, WebhookSettings, ProcessSettings)
    container, pod = (
        container_of(found, name, "appwrappers", *classes),
        found["Deployment", name]["spec"]["template"],
    )
    environment = {entry["name"]: entry.get("value") for entry in container["env"]}
    service = found["Service", str(environment["FOURNOS_WEBHOOK_SERVICE"])]
    assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports[service["spec"]["ports"][0]["targetPort"]] == WebhookSettings().port
    secret = str(environment["FOURNOS_WEBHOOK_SECRET"])
    role = found["Role", "appwrapper-leader-election-role"]
    assert ("Secret", secret) in found and secret in str(role)
    assert PARTS["appwrappers"].lease in str(role)
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_the_operator_s_own_roles_are_aggregated_to_no_other() -> None:
    for (kind, name), role in objects_of("appwrapper").items():
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
        ("MutatingWebhookConfiguration", "appwrapper-mutating-webhook-configuration"),
        ("ValidatingWebhookConfiguration", "appwrapper-validating-webhook-configuration"),
    } <= set(objects_of("appwrapper"))
