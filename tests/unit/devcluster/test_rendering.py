"""Configuration and manifests, rendered by pure functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from devcluster import components, manifests
from devcluster.components import Layout
from devcluster.errors import DevclusterError
from devcluster.namespaces import VOLUME_GROUP, init_script
from devcluster.network import Network

LAYOUT = Layout(Path("/state/a"), Path("/cache/bin"), Network(7, "a"))

KUEUE = """
apiVersion: v1
kind: ConfigMap
metadata: {name: kueue-manager-config, namespace: kueue-system}
data:
  controller_manager_config.yaml: |
    apiVersion: config.kueue.x-k8s.io/v1beta2
    kind: Configuration
    clientConnection: {qps: 50, burst: 100}
    leaderElection: {leaderElect: true, resourceName: x}
    integrations: {frameworks: [batch/job, pod]}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: kueue-controller-manager}
spec:
  template:
    spec:
      containers:
        - name: manager
          image: registry/kueue:v0
          imagePullPolicy: Always
          resources: {requests: {cpu: 500m, memory: 512Mi}, limits: {cpu: 2000m}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: workloads.kueue.x-k8s.io}
spec:
  conversion:
    strategy: Webhook
    webhook:
      conversionReviewVersions: [v1]
      clientConfig: {service: {name: kueue-webhook-service, namespace: kueue-system, path: /convert}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: kueue-validating}
webhooks:
- name: vjob.kb.io
  clientConfig: {service: {name: kueue-webhook-service, namespace: kueue-system, path: /validate-job}}
"""

ROOT = Path(__file__).parents[3]


def _configuration(text: str) -> dict[str, Any]:
    for each in manifests.parse(text):
        if each["kind"] == "ConfigMap":
            return dict(yaml.safe_load(each["data"]["controller_manager_config.yaml"]))
    raise AssertionError("no ConfigMap")


def test_merge_goes_into_maps_replaces_lists_and_removes_with_null() -> None:
    base = {"a": {"b": 1, "c": 2}, "l": [1, 2], "gone": 1}
    merged = manifests.merge(base, {"a": {"c": 3, "d": {"e": 4}}, "l": [9], "gone": None, "never": None})
    assert merged == {"a": {"b": 1, "c": 3, "d": {"e": 4}}, "l": [9]}
    assert base == {"a": {"b": 1, "c": 2}, "l": [1, 2], "gone": 1}


def test_kueue_gets_the_local_image_a_small_request_a_higher_rate_and_the_callers_changes() -> None:
    text = manifests.kueue(KUEUE, {"integrations": {"frameworks": ["batch/job"]}})
    configuration = _configuration(text)
    assert configuration["clientConnection"] == {"qps": 1000, "burst": 2000}
    assert configuration["integrations"] == {"frameworks": ["batch/job"]}
    deployment = next(each for each in manifests.parse(text) if each["kind"] == "Deployment")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == manifests.KUEUE_IMAGE
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert container["resources"]["requests"] == {"cpu": "100m", "memory": "512Mi"}


def test_kueue_as_a_process_has_no_election_and_keeps_the_callers_changes() -> None:
    text = manifests.kueue_process_configuration(KUEUE, {"featureGates": {"MultiKueue": False}}, Path("/pki"))
    configuration = yaml.safe_load(text)
    assert configuration["leaderElection"]["leaderElect"] is False
    assert configuration["internalCertManagement"] == {"enable": False}
    assert configuration["featureGates"] == {"MultiKueue": False, "VisibilityOnDemand": False}
    assert configuration["webhook"]["certDir"] == "/pki"


def test_without_pods_every_webhook_of_kueue_is_reached_by_url() -> None:
    objects = manifests.parse(manifests.kueue_without_pods(KUEUE, b"CA"))
    assert {each["kind"] for each in objects} == {
        "CustomResourceDefinition",
        "ValidatingWebhookConfiguration",
    }
    text = manifests.dump(objects)
    assert "service:" not in text
    assert "https://127.0.0.1:9443/validate-job" in text
    assert "https://127.0.0.1:9443/convert" in text
    assert "caBundle: Q0E=" in text


def test_manifests_without_a_configuration_are_refused() -> None:
    with pytest.raises(DevclusterError, match="no Configuration"):
        manifests.kueue("kind: ConfigMap\ndata: {}", {})


def test_tekton_gets_local_images_and_a_real_version() -> None:
    text = manifests.localise_tekton(
        "image: ko://github.com/tektoncd/pipeline/cmd/nop\n"
        'shell: cgr.dev/chainguard/busybox@sha256:0a1b\nv: "devel"\n',
        "v1.9.0",
    )
    assert yaml.safe_load(text) == {
        "image": "docker.io/local/tekton-nop:1",
        "shell": manifests.BUSYBOX_IMAGE,
        "v": "v1.9.0",
    }


def test_tekton_definitions_alone_ask_no_webhook(tmp_path: Path) -> None:
    (tmp_path / "300-crds").mkdir()
    (tmp_path / "300-crds/300_task.yaml").write_text(
        "kind: CustomResourceDefinition\nspec: {group: tekton.dev, conversion: {strategy: Webhook}}\n"
    )
    assert manifests.parse(manifests.tekton_definitions(tmp_path, "v1.9.0"))[0]["spec"] == {
        "group": "tekton.dev"
    }


def test_a_clusters_programs_write_below_its_own_directory_only() -> None:
    words = [*components.etcd(LAYOUT), *components.kubelet(LAYOUT), *components.api_server(LAYOUT)]
    paths = [word.partition("=")[2] for word in words if word.partition("=")[2].startswith("/")]
    assert paths
    assert all(path.startswith("/state/a") for path in paths)


def test_no_image_is_deleted_that_no_registry_has() -> None:
    """100 % of the disk: at the default of 85 % the kubelet deletes images that no pod runs just now."""
    assert yaml.safe_load(components.kubelet_config(LAYOUT))["imageGCHighThresholdPercent"] == 100


def test_volumes_belong_to_the_group_of_the_shipped_pods() -> None:
    with_node, without = (init_script(Path("/s"), visible=[], pods=pods) for pods in (True, False))
    assert f"chgrp {VOLUME_GROUP}" in with_node and "hostpath_pv" not in without
    shipped = yaml.safe_load_all((ROOT / "deploy" / "history" / "deployment.yaml").read_text())
    (deployment,) = (item for item in shipped if item["kind"] == "Deployment")
    assert deployment["spec"]["template"]["spec"]["securityContext"]["fsGroup"] == VOLUME_GROUP
