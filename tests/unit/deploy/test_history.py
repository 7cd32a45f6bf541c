"""deploy/history: what its files promise to each other and to the recorder."""

from __future__ import annotations

from devcluster import manifests
from fournos.app.parts import PARTS
from fournos.engine.kube.resource import Resource
from fournos.engine.runtime.process import ProcessSettings
from fournos.history.recorder.observe import watches
from fournos.history.settings import HistorySettings
from tests.unit.deploy.folder import DEPLOY, container_of, files_of, granted, kustomization_of, objects_of

FOLDER = "history"


def test_the_component_of_a_bucket_lists_its_files() -> None:
    listed = kustomization_of("history-s3")
    assert listed["kind"] == "Component"
    assert files_of("history-s3") == {patch["path"] for patch in listed["patches"] if "path" in patch}


def test_every_file_is_in_its_kustomization() -> None:
    assert files_of(FOLDER) == set(kustomization_of(FOLDER)["resources"])


def test_what_is_watched_may_be_watched_and_one_field_be_written() -> None:
    rights, settings = (
        granted(objects_of(FOLDER)["ClusterRole", "fournos-history-recorder"]),
        HistorySettings(),
    )
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
    found = objects_of(FOLDER)
    pod = found["Deployment", "fournos-history"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    policy = found["NetworkPolicy", "fournos-history"]["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    open_ports = [port["port"] for rule in policy["ingress"] for port in rule["ports"]]
    assert sorted(open_ports) == sorted(one["name"] for one in container["ports"])


def test_the_deployment_is_configured_and_one() -> None:
    found = objects_of(FOLDER)
    deployment = found["Deployment", "fournos-history"]
    container = container_of(found, "fournos-history", "history", HistorySettings, ProcessSettings)
    assert (deployment["spec"]["replicas"], deployment["spec"]["strategy"]) == (1, {"type": "Recreate"})
    assert PARTS["history"].lease in str(found["Role", "fournos-history"])
    assert HistorySettings().namespace == found["Namespace", "fournos-history"]["metadata"]["name"]
    volumes = {mount["mountPath"] for mount in container["volumeMounts"]}
    (directory,) = (e["value"] for e in container["env"] if e["name"] == "FOURNOS_HISTORY_DIRECTORY")
    assert directory == HistorySettings().directory
    assert directory in volumes


def test_the_api_has_an_address_while_its_store_does_not_answer() -> None:
    """Its pods are not ready then, and no deletion of a namespace ends while an APIService is unavailable."""
    service = objects_of(FOLDER)["APIService", "v1.history.fournos.dev"]["spec"]["service"]
    assert objects_of(FOLDER)["Service", service["name"]]["spec"]["publishNotReadyAddresses"] is True
    (budget,) = manifests.parse((DEPLOY / "history-postgres" / "disruption.yaml").read_text())
    assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow", "nodes are drained meanwhile"
