"""What the values of the Helm chart do, by helm itself."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from dev.chart import VALUES
from dev.image import ROOT
from dev.release_install import Document
from tests.integration.chart.conftest import TEMPLATE, Render, Rendered, run


def kinds(rendered: Rendered) -> set[str]:
    return {kind for _, kind, _, _ in rendered}


def deployment(rendered: Rendered, name: str) -> Any:
    (found,) = (item for item in _of(rendered, "Deployment") if item["metadata"]["name"] == name)
    return found["spec"]


def variables(spec: Any) -> dict[str, Any]:
    return {one["name"]: one.get("value") for one in spec["template"]["spec"]["containers"][0]["env"]}


SYSTEM_VALUES = (*VALUES.values(),)[:-1]
"""All but monitoring, which has no Deployment."""


def only(*names: str) -> list[str]:
    return [f"{name}.enabled={json.dumps(name in names)}" for name in SYSTEM_VALUES]


@pytest.mark.parametrize("system", SYSTEM_VALUES)
def test_each_system_alone(system: str, render: Render) -> None:
    rendered = render(*only(system), namespace="elsewhere")
    deployments = [key for key in rendered if key[1] == "Deployment"]
    assert len(deployments) == 1
    (spec,) = (item["spec"]["template"]["spec"] for item in _of(rendered, "Deployment"))
    assert spec["serviceAccountName"] in {
        item["metadata"]["name"] for item in _of(rendered, "ServiceAccount")
    }
    made = {item["metadata"]["name"] for item in _of(rendered, "Namespace")}
    used = {key[2] for key in rendered if key[2]}
    assert used <= made | {"kueue-system", "kube-system"}, "each namespace is made"


def _of(rendered: Rendered, kind: str) -> Iterable[Document]:
    return (item for item in rendered.values() if item["kind"] == kind)


def test_namespaces_have_any_names(render: Render) -> None:
    names = 'namespaces={"operator": "ovens", "jobs": "oven-jobs", "secrets": "oven-keys"}'
    rendered = render(names, *only("jobs", "clusters"), namespace="ovens")
    spec = deployment(rendered, "fournos")
    chosen = variables(spec)
    assert (chosen["FOURNOS_NAMESPACE"], chosen["FOURNOS_SECRETS_NAMESPACE"]) == ("oven-jobs", "oven-keys")
    hearth = variables(deployment(rendered, "hearth"))
    assert hearth["HEARTH_EXECUTION_NAMESPACE"] == "oven-jobs"
    text = yaml.safe_dump_all(rendered.values())
    assert "helmnamespace" not in text and "psap-secrets" not in text
    assert {key[2] for key in rendered} == {"", "ovens", "oven-jobs", "oven-keys", "hearth"}
    assert ("rbac.authorization.k8s.io", "Role", "oven-keys", "fournos-secrets-reader-oven-jobs") in rendered


def test_values_reach_the_deployment(render: Render) -> None:
    rendered = render(
        'image={"repository": "registry.example.com/f", "tag": "9", "pullSecrets": [{"name": "key"}]}',
        'jobs={"replicas": 3, "nodeSelector": {"zone": "a"}, "resources": {"limits": {"memory": "2Gi"}},'
        '"settings": {"FOURNOS_SECRET_POLICY": "open", "FOURNOS_RETRY_BACKOFF_SEC": 1000000, '
        '"FOURNOS_HARDWARE_REQUIRED": false}}',
        *only("jobs", "history"),
    )
    spec = deployment(rendered, "fournos")
    pod = spec["template"]["spec"]
    assert (spec["replicas"], pod["nodeSelector"]) == (3, {"zone": "a"})
    assert pod["imagePullSecrets"] == [{"name": "key"}]
    container = pod["containers"][0]
    assert container["image"] == "registry.example.com/f:9"
    assert container["resources"]["limits"] == {"memory": "2Gi"}
    chosen = variables(spec)
    assert (chosen["FOURNOS_SECRET_POLICY"], chosen["FOURNOS_RETRY_BACKOFF_SEC"]) == ("open", "1000000")
    assert (chosen["FOURNOS_HARDWARE_REQUIRED"], chosen["FOURNOS_HISTORY_ENABLED"]) == ("false", "true")
    names = [one["name"] for one in container["env"]]
    assert len(names) == len(set(names)), "no variable stands twice"
    digest = "sha256:" + "a" * 64
    by_digest = deployment(render(f'image.digest="{digest}"'), "fournos")
    assert by_digest["template"]["spec"]["containers"][0]["image"].endswith(f"fournos@{digest}")


def test_what_a_team_changes_of_history_and_page(render: Render) -> None:
    rendered = render(
        *only("history", "web"),
        'history={"storage": {"size": "1Ti", "className": "fast"}, "enabled": true, "fsGroup": null}',
        'web={"enabled": true, "impersonation": {"enabled": true, "groups": ["a:b"]}}',
        'web.settings={"FOURNOS_WEB_PUBLIC_URL": "https://ovens.test"}',
    )
    (claim,) = (item["spec"] for item in _of(rendered, "PersistentVolumeClaim"))
    security = deployment(rendered, "fournos-history")["template"]["spec"]["securityContext"]
    assert "fsGroup" not in security
    assert (claim["storageClassName"], claim["resources"]["requests"]["storage"]) == ("fast", "1Ti")
    chosen = variables(deployment(rendered, "fournos-web"))
    assert chosen["FOURNOS_WEB_PUBLIC_URL"] == "https://ovens.test"
    (container,) = deployment(rendered, "fournos-web")["template"]["spec"]["containers"]
    secret = Path(chosen["FOURNOS_WEB_PROXY_SECRET_FILE"])
    assert str(secret.parent) in {mount["mountPath"] for mount in container["volumeMounts"]}
    key = ("rbac.authorization.k8s.io", "ClusterRole", "", "fournos-web-impersonator")
    assert rendered[key]["rules"][1]["resourceNames"] == ["a:b"]


def test_argo_cd_deploys_all_but_multikueues_manager(render: Render) -> None:
    application = yaml.safe_load((ROOT / "argocd" / "app-chart.yaml").read_text())
    values = application["spec"]["source"]["helm"]["valuesObject"]
    rendered = render(*(f"{name}={json.dumps(value)}" for name, value in values.items()))
    assert {item["metadata"]["name"] for item in _of(rendered, "Deployment")} == {
        "fournos",
        "hearth",
        "appwrapper-controller-manager",
        "operator-controller-manager",
        "fournos-frameworks",
        "fournos-history",
        "fournos-web",
    }
    assert "ServiceMonitor" in kinds(rendered)


def test_the_pages_example_is_a_team_s(render: Render) -> None:
    page = (ROOT / "docs" / "install.md").read_text()
    (example,) = re.findall(r"```yaml\n(# values\.yaml\n.*?)```", page, re.DOTALL)
    values = yaml.safe_load(example)
    rendered = render(*(f"{name}={json.dumps(value)}" for name, value in values.items()))
    history = deployment(rendered, "fournos-history")
    assert history["replicas"] == 2 and "PersistentVolumeClaim" not in kinds(rendered)
    (container,) = history["template"]["spec"]["containers"]
    secrets = {entry.get("valueFrom", {}).get("secretKeyRef", {}).get("name") for entry in container["env"]}
    assert {"fournos-history-database", "fournos-history-s3"} <= secrets
    page_settings = variables(deployment(rendered, "fournos-web"))
    assert page_settings["FOURNOS_WEB_PUBLIC_URL"] == "https://fournos.example.com"


def test_switches(render: Render) -> None:
    everything = [f"{name}.enabled=true" for name in (*SYSTEM_VALUES, "monitoring")]
    whole = render(*everything)
    assert {"CustomResourceDefinition", "NetworkPolicy", "ValidatingWebhookConfiguration"} <= kinds(whole)
    assert {"ServiceMonitor", "PrometheusRule"} <= kinds(whole)
    switches = ("crds", "webhooks", "networkPolicies")
    less = render(*everything, *(f"{name}.enabled=false" for name in switches))
    webhooks = {f"{kind}WebhookConfiguration" for kind in ("Validating", "Mutating")}
    assert kinds(whole) - kinds(less) == {"CustomResourceDefinition", "NetworkPolicy", *webhooks}
    specs = [item["spec"] for item in _of(less, "Deployment")]
    of_webhooks = {"FOURNOS_WEBHOOK_SERVICE"}
    assert not [spec for spec in specs if of_webhooks & variables(spec).keys()]
    assert "Namespace" not in kinds(render("namespaces.create=false"))


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ("jobs.replica=2", "replica"),
        ('jobs.replicas="two"', "replicas"),
        ('jobs.settings={"FOURNOS_SECRET_POLICE": "open"}', "FOURNOS_SECRET_POLICE"),
        ('jobs.settings={"FOURNOS_SECRET_POLICY": ["open"]}', "FOURNOS_SECRET_POLICY"),
        ('namespaces.jobs="Not A Name"', "jobs"),
        ('image.digest="latest"', "digest"),
        ('image.pullPolicy="Sometimes"', "pullPolicy"),
        ("kueue.enabled=true", "kueue"),
        ("history.replicas=2", "replicas"),
        ('web.impersonation={"enabled": true, "groups": []}', "groups"),
        ('web.impersonation={"enabled": true, "groups": null}', "groups"),
    ],
)
def test_wrong_values_are_refused_by_name(value: str, field: str, helm: Path) -> None:
    done = run(helm, *TEMPLATE, "--set-json", value)
    assert done.returncode != 0 and field in done.stderr, done.stderr
