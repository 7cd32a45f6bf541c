"""The Helm chart: generated from the manifests, the install file by default, its values by helm itself."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from dev.chart import CHART, VALUES, differences, generated
from dev.chart_templates import KEPT
from dev.go_tools import HELM, ensure
from dev.image import ROOT
from dev.release import Source, documents
from dev.release_install import SYSTEMS, Document, identity, of_all, of_system
from devcluster import manifests
from devcluster.progress import Progress

# A helm that is built as a module takes a cluster for one of 1.20 unless it is told or asks it.
TEMPLATE = ("template", "fournos", ROOT / CHART, "--kube-version", "1.36.0", "--skip-tests")
Rendered = dict[tuple[str, str, str, str], Document]
Render = Callable[..., Rendered]


@pytest.fixture(scope="module")
def helm() -> Path:
    return ensure(HELM, Progress())


def run(helm: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([helm, *words], capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture(scope="module")
def render(helm: Path) -> Render:
    def rendered(*values: str, namespace: str = "fournos-operator") -> Rendered:
        """`values`: as for --set-json."""
        options = [word for value in values for word in ("--set-json", value)]
        done = run(helm, *TEMPLATE, "--namespace", namespace, *options)
        assert done.returncode == 0, done.stderr
        return {identity(item): item for item in manifests.parse(done.stdout) if item}

    return rendered


def kinds(rendered: Rendered) -> set[str]:
    return {kind for _, kind, _, _ in rendered}


def deployment(rendered: Rendered, name: str) -> Any:
    (found,) = (item for item in _of(rendered, "Deployment") if item["metadata"]["name"] == name)
    return found["spec"]


def variables(spec: Any) -> dict[str, Any]:
    return {one["name"]: one.get("value") for one in spec["template"]["spec"]["containers"][0]["env"]}


# The fixture makes sure that there is a kubectl: a cluster brings its own.
@pytest.mark.usefixtures("kubeconfig")
def test_it_is_generated_from_the_manifests() -> None:
    assert differences(generated(ROOT), ROOT / CHART) == [], "make chart writes it"


def test_helm_has_nothing_to_say(helm: Path) -> None:
    done = run(helm, "lint", "--strict", ROOT / CHART)
    assert done.returncode == 0 and "WARNING" not in done.stdout, done.stdout + done.stderr


@pytest.mark.usefixtures("kubeconfig")
def test_the_default_is_the_install_file(render: Render) -> None:
    """Without the release's own namespace; what outlives the release says so."""
    source = Source(ROOT, 0)
    installed = of_all([of_system(each, documents(ROOT, each), source.image) for each in SYSTEMS])
    wanted = {identity(item): item for item in installed}
    del wanted["", "Namespace", "", "fournos-operator"]
    rendered = render()
    assert rendered.keys() == wanted.keys()
    for key, item in rendered.items():
        assert _without_kept(item) == wanted[key], key


def _without_kept(item: Document) -> Document:
    copy: Document = json.loads(json.dumps(item))
    annotations = copy["metadata"].get("annotations") or {}
    if copy["kind"] in ("Namespace", "CustomResourceDefinition"):
        assert annotations.items() >= KEPT.items(), "it would be deleted with the release"
        for name in KEPT:
            del annotations[name]
        if not annotations:
            del copy["metadata"]["annotations"]
    return copy


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
    assert not [spec for spec in specs if "FOURNOS_WEBHOOK_SERVICE" in variables(spec)]
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
    ],
)
def test_wrong_values_are_refused_by_name(value: str, field: str, helm: Path) -> None:
    done = run(helm, *TEMPLATE, "--set-json", value)
    assert done.returncode != 0 and field in done.stderr, done.stderr
