"""Every shipped Deployment serves /metrics at a port of its own, and deploy/monitoring watches it."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import pytest
import yaml

from devcluster import manifests
from fournos.app.parts import TABLE
from fournos.engine.runtime.process import ProcessSettings
from tests.unit.deploy.monitoring import (
    FOLDER,
    ROOT,
    dashboard,
    labels_in,
    metrics_in,
    queries,
    rules,
)

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


# --- deploy/monitoring: each operator is scraped, each query of metrics that there are ---------------

RUNBOOKS = ROOT / "docs" / "runbooks"
OF_THE_SCRAPE = {"namespace", "job", "pod", "le"}


def documents(name: str) -> list[dict[str, Any]]:
    return manifests.parse((FOLDER / name).read_text())


@pytest.mark.parametrize("system", FOLDERS)
def test_each_operator_is_scraped_at_its_service(system: str) -> None:
    shipped = shipped_by(system)
    service = shipped.metrics_service
    place = shipped.deployment["metadata"].get("namespace", "fournos-operator")
    monitors = [
        one
        for one in documents("servicemonitors.yaml")
        if one["metadata"]["namespace"] == place
        and one["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    ]
    (monitor,) = monitors
    assert monitor["spec"]["endpoints"] == [{"port": "metrics"}]
    selected = monitor["spec"]["selector"]["matchLabels"]
    matching = [
        one for one in shipped.of("Service") if selected.items() <= one["metadata"].get("labels", {}).items()
    ]
    assert matching == [service]


def test_every_query_is_of_metrics_that_are_registered() -> None:
    known = {row.name: set(row.labels) for row in TABLE}
    used = set()
    for where, query in queries():
        names = metrics_in(query)
        assert names <= set(known), where
        assert names or query.startswith("up{"), where
        used |= names
        allowed = OF_THE_SCRAPE.union(*(known[name] for name in names))
        assert labels_in(query) <= allowed, where
    assert len(used) > 20


def test_the_services_of_the_first_alert_are_all_that_are_scraped() -> None:
    (rule,) = (rule for rule in rules() if rule["alert"] == "FournosMetricsUnreachable")
    for system in FOLDERS:
        service = shipped_by(system).metrics_service["metadata"]["name"]
        assert service.removeprefix("appwrapper-").removeprefix("operator-") in rule["expr"]


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: str(rule["alert"]))
def test_each_alert_has_a_severity_a_text_and_its_page(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert {"summary", "description"} <= set(rule["annotations"])
    assert rule["annotations"]["runbook_url"].endswith(f"/docs/runbooks/{rule['alert']}.md")


def test_there_is_a_page_for_each_alert_and_for_nothing_else() -> None:
    alerts = {rule["alert"] for rule in rules()}
    assert {page.stem for page in RUNBOOKS.glob("*.md")} - {"README"} == alerts
    listed = (RUNBOOKS / "README.md").read_text()
    assert [alert for alert in alerts if f"]({alert}.md)" not in listed] == []


def test_the_dashboard_is_one_that_grafana_takes() -> None:
    board = dashboard()
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    squares = [panel["gridPos"] for panel in panels]
    taken = [(x, y) for at in squares for x in range(at["x"], at["x"] + at["w"])
             for y in range(at["y"], at["y"] + at["h"])]  # fmt: skip
    assert len(set(taken)) == len(taken) and max(x for x, _ in taken) < 24
    for panel in panels:
        if panel["type"] != "row":
            assert panel["datasource"]["uid"] == "${datasource}"
            assert panel["fieldConfig"]["defaults"]["unit"]
            assert all(target["legendFormat"] for target in panel["targets"])


def test_everything_is_in_the_kustomization() -> None:
    (listed,) = documents("kustomization.yaml")
    named = {*listed["resources"], *listed["configMapGenerator"][0]["files"], "kustomization.yaml"}
    assert {path.name for path in FOLDER.iterdir()} == named


# --- deploy/closed-ports: every port that a NetworkPolicy of ours opens, and no other ----------------

PEERS: Final = {"http": False, "https": False, "metrics": True, "webhooks": True, 9443: True, "api": True}
"""The ports, and whether only some clients reach them."""


def policies() -> list[dict[str, Any]]:
    files = [*ROOT.glob("deploy/**/*.yaml"), *ROOT.glob("manifests/**/*.yaml")]
    texts = [file.read_text() for file in files]
    found = [one for text in texts if "kind: NetworkPolicy" in text for one in manifests.parse(text)]
    return [one for one in found if one and one["kind"] == "NetworkPolicy"]


def test_each_port_is_closed_to_those_who_do_not_need_it() -> None:
    component = yaml.safe_load((ROOT / "deploy/closed-ports/kustomization.yaml").read_text())
    (patch,) = component["patches"]
    assert patch["target"] == {"kind": "NetworkPolicy"}
    (operation,) = yaml.safe_load(patch["patch"])
    assert (operation["op"], operation["path"]) == ("replace", "/spec/ingress")
    rules = {port["port"]: "from" in rule for rule in operation["value"] for port in rule["ports"]}
    assert rules == PEERS
    opened = {
        port["port"]
        for policy in policies()
        for rule in policy["spec"].get("ingress", [])
        for port in rule["ports"]
    }
    assert opened == set(PEERS)
