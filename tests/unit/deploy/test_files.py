"""What is applied to clusters: the promises that the files make to each other and to the README."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fournos.systems.clusters.settings import ClusterSettings
from tests.unit.deploy.shipped import ROOT, documents, everything, shipped

RBAC = sorted((ROOT / "manifests" / "rbac").glob("*.yaml"))
APPLIED_WITH_ENVSUBST = [*RBAC, ROOT / "manifests" / "secrets-ns-rbac.yaml"]


@pytest.mark.parametrize("path", APPLIED_WITH_ENVSUBST, ids=lambda path: path.name)
def test_envsubst_meets_only_the_two_namespaces(path: Path) -> None:
    assert set(re.findall(r"\$\{?(\w*)", path.read_text())) <= {"NAMESPACE", "SECRETS_NAMESPACE"}


@pytest.mark.parametrize("path", sorted((ROOT / "config" / "forge" / "workflows").glob("*.yaml")), ids=str)
def test_workflows_name_the_namespace_for_envsubst(path: Path) -> None:
    assert "$NAMESPACE/forge-core:latest" in path.read_text()


def test_kustomize_has_every_rbac_file() -> None:
    listed = documents(ROOT / "manifests" / "kustomization.yaml")[0]["resources"]
    assert {f"rbac/{path.name}" for path in RBAC} == {name for name in listed if name.startswith("rbac/")}


def test_selectors_of_replacements_mean_the_same_as_names_and_as_patterns() -> None:
    """kubectl 1.36 (kustomize 5.8) reads them as patterns, earlier ones as names: a `$` never matched."""
    (kustomization,) = documents(ROOT / "deploy" / "kustomization.yaml")
    selectors = [target["select"] for each in kustomization["replacements"] for target in each["targets"]]
    assert selectors
    values = [value for selector in selectors for value in selector.values()]
    assert [value for value in values if not re.fullmatch(r"[A-Za-z-]+", value)] == []


def test_hearth_is_called_hearth_and_has_every_setting_of_its_readme() -> None:
    hearth, settings = shipped("clusters"), ClusterSettings()
    assert hearth.deployment["metadata"]["name"] == hearth.deployment["metadata"]["namespace"] == "hearth"
    assert hearth.pod["metadata"]["labels"] == {"app": "hearth"}
    for variable, value in hearth.environment.items():
        if variable != "FOURNOS_METRICS_PORT":
            name = variable.removeprefix("HEARTH_").lower()
            assert type(getattr(settings, name))(value) == getattr(settings, name)


def test_quotas_follow_the_order_of_covered_resources() -> None:
    """Kueue refuses a ClusterQueue whose flavors list their resources in another order."""
    queues = list(everything("ClusterQueue"))
    assert len(queues) == 2
    for path, queue in queues:
        flavors = {
            flavor["metadata"]["name"] for flavor in documents(path) if flavor["kind"] == "ResourceFlavor"
        }
        for group in queue["spec"]["resourceGroups"]:
            assert {flavor["name"] for flavor in group["flavors"]} == flavors
            for flavor in group["flavors"]:
                assert [r["name"] for r in flavor["resources"]] == group["coveredResources"]
                assert flavor["resources"][-1] == {"name": "fournos/cluster-slot", "nominalQuota": "100"}


def test_every_mock_cluster_has_a_kubeconfig() -> None:
    secrets = {secret["metadata"]["name"] for secret in documents(ROOT / "dev" / "mock-secrets.yaml")}
    flavors = documents(ROOT / "dev" / "mock-kueue-config.yaml")
    clusters = {flavor["metadata"]["name"] for flavor in flavors if flavor["kind"] == "ResourceFlavor"}
    assert secrets == {f"kubeconfig-{cluster}" for cluster in clusters} | {"vault-placeholder"}


def test_pipelines_name_a_resolver_and_take_what_the_operator_passes() -> None:
    passed = {"fjob-name", "fournos-namespace", "fournos-workload-namespace", "kubeconfig-secret"}
    names = set()
    for _, pipeline in everything("Pipeline"):
        names.add(pipeline["metadata"]["name"])
        assert pipeline["metadata"]["annotations"]["fournos.dev/resolve-image"]
        required = {p["name"] for p in pipeline["spec"]["params"] if "default" not in p}
        assert required <= passed
    assert {"fournos-full", "fournos-run-only", "fournos-validate-only", "forge-full"} <= names


def test_samples_use_pipelines_that_exist() -> None:
    pipelines = {pipeline["metadata"]["name"] for _, pipeline in everything("Pipeline")}
    jobs = [job for _, job in everything("FournosJob")]
    assert len(jobs) >= 4
    runs = [job["spec"] for job in jobs if not job["spec"].get("lockOnly")]
    assert {spec["pipeline"] for spec in runs} <= pipelines


def scripts() -> Iterator[tuple[str, str]]:
    yield "resolve.sh", (ROOT / "dev" / "mock-resolve" / "resolve.sh").read_text()
    for path, job in everything("Job"):
        for container in job["spec"]["template"]["spec"]["containers"]:
            for text in container.get("args", ()):
                yield str(path.relative_to(ROOT)), text
    for _, task in everything("Task"):
        for step in task["spec"]["steps"]:
            if "script" in step:
                yield task["metadata"]["name"], step["script"]


@pytest.mark.parametrize(("name", "text"), list(scripts()), ids=lambda value: value.split("\n")[0][:40])
def test_scripts_are_plain_shell(name: str, text: str) -> None:
    shell = shutil.which("dash") or shutil.which("sh")
    assert shell
    checked = subprocess.run([shell, "-n"], input=text, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, f"{name}: {checked.stderr}"


def test_resolve_jobs_run_as_the_resolver_and_once() -> None:
    jobs = [job["spec"] for _, job in everything("Job")]
    assert len(jobs) == 2
    for spec in jobs:
        assert spec["backoffLimit"] == 0
        assert spec["template"]["spec"]["serviceAccountName"] == "fournos-resolver"


# --- Images are pinned by digest ---------------------------------------------------------------------

CONTAINERFILES = [path for path in ROOT.rglob("*Containerfile*") if not {".venv", "build"} & set(path.parts)]
PULLED = re.compile(r"^(?:FROM|ARG BASE=) ?((?!docker\.io/local/)[\w.-]+\.\w+/\S+)", re.MULTILINE)
"""Images under docker.io/local/ are made here."""
BY_VERSION = {"registry.k8s.io/kubectl:v1.34.4"}
"""Their digests were not known when they were written.  The image is for tests only."""


def test_an_image_that_is_pulled_is_named_by_digest() -> None:
    """A tag may mean another image tomorrow."""
    pulled = {image for path in CONTAINERFILES for image in PULLED.findall(path.read_text())}
    assert len(pulled) == 3
    assert {image for image in pulled if not re.search(r":[\w.-]+@sha256:[0-9a-f]{64}$", image)} == BY_VERSION
