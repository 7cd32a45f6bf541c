"""deploy/web: what its files promise to each other and to the page."""

from __future__ import annotations

from typing import Any

import pytest

from fournos.engine.runtime.process import ProcessSettings
from fournos.web.serving import CLOSING
from fournos.web.settings import WebSettings
from tests.unit.deploy.folder import DEPLOY, container_of, files_of, kustomization_of, objects_of, variables

OVERLAYS = ("web-impersonation",)


def environment(folder: str) -> dict[str, Any]:
    (container,) = objects_of(folder)["Deployment", "fournos-web"]["spec"]["template"]["spec"]["containers"]
    return {entry["name"]: entry.get("value") for entry in container["env"]}


@pytest.mark.parametrize("folder", ["web", *OVERLAYS])
def test_every_file_is_in_its_kustomization(folder: str) -> None:
    listed = kustomization_of(folder)
    named = {*listed["resources"], *(patch["path"] for patch in listed.get("patches", ()))}
    assert files_of(folder) == named - {"../web"}


def test_the_deployment_is_configured() -> None:
    found = objects_of("web")
    classes = WebSettings, ProcessSettings
    container = container_of(found, "fournos-web", "web", *classes)
    assert found["Deployment", "fournos-web"]["spec"]["replicas"] > 1
    for folder in ("web", *OVERLAYS):
        if ("Deployment", "fournos-web") in objects_of(folder):
            assert set(environment(folder)) <= variables(*classes)
    settings = WebSettings()
    assert settings.namespace == found["Namespace", "fournos-web"]["metadata"]["name"]
    assert ("Secret", settings.certificate_secret) in found
    assert {port["name"]: port["containerPort"] for port in container["ports"]}["https"] == settings.port


def test_replicas_are_spread_and_go_one_after_the_other() -> None:
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
