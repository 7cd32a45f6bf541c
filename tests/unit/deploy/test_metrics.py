"""Every Deployment that is shipped serves /metrics at a port of its own, to those whom a policy lets in."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from devcluster import manifests
from fournos.engine.runtime.process import ProcessSettings

ROOT = Path(__file__).parents[3]
FOLDERS = {
    "fournos": ("manifests", "manifests/rbac"),
    "hearth": ("deploy",),
    "appwrapper": ("deploy/appwrapper",),
    "frameworks": ("deploy/frameworks",),
    "minicluster": ("deploy/minicluster",),
    "multikueue": ("deploy/multikueue/manager",),
}


class Shipped:
    """The objects of a system."""

    def __init__(self, system: str) -> None:
        self.objects = [
            document
            for folder in FOLDERS[system]
            for path in sorted((ROOT / folder).glob("*.yaml"))
            if path.name != "crd.yaml"  # large, and says nothing here
            for document in manifests.parse(path.read_text())
            if document
        ]
        (self.deployment,) = self.of("Deployment")
        self.pod = self.deployment["spec"]["template"]
        (self.container,) = self.pod["spec"]["containers"]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [one for one in self.objects if one["kind"] == kind]

    @property
    def settings(self) -> ProcessSettings:
        prefix = "FOURNOS_"
        given = {
            entry["name"].removeprefix(prefix).lower(): entry["value"]
            for entry in self.container["env"]
            if entry["name"] == "FOURNOS_METRICS_PORT"
        }
        return ProcessSettings(**given)

    @property
    def metrics_service(self) -> dict[str, Any]:
        """The Service of the port."""
        (service,) = (one for one in self.of("Service") if one["spec"]["ports"][0]["name"] == "metrics")
        return service


@cache
def shipped_by(system: str) -> Shipped:
    return Shipped(system)


@pytest.fixture(params=FOLDERS)
def shipped(request: pytest.FixtureRequest) -> Shipped:
    return shipped_by(request.param)


def test_the_service_leads_to_the_port(shipped: Shipped) -> None:
    ports = {port["name"]: port["containerPort"] for port in shipped.container["ports"]}
    assert ports["metrics"] == shipped.settings.metrics_port != ports["http"]
    service = shipped.metrics_service
    assert service["spec"]["selector"].items() <= shipped.pod["metadata"]["labels"].items()
    assert service["spec"]["selector"].items() <= service["metadata"]["labels"].items()
    (port,) = service["spec"]["ports"]
    assert port == {"name": "metrics", "port": shipped.settings.metrics_port, "targetPort": "metrics"}


def test_the_port_is_open_to_namespaces_that_scrape_alone(shipped: Shipped) -> None:
    (policy,) = shipped.of("NetworkPolicy")
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= shipped.pod["metadata"]["labels"].items()
    (rule,) = (one for one in policy["spec"]["ingress"] if {"port": "metrics"} in one["ports"])
    labels = {"fournos.dev/scrapes-metrics": "true"}
    assert rule == {
        "ports": [{"port": "metrics"}],
        "from": [{"namespaceSelector": {"matchLabels": labels}}],
    }
