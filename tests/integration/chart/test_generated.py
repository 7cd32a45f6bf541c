"""The Helm chart is made of the manifests: the install file by default, each overlay by its values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from dev.chart import VARIANTS, generated
from dev.chart_templates import KEPT, KEPT_KINDS
from dev.generated import differences
from dev.image import ROOT
from dev.release import CHART, Source, by_system, documents
from dev.release_install import Document, System, identity, of_all
from tests.integration.chart.conftest import Render, run

CONFIGURATION = "controller_manager_config.yaml"


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
    installed = of_all(by_system(source))
    wanted = {identity(item): item for item in installed}
    del wanted["", "Namespace", "", "fournos-operator"]
    rendered = render()
    assert rendered.keys() == wanted.keys()
    for key, item in rendered.items():
        assert _without_kept(item) == _read(wanted[key]), key


def _read(item: Document) -> Document:
    """A copy; the Configuration of Kueue is read, as the chart writes it as JSON."""
    copy: Document = json.loads(json.dumps(item))
    if copy["kind"] == "ConfigMap" and CONFIGURATION in copy["data"]:
        copy["data"][CONFIGURATION] = yaml.safe_load(copy["data"][CONFIGURATION])
    return copy


def _without_kept(item: Document) -> Document:
    copy = _read(item)
    annotations = copy["metadata"].get("annotations") or {}
    if copy["kind"] in KEPT_KINDS:
        assert annotations.items() >= KEPT.items(), "it would be deleted with the release"
        for name in KEPT:
            del annotations[name]
        if not annotations:
            del copy["metadata"]["annotations"]
    return copy


BY_VALUES = {
    "sqlite-s3": ['history.s3.secret="fournos-history-s3"'],
    "postgres": ['history.database.secret="fournos-history-database"', "history.replicas=2"],
    "postgres-s3": [
        'history.database.secret="fournos-history-database"',
        'history.s3.secret="fournos-history-s3"',
        "history.replicas=2",
    ],
}
"""Variant → the values that say what its overlay says."""


@pytest.mark.usefixtures("kubeconfig")
@pytest.mark.parametrize(
    ("system", "variant"), [(system, variant) for system in VARIANTS for variant in VARIANTS[system]]
)
def test_each_overlay_is_a_matter_of_values(system: str, variant: str, render: Render) -> None:
    alone = [f"{name}.enabled={json.dumps(name == system)}" for name in ("history", "web")]
    others = [f"{name}.enabled=false" for name in OTHERS]
    rendered = render(*alone, *others, *BY_VALUES.get(variant, ()))
    overlay = System(system, "", kustomization=VARIANTS[system][variant])
    wanted = {identity(item): item for item in documents(ROOT, overlay)}
    for key in [key for key in rendered if key[1] == "CustomResourceDefinition"]:
        del rendered[key]
    assert rendered.keys() == wanted.keys()
    for key, item in rendered.items():
        assert _without_kept(item) == wanted[key], key


OTHERS = ("jobs", "clusters", "appwrappers", "miniclusters", "frameworks", "multikueue")
