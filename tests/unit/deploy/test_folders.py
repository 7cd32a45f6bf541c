"""The folders of `deploy/`: what their files promise to each other and to the tables of their systems."""

from __future__ import annotations

from pathlib import Path

import pytest

from fournos.api.kinds import FOURNOS_JOB, MINICLUSTER, PIPELINE_RUN
from fournos.history.settings import HistorySettings
from fournos.systems.appwrappers.kinds import WRAPPED
from fournos.systems.frameworks.kinds import BUILT_IN, load
from fournos.web.serving import CLOSING
from fournos.web.settings import WebSettings
from tests.unit.deploy.shipped import ROOT, documents, granted, objects_of, shipped, variables

FOLDERS = (
    *("minicluster", "frameworks", "history", "history-s3", "web", "web-impersonation"),
    *("appwrapper", "appwrapper-own-workloads", "kueue"),
)


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_file_is_in_its_kustomization(folder: str) -> None:
    (listed,) = documents(ROOT / "deploy" / folder / "kustomization.yaml")
    patches = {patch["path"] for patch in listed.get("patches", ()) if "path" in patch}
    named = {*listed.get("resources", ()), *patches}
    files = {path.name for path in (ROOT / "deploy" / folder).glob("*.yaml")} - {"kustomization.yaml"}
    assert files == {name for name in named if not name.startswith("..")}


def test_every_built_in_kind_may_be_queued() -> None:
    roles = [
        role
        for role in shipped("frameworks").of("ClusterRole")
        if "fournos.dev/queued-kind" in (role["metadata"].get("labels") or {})
    ]
    verbs = granted(*roles)
    for framework in BUILT_IN:
        resource = framework.resource
        assert verbs[resource.group, resource.plural] == {"get", "list", "watch", "patch"}


def test_the_table_of_the_manifest_and_the_sample_can_be_used(tmp_path: Path) -> None:
    frameworks = shipped("frameworks")
    tables = frameworks.objects["ConfigMap", "fournos-frameworks"]["data"]
    table = tmp_path / "frameworks.yaml"
    table.write_text(tables["frameworks.yaml"])
    assert load(str(table)) == BUILT_IN
    assert len(load(str(ROOT / "samples" / "frameworks.yaml"))) == 3
    directory, _, file = frameworks.environment["FOURNOS_FRAMEWORKS_FILE"].rpartition("/")
    assert directory in [mount["mountPath"] for mount in frameworks.container["volumeMounts"]]
    assert file in tables


def test_the_operator_of_miniclusters_never_changes_secrets_and_kueue_sees_them() -> None:
    found = objects_of("deploy/minicluster")
    rights = granted(found["ClusterRole", "minicluster-manager-role"])
    assert rights["", "secrets"] == {"get", "list", "watch", "create"}
    kueue = found["ClusterRole", "kueue-miniclusters"]["rules"][0]["verbs"]
    assert {"get", "list", "watch"} <= set(kueue), "Kueue may look at the owner of a job"


# --- AppWrappers -------------------------------------------------------------------------------------


def test_every_wrapped_kind_may_be_made_watched_and_deleted() -> None:
    verbs = granted(objects_of("deploy/appwrapper")["ClusterRole", "appwrapper-wrapped-kinds"])
    for kind in WRAPPED:
        found = verbs[kind.resource.group, kind.resource.plural]
        assert found == {"get", "list", "watch", "create", "delete"}, str(kind.resource)


def test_kueue_may_look_at_the_owner_of_what_our_kinds_make() -> None:
    """Kueue may read every wrapped kind that it has no integration for, and nothing else."""
    (role,) = [role for (kind, _), role in objects_of("deploy/kueue").items() if kind == "ClusterRole"]
    verbs = granted(role)
    ours = {(one.group, one.plural) for one in (FOURNOS_JOB, MINICLUSTER, PIPELINE_RUN)}
    assert set(verbs) == ours | {("tekton.dev", "taskruns")}
    assert all(each == {"get", "list", "watch"} for each in verbs.values())
    (listed,) = documents(ROOT / "deploy" / "appwrapper-own-workloads" / "kustomization.yaml")
    assert "../kueue" in listed["resources"]


def test_the_appwrapper_operator_s_own_roles_are_aggregated_to_no_other() -> None:
    for name in ("appwrapper-manager-role", "appwrapper-wrapped-role"):
        assert not objects_of("deploy/appwrapper")["ClusterRole", name]["metadata"].get("labels"), name


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
    } <= set(objects_of("deploy/appwrapper"))


# --- the history -------------------------------------------------------------------------------------


def test_the_recorder_may_write_one_field_of_a_job_and_read_logs() -> None:
    rights = granted(objects_of("deploy/history")["ClusterRole", "fournos-history-recorder"])
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
    history = shipped("history")
    (policy,) = history.of("NetworkPolicy")
    assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]
    open_ports = [port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]]
    assert sorted(open_ports) == sorted(history.ports)


def test_the_history_is_one_with_its_volume() -> None:
    history, settings = shipped("history"), HistorySettings()
    assert history.deployment["spec"]["strategy"] == {"type": "Recreate"}
    assert ("Namespace", settings.namespace) in history.objects
    assert history.environment["FOURNOS_HISTORY_DIRECTORY"] == settings.directory
    assert settings.directory in {mount["mountPath"] for mount in history.container["volumeMounts"]}
    (component,) = documents(ROOT / "deploy" / "history-s3" / "kustomization.yaml")
    assert component["kind"] == "Component"


def test_the_api_has_an_address_while_its_store_does_not_answer() -> None:
    """Its pods are not ready then, and no deletion of a namespace ends while an APIService is unavailable."""
    found = objects_of("deploy/history")
    service = found["APIService", "v1.history.fournos.dev"]["spec"]["service"]
    assert found["Service", service["name"]]["spec"]["publishNotReadyAddresses"] is True
    (budget,) = documents(ROOT / "deploy" / "history-postgres" / "disruption.yaml")
    assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow", "nodes are drained meanwhile"


# --- the page ----------------------------------------------------------------------------------------


def test_replicas_of_the_page_are_spread_and_go_one_after_the_other() -> None:
    web, settings = shipped("web"), WebSettings()
    assert ("Namespace", settings.namespace) in web.objects
    assert ("Secret", "fournos-web-cert") in web.objects
    assert web.ports["https"] == settings.port
    spec, (budget,) = web.deployment["spec"], web.of("PodDisruptionBudget")
    labels = spec["selector"]["matchLabels"]
    assert budget["spec"]["selector"]["matchLabels"] == labels
    assert budget["spec"]["maxUnavailable"] < spec["replicas"]
    assert spec["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    (spread,) = web.pod["spec"]["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == labels
    assert spread["topologyKey"] == "kubernetes.io/hostname"
    sleep = web.container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert 0 < sleep + CLOSING < web.pod["spec"].get("terminationGracePeriodSeconds", 30)


def test_only_the_overlay_may_impersonate() -> None:
    assert "impersonate" not in (ROOT / "deploy" / "web" / "rbac.yaml").read_text()
    switch = objects_of("deploy/web-impersonation")["Deployment", "fournos-web"]
    (entry,) = switch["spec"]["template"]["spec"]["containers"][0]["env"]
    assert entry["name"] in variables(WebSettings)
    web = shipped("web")
    (mount,) = (one for one in web.container["volumeMounts"] if entry["value"].startswith(one["mountPath"]))
    assert mount["readOnly"] and mount["name"] in {volume["name"] for volume in web.pod["spec"]["volumes"]}
