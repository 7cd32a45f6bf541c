"""argocd: the Application of all systems but Hearth, and what Argo CD leaves as the operators wrote it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from devcluster import manifests

ROOT = Path(__file__).parents[3]
APPLICATION = yaml.safe_load((ROOT / "argocd" / "app-fournos.yaml").read_text())
HEARTH = yaml.safe_load((ROOT / "argocd" / "app-hearth.yaml").read_text())


def objects(folder: Path) -> Iterator[dict[str, Any]]:
    """Yields what the resources of a kustomization hold, less what its patches delete."""
    kustomization = yaml.safe_load((folder / "kustomization.yaml").read_text())
    deleted = {
        patch["metadata"]["name"]
        for entry in kustomization.get("patches", ())
        if "target" not in entry and (patch := yaml.safe_load(entry["patch"])).get("$patch") == "delete"
    }
    yield from (one for one in _resources(folder, kustomization) if one["metadata"]["name"] not in deleted)


def _resources(folder: Path, kustomization: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name in kustomization["resources"]:
        path = (folder / name).resolve()
        if path.is_dir():
            yield from objects(path)
        else:
            yield from (document for document in manifests.parse(path.read_text()) if document)


def ignored(kind: str) -> list[dict[str, Any]]:
    return [entry for entry in APPLICATION["spec"]["ignoreDifferences"] if entry["kind"] == kind]


def test_it_is_hearths_application_with_another_source() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        repository = tomllib.load(file)["project"]["urls"]["Repository"]
    source, hearth = APPLICATION["spec"]["source"], HEARTH["spec"]["source"]
    assert source == {
        "repoURL": f"{repository}.git",
        "targetRevision": hearth["targetRevision"],
        "path": "argocd/fournos",
    }
    assert APPLICATION["metadata"] == {**HEARTH["metadata"], "name": "fournos"}
    for name in ("project", "syncPolicy"):
        assert APPLICATION["spec"][name] == HEARTH["spec"][name]


def test_the_charts_is_the_same_with_another_source() -> None:
    chart = yaml.safe_load((ROOT / "argocd" / "app-chart.yaml").read_text())
    source = {**APPLICATION["spec"]["source"], "path": "charts/fournos"}
    source["helm"] = chart["spec"]["source"]["helm"]
    policy = dict(APPLICATION["spec"]["syncPolicy"])
    policy["syncOptions"] = ["CreateNamespace=true", *policy["syncOptions"]]
    assert chart == {**APPLICATION, "spec": {**APPLICATION["spec"], "source": source, "syncPolicy": policy}}


def test_every_system_with_a_kustomization_is_in_it_and_nothing_of_hearths() -> None:
    found = list(objects(ROOT / "argocd" / "fournos"))
    deployments = {one["metadata"]["name"] for one in found if one["kind"] == "Deployment"}
    assert deployments == {
        "fournos",
        "appwrapper-controller-manager",
        "operator-controller-manager",
        "fournos-frameworks",
        "fournos-history",
        "fournos-web",
    }
    keys = [(one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) for one in found]
    assert len(set(keys)) == len(keys)
    names = HEARTH["spec"]["source"]["directory"]["include"].strip("{}").split(",")
    for path in names:
        for one in manifests.parse((ROOT / "deploy" / path).read_text()):
            assert (one["kind"], one["metadata"].get("namespace"), one["metadata"]["name"]) not in keys


def test_what_operators_write_is_neither_compared_nor_put_back() -> None:
    found = list(objects(ROOT / "argocd" / "fournos"))
    assert "RespectIgnoreDifferences=true" in APPLICATION["spec"]["syncPolicy"]["syncOptions"]
    for one in found:
        if one["kind"] == "Secret":
            assert not {"data", "stringData"} & set(one), one["metadata"]["name"]
            assert ignored("Secret")[0]["jsonPointers"] == ["/data"]
        elif one["kind"].endswith("WebhookConfiguration"):
            (entry,) = ignored(one["kind"])
            assert entry["jqPathExpressions"] == [".webhooks[]?.clientConfig.caBundle"]
        elif one["kind"] == "APIService":
            assert ignored("APIService")[0]["jsonPointers"] == ["/spec/caBundle"]
        elif "aggregationRule" in one:
            assert "rules" in ignored("ClusterRole")[0]["jqPathExpressions"][0]
    assert {entry["kind"] for entry in APPLICATION["spec"]["ignoreDifferences"]} <= {
        one["kind"] for one in found
    }
