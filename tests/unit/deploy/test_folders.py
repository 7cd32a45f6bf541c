"""The folders of `deploy/`, each of a system: what their files promise to each other and to its tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic_settings import BaseSettings

from devcluster import manifests
from fournos.api.kinds import FOURNOS_JOB, MINICLUSTER, PIPELINE_RUN
from fournos.app.parts import PARTS
from fournos.engine.kube.resource import Resource
from fournos.engine.runtime.process import ProcessSettings
from fournos.engine.runtime.webhook.registration import Service, Webhook, WebhookSettings
from fournos.history.recorder.observe import watches as recorded_watches
from fournos.history.settings import HistorySettings
from fournos.systems.appwrappers.kinds import WRAPPED
from fournos.systems.appwrappers.part import appwrapper_webhooks
from fournos.systems.appwrappers.settings import AppWrapperSettings
from fournos.systems.frameworks.kinds import BUILT_IN, load
from fournos.systems.frameworks.rules import webhooks as framework_webhooks
from fournos.systems.frameworks.settings import FrameworkSettings
from fournos.systems.miniclusters.observe import watches as minicluster_watches
from fournos.systems.miniclusters.settings import MiniClusterSettings
from fournos.web.serving import CLOSING
from fournos.web.settings import WebSettings
from tests.unit.deploy.folder import (
    DEPLOY,
    container_of,
    files_of,
    granted,
    kustomization_of,
    objects_of,
    variables,
)

FOLDERS = (
    *("minicluster", "frameworks", "history", "history-s3", "web", "web-impersonation"),
    *("appwrapper", "appwrapper-own-workloads", "kueue"),
)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_file_is_in_its_kustomization(folder: str) -> None:
    listed = kustomization_of(folder)
    patches = {patch["path"] for patch in listed.get("patches", ()) if "path" in patch}
    named = {*listed.get("resources", ()), *patches}
    assert files_of(folder) == {name for name in named if not name.startswith("..")}


# --- systems with webhooks ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Hooked:
    """A folder whose system has webhooks."""

    folder: str
    part: str
    deployment: str
    webhooks: tuple[Webhook, ...]
    role: str
    leader_role: str
    settings: type[BaseSettings]


HOOKED = [
    Hooked(
        folder="frameworks",
        part="frameworks",
        deployment="fournos-frameworks",
        webhooks=tuple(framework_webhooks(BUILT_IN)),
        role="fournos-frameworks",
        leader_role="fournos-frameworks",
        settings=FrameworkSettings,
    ),
    Hooked(
        folder="appwrapper",
        part="appwrappers",
        deployment="appwrapper-controller-manager",
        webhooks=tuple(appwrapper_webhooks(AppWrapperSettings())),
        role="appwrapper-manager-role",
        leader_role="appwrapper-leader-election-role",
        settings=AppWrapperSettings,
    ),
]
hooked = pytest.mark.parametrize("of", HOOKED, ids=lambda of: of.folder)


@hooked
def test_the_webhooks_are_those_that_are_served(of: Hooked) -> None:
    found = objects_of(of.folder)
    for webhook in of.webhooks:
        kind = f"{webhook.kind.capitalize()}WebhookConfiguration"
        (entry,) = found[kind, webhook.configuration]["webhooks"]
        assert entry["clientConfig"]["service"]["path"] == webhook.path
        assert "caBundle" not in entry["clientConfig"]
    rules = found["ClusterRole", of.role]["rules"]
    named = [name for rule in rules for name in rule.get("resourceNames", ())]
    assert sorted(named) == sorted(webhook.configuration for webhook in of.webhooks)


@hooked
def test_the_deployment_is_reached_and_configured(of: Hooked) -> None:
    found = objects_of(of.folder)
    container = container_of(found, of.deployment, of.part, of.settings, WebhookSettings, ProcessSettings)
    environment = {entry["name"]: entry.get("value") for entry in container["env"]}
    target = Service("", str(environment["FOURNOS_WEBHOOK_SERVICE"]))
    service = found["Service", target.name]["spec"]
    labels = found["Deployment", of.deployment]["spec"]["template"]["metadata"]["labels"]
    assert service["selector"].items() <= labels.items()
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports[service["ports"][0]["targetPort"]] == target.port
    role = str(found["Role", of.leader_role])
    assert ("Secret", target.secret) in found and f"'{target.secret}'" in role
    assert f"'{PARTS[of.part].lease}'" in role
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


# --- kinds by configuration --------------------------------------------------------------------------


def test_every_built_in_kind_may_be_queued() -> None:
    roles = [
        role
        for (kind, _), role in objects_of("frameworks").items()
        if kind == "ClusterRole" and "fournos.dev/queued-kind" in (role["metadata"].get("labels") or {})
    ]
    verbs = granted(*roles)
    for framework in BUILT_IN:
        resource = framework.resource
        assert verbs[resource.group, resource.plural] == {"get", "list", "watch", "patch"}


def test_the_table_of_the_manifest_and_the_sample_can_be_used(tmp_path: Path) -> None:
    found = objects_of("frameworks")
    tables = found["ConfigMap", "fournos-frameworks"]["data"]
    table = tmp_path / "frameworks.yaml"
    table.write_text(tables["frameworks.yaml"])
    assert load(str(table)) == BUILT_IN
    assert len(load(str(DEPLOY.parent / "samples" / "frameworks.yaml"))) == 3
    (container,) = found["Deployment", "fournos-frameworks"]["spec"]["template"]["spec"]["containers"]
    (path,) = (e["value"] for e in container["env"] if e["name"] == "FOURNOS_FRAMEWORKS_FILE")
    directory, _, file = path.rpartition("/")
    assert directory in [mount["mountPath"] for mount in container["volumeMounts"]]
    assert file in tables


# --- MiniClusters ------------------------------------------------------------------------------------


def test_what_miniclusters_watch_may_be_watched_and_secrets_are_never_changed() -> None:
    rights = granted(objects_of("minicluster")["ClusterRole", "minicluster-manager-role"])
    for watch in minicluster_watches():
        resource: Resource = watch.resource
        assert {"list", "watch"} <= rights[resource.group, resource.plural], str(resource)
    assert rights["", "secrets"] == {"get", "list", "watch", "create"}
    assert all("*" not in verbs for verbs in rights.values())


def test_the_deployment_of_miniclusters_is_configured() -> None:
    found = objects_of("minicluster")
    classes = MiniClusterSettings, ProcessSettings
    container_of(found, "operator-controller-manager", "miniclusters", *classes)
    assert PARTS["miniclusters"].lease in str(found["Role", "minicluster-leader-election-role"])
    assert ("Namespace", PARTS["miniclusters"].namespace) in found
    kueue = found["ClusterRole", "kueue-miniclusters"]["rules"][0]["verbs"]
    assert {"get", "list", "watch"} <= set(kueue), "Kueue may look at the owner of a job"


# --- AppWrappers -------------------------------------------------------------------------------------


def test_every_wrapped_kind_may_be_made_watched_and_deleted() -> None:
    verbs = granted(objects_of("appwrapper")["ClusterRole", "appwrapper-wrapped-kinds"])
    for kind in WRAPPED:
        found = verbs[kind.resource.group, kind.resource.plural]
        assert found == {"get", "list", "watch", "create", "delete"}, str(kind.resource)


def test_kueue_may_look_at_the_owner_of_what_our_kinds_make() -> None:
    """Kueue may read every wrapped kind that it has no integration for, and nothing else."""
    (role,) = [role for (kind, _), role in objects_of("kueue").items() if kind == "ClusterRole"]
    verbs = granted(role)
    ours = {(one.group, one.plural) for one in (FOURNOS_JOB, MINICLUSTER, PIPELINE_RUN)}
    assert set(verbs) == ours | {("tekton.dev", "taskruns")}
    assert all(each == {"get", "list", "watch"} for each in verbs.values())
    assert "../kueue" in kustomization_of("appwrapper-own-workloads")["resources"]


def test_the_appwrapper_operator_s_own_roles_are_aggregated_to_no_other() -> None:
    for (kind, name), role in objects_of("appwrapper").items():
        if kind == "ClusterRole":
            labels = set(role["metadata"].get("labels") or {})
            manager = name in ("appwrapper-manager-role", "appwrapper-wrapped-role")
            assert not (manager and labels), name


def test_names_are_those_of_the_published_operator() -> None:
    assert {
        ("Namespace", "appwrapper-system"),
        ("Deployment", "appwrapper-controller-manager"),
        ("ServiceAccount", "appwrapper-controller-manager"),
        ("Service", "appwrapper-webhook-service"),
        ("Service", "appwrapper-controller-manager-metrics-service"),
        ("Secret", "appwrapper-webhook-service-cert"),
        ("ClusterRole", "appwrapper-manager-role"),
        ("MutatingWebhookConfiguration", "appwrapper-mutating-webhook-configuration"),
        ("ValidatingWebhookConfiguration", "appwrapper-validating-webhook-configuration"),
    } <= set(objects_of("appwrapper"))


# --- the history -------------------------------------------------------------------------------------


def test_what_the_recorder_watches_may_be_watched_and_one_field_be_written() -> None:
    rights = granted(objects_of("history")["ClusterRole", "fournos-history-recorder"])
    settings = HistorySettings()
    for recorded in settings.resources():
        for watch in recorded_watches(settings, recorded):
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


def test_the_network_reaches_the_ports_of_the_history_alone() -> None:
    found = objects_of("history")
    pod = found["Deployment", "fournos-history"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    policy = found["NetworkPolicy", "fournos-history"]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    open_ports = [port["port"] for rule in policy["ingress"] for port in rule["ports"]]
    assert sorted(open_ports) == sorted(one["name"] for one in container["ports"])


def test_the_history_is_configured_and_one() -> None:
    found = objects_of("history")
    deployment = found["Deployment", "fournos-history"]
    container = container_of(found, "fournos-history", "history", HistorySettings, ProcessSettings)
    assert (deployment["spec"]["replicas"], deployment["spec"]["strategy"]) == (1, {"type": "Recreate"})
    assert PARTS["history"].lease in str(found["Role", "fournos-history"])
    assert HistorySettings().namespace == found["Namespace", "fournos-history"]["metadata"]["name"]
    volumes = {mount["mountPath"] for mount in container["volumeMounts"]}
    (directory,) = (e["value"] for e in container["env"] if e["name"] == "FOURNOS_HISTORY_DIRECTORY")
    assert directory == HistorySettings().directory
    assert directory in volumes
    assert kustomization_of("history-s3")["kind"] == "Component"


def test_the_api_has_an_address_while_its_store_does_not_answer() -> None:
    """Its pods are not ready then, and no deletion of a namespace ends while an APIService is unavailable."""
    service = objects_of("history")["APIService", "v1.history.fournos.dev"]["spec"]["service"]
    assert objects_of("history")["Service", service["name"]]["spec"]["publishNotReadyAddresses"] is True
    (budget,) = manifests.parse((DEPLOY / "history-postgres" / "disruption.yaml").read_text())
    assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow", "nodes are drained meanwhile"


# --- the page ----------------------------------------------------------------------------------------


def environment(folder: str) -> dict[str, Any]:
    (container,) = objects_of(folder)["Deployment", "fournos-web"]["spec"]["template"]["spec"]["containers"]
    return {entry["name"]: entry.get("value") for entry in container["env"]}


def test_the_page_is_configured() -> None:
    found = objects_of("web")
    classes = WebSettings, ProcessSettings
    container = container_of(found, "fournos-web", "web", *classes)
    assert found["Deployment", "fournos-web"]["spec"]["replicas"] > 1
    for folder in ("web", "web-impersonation"):
        if ("Deployment", "fournos-web") in objects_of(folder):
            assert set(environment(folder)) <= variables(*classes)
    settings = WebSettings()
    assert settings.namespace == found["Namespace", "fournos-web"]["metadata"]["name"]
    assert ("Secret", "fournos-web-cert") in found
    assert {port["name"]: port["containerPort"] for port in container["ports"]}["https"] == settings.port


def test_replicas_of_the_page_are_spread_and_go_one_after_the_other() -> None:
    found = objects_of("web")
    deployment, budget = found["Deployment", "fournos-web"], found["PodDisruptionBudget", "fournos-web"]
    pod, labels = deployment["spec"]["template"]["spec"], deployment["spec"]["selector"]["matchLabels"]
    assert budget["spec"]["selector"]["matchLabels"] == labels
    assert budget["spec"]["maxUnavailable"] < deployment["spec"]["replicas"]
    assert deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    (spread,) = pod["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == labels
    assert spread["topologyKey"] == "kubernetes.io/hostname"
    (container,) = pod["containers"]
    sleep = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert 0 < sleep + CLOSING < pod.get("terminationGracePeriodSeconds", 30)


def test_only_the_overlay_may_impersonate() -> None:
    assert "impersonate" not in "".join(path.read_text() for path in (DEPLOY / "web").glob("rbac.yaml"))
    (file,) = environment("web-impersonation").values()
    pod = objects_of("web")["Deployment", "fournos-web"]["spec"]["template"]["spec"]
    (mount,) = (one for one in pod["containers"][0]["volumeMounts"] if file.startswith(one["mountPath"]))
    assert mount["readOnly"] and mount["name"] in {volume["name"] for volume in pod["volumes"]}
