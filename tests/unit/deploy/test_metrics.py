"""Every Deployment that is shipped serves /metrics by https alone, and its account may review tokens."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from devcluster import manifests
from fournos.engine.runtime.metrics_server.settings import MetricsSettings

ROOT = Path(__file__).parents[3]
FOLDERS = {
    "fournos": ("manifests", "manifests/rbac"),
    "hearth": ("deploy",),
    "appwrapper": ("deploy/appwrapper",),
    "frameworks": ("deploy/frameworks",),
    "minicluster": ("deploy/minicluster",),
    "multikueue": ("deploy/multikueue/manager",),
}
REVIEWS = {
    ("authentication.k8s.io", "tokenreviews", "create"),
    ("authorization.k8s.io", "subjectaccessreviews", "create"),
}


class Shipped:
    """The objects of a system, and the rights of its Deployment's account, as RBAC adds them up."""

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
    def settings(self) -> MetricsSettings:
        prefix = "FOURNOS_METRICS_"
        given = {
            entry["name"].removeprefix(prefix).lower(): entry["value"]
            for entry in self.container["env"]
            if entry["name"].startswith(prefix)
        }
        return MetricsSettings(**given)

    def rights(self, kind: str) -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
        """Group, resource, verb, names."""
        account = self.pod["spec"]["serviceAccountName"]
        for binding in self.of(f"{kind}Binding"):
            if account not in {subject["name"] for subject in binding["subjects"]}:
                continue
            for role in self.of(kind):
                if role["metadata"]["name"] != binding["roleRef"]["name"]:
                    continue
                for rule in role.get("rules", ()):
                    for group in rule["apiGroups"]:
                        for resource in rule["resources"]:
                            for verb in rule["verbs"]:
                                yield group, resource, verb, tuple(rule.get("resourceNames", ()))


@cache
def shipped_by(system: str) -> Shipped:
    return Shipped(system)


@pytest.fixture(params=FOLDERS)
def shipped(request: pytest.FixtureRequest) -> Shipped:
    return shipped_by(request.param)


def test_no_metrics_without_a_check(shipped: Shipped) -> None:
    assert shipped.settings.plain is False
    assert shipped.settings.port == 8443
    assert not any(key.startswith("prometheus.io/") for key in shipped.pod["metadata"].get("annotations", {}))


def test_the_service_of_the_certificate_leads_to_the_port(shipped: Shipped) -> None:
    ports = {port["name"]: port["containerPort"] for port in shipped.container["ports"]}
    assert ports["metrics"] == shipped.settings.port
    (service,) = (one for one in shipped.of("Service") if one["metadata"]["name"] == shipped.settings.service)
    assert service["spec"]["selector"].items() <= shipped.pod["metadata"]["labels"].items()
    assert service["spec"]["selector"].items() <= service["metadata"]["labels"].items()
    (port,) = service["spec"]["ports"]
    assert port == {"name": "metrics", "port": 8443, "targetPort": "metrics"}
    for policy in shipped.of("NetworkPolicy"):
        open_ports = [entry["port"] for rule in policy["spec"]["ingress"] for entry in rule["ports"]]
        assert "metrics" in open_ports


def test_the_account_may_ask_who_asks(shipped: Shipped) -> None:
    granted = {(group, resource, verb) for group, resource, verb, _ in shipped.rights("ClusterRole")}
    assert granted >= REVIEWS


def test_the_account_may_keep_its_certificate(shipped: Shipped) -> None:
    secret = shipped.settings.secret
    verbs = {
        verb
        for group, resource, verb, names in shipped.rights("Role")
        if (group, resource) == ("", "secrets") and (secret in names or not names)
    }
    assert {"get", "patch"} <= verbs
    there = secret in {one["metadata"]["name"] for one in shipped.of("Secret")}
    assert there or "create" in verbs


def test_there_is_a_role_for_whoever_scrapes(shipped: Shipped) -> None:
    readers = [
        role["metadata"]["name"]
        for role in shipped.of("ClusterRole")
        if role.get("rules") == [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
    ]
    assert len(readers) == 1
    assert readers[0].endswith("-metrics-reader")
