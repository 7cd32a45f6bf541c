"""What each shipped Deployment promises: how it runs, what it is given, and how its metrics are read."""

from __future__ import annotations

import re

import pytest

from fournos.app.parts import PARTS
from fournos.engine.runtime.process import ProcessSettings
from fournos.engine.runtime.webhook.registration import Service, WebhookSettings
from fournos.systems.appwrappers.part import appwrapper_webhooks
from fournos.systems.appwrappers.settings import AppWrapperSettings
from fournos.systems.frameworks.kinds import BUILT_IN
from fournos.systems.frameworks.rules import webhooks as framework_webhooks
from tests.unit.deploy.monitoring import rules
from tests.unit.deploy.shipped import FOLDERS, ROOT, Shipped, everything, shipped, variables

WITH_LEASE = [part for part in FOLDERS if PARTS[part].lease]


@pytest.fixture(params=FOLDERS)
def system(request: pytest.FixtureRequest) -> Shipped:
    return shipped(request.param)


def test_there_is_no_other_deployment() -> None:
    found = [path for path, one in everything("Deployment") if "selector" in one["spec"]]
    assert {str(path.parent.relative_to(ROOT)) for path in found} == {each[0] for each in FOLDERS.values()}


def test_it_runs_its_part_with_settings_that_exist(system: Shipped) -> None:
    parts = "jobs,schedules" if system.part == "jobs" else system.part
    assert system.container["args"] == ["run", "--enable", parts]
    known = variables(PARTS[system.part].settings, ProcessSettings, WebhookSettings) | {"POD_NAME"}
    assert set(system.environment) <= known
    if system.part != "jobs":
        names = [name for kind, name in system.objects if kind == "ServiceAccount"]
        assert system.pod["spec"]["serviceAccountName"] in names
    if lease := PARTS[system.part].lease:
        assert f"'{lease}'" in str(system.of("Role"))


def test_it_is_hardened_and_no_variable_of_a_service_is_taken_for_a_setting(system: Shipped) -> None:
    """The Service fournos-web gives its pods FOURNOS_WEB_PORT=tcp://…, and the page would not start."""
    pod = system.pod["spec"]
    assert pod["enableServiceLinks"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert system.container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_it_is_probed_and_a_slow_start_is_not_ended(system: Shipped) -> None:
    startup, liveness = (system.container[f"{name}Probe"] for name in ("startup", "liveness"))
    assert startup["httpGet"] == liveness["httpGet"]
    assert liveness["httpGet"]["path"] == "/healthz"
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 300
    if system.part != "web":
        assert system.container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_a_second_replica_is_there_but_where_one_has_a_volume_or_is_published_so() -> None:
    replicas = {part: shipped(part).deployment["spec"]["replicas"] for part in FOLDERS}
    assert replicas == {part: 1 if part in ("clusters", "history") else 2 for part in FOLDERS}


def test_the_metrics_are_read_by_namespaces_that_scrape_alone(system: Shipped) -> None:
    port = ProcessSettings(metrics_port=system.environment["FOURNOS_METRICS_PORT"]).metrics_port
    assert system.ports["metrics"] == port != system.ports["http"]
    service = system.metrics_service
    assert system.selects(service["spec"]["selector"])
    assert service["spec"]["selector"].items() <= service["metadata"]["labels"].items()
    assert service["spec"]["ports"] == [{"name": "metrics", "port": port, "targetPort": "metrics"}]
    (policy,) = system.of("NetworkPolicy")
    assert system.selects(policy["spec"]["podSelector"]["matchLabels"])
    (rule,) = (one for one in policy["spec"]["ingress"] if {"port": "metrics"} in one["ports"])
    labels = {"fournos.dev/scrapes-metrics": "true"}
    assert rule["from"] == [{"namespaceSelector": {"matchLabels": labels}}]


@pytest.mark.parametrize("part", WITH_LEASE)
def test_each_with_a_lease_is_scraped_at_its_service_and_missed_without(part: str) -> None:
    """The page has no Lease, and no alert is of its metrics."""
    found, service = shipped(part), shipped(part).metrics_service
    place = found.deployment["metadata"].get("namespace", "fournos-operator")
    monitors = [one for _, one in everything("ServiceMonitor") if one["metadata"]["namespace"] == place]
    (monitor,) = monitors
    assert monitor["spec"]["endpoints"] == [{"port": "metrics"}]
    selected = monitor["spec"]["selector"]["matchLabels"].items()
    services = [one for one in found.of("Service") if one["spec"]["ports"][0]["name"] == "metrics"]
    assert services == [service] and selected <= service["metadata"]["labels"].items()
    (alert,) = (rule for rule in rules() if rule["alert"] == "FournosMetricsUnreachable")
    (pattern,) = re.findall(r'job=~"([^"]+)"', alert["expr"])
    assert re.fullmatch(pattern, service["metadata"]["name"])


WEBHOOKS = {
    "frameworks": (framework_webhooks(BUILT_IN), "fournos-frameworks"),
    "appwrappers": (appwrapper_webhooks(AppWrapperSettings()), "appwrapper-manager-role"),
}


@pytest.mark.parametrize("part", WEBHOOKS)
def test_webhooks_are_those_that_are_served_and_reach_it(part: str) -> None:
    found, (webhooks, role) = shipped(part), WEBHOOKS[part]
    for webhook in webhooks:
        kind = f"{webhook.kind.capitalize()}WebhookConfiguration"
        (entry,) = found.objects[kind, webhook.configuration]["webhooks"]
        assert entry["clientConfig"]["service"]["path"] == webhook.path
        assert "caBundle" not in entry["clientConfig"]
    rules = found.objects["ClusterRole", role]["rules"]
    named = [name for rule in rules for name in rule.get("resourceNames", ())]
    assert sorted(named) == sorted(webhook.configuration for webhook in webhooks)
    target = Service("", found.environment["FOURNOS_WEBHOOK_SERVICE"])
    service = found.objects["Service", target.name]["spec"]
    assert found.selects(service["selector"])
    assert found.ports[service["ports"][0]["targetPort"]] == target.port
    assert ("Secret", target.secret) in found.objects and f"'{target.secret}'" in str(found.of("Role"))
