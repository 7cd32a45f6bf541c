"""What `make release` makes: the same bytes from two places; and install.yaml on a real API server."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from dev.release import ROOT, Source, artifacts
from dev.release_install import SYSTEMS, missing_namespaces
from devcluster import manifests
from devcluster.existing import kubectl_program
from fournos import __version__

_NOT_SOURCE = (".git", ".venv", "build", "dist", ".*_cache", "__pycache__", ".hypothesis", "*.egg-info")
MADE = 1_700_000_000
LASTING = frozenset({"Namespace", "CustomResourceDefinition"})
"""Other tests of this cluster use them."""


def make(place: Path) -> Path:
    """A release of a copy of this checkout, its files as new as the copy."""
    shutil.copytree(ROOT, place / "tree", ignore=shutil.ignore_patterns(*_NOT_SOURCE))
    artifacts(Source(place / "tree", MADE), place / "out")
    return place / "out"


@pytest.fixture(scope="module")
def released(kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("first"))


def kubectl(kubeconfig: Path, *words: str, stdin: str | None = None) -> str:
    done = subprocess.run(
        [*kubectl_program(), f"--kubeconfig={kubeconfig}", *words],
        input=stdin, capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_second_release_is_the_same_bytes(released: Path, tmp_path: Path) -> None:
    again = make(tmp_path / "a" / "longer" / "path")
    names = sorted(path.name for path in released.iterdir())
    assert names == sorted(path.name for path in again.iterdir())
    assert {"first-job.yaml", "kueue-config.yaml", "install.yaml"} <= set(names)
    assert {f"install-{system.name}.yaml" for system in SYSTEMS} <= set(names)
    suffixes = {"".join(Path(name).suffixes[-2:]) for name in names}
    assert ".tar.gz" in suffixes and any(name.endswith(".whl") for name in names)
    assert {f"fournos-{__version__}.tgz", "SHA256SUMS"} <= set(names)
    differ = [name for name in names if (released / name).read_bytes() != (again / name).read_bytes()]
    assert differ == []


def test_every_install_file_is_whole(released: Path) -> None:
    for path in released.glob("install*.yaml"):
        found = manifests.parse(path.read_text())
        assert missing_namespaces(found) == set(), path.name
        images = [
            container["image"]
            for item in found
            if item["kind"] == "Deployment"
            for container in item["spec"]["template"]["spec"]["containers"]
        ]
        assert images and all(image.endswith(f":{__version__}") for image in images), path.name
        named = {(item["kind"], item["metadata"]["name"]) for item in found}
        for item in found:
            if role := item.get("roleRef"):
                assert (role["kind"], role["name"]) in named, path.name


@pytest.fixture
def installed(kubeconfig: Path, released: Path) -> Iterator[Path]:
    path = released / "install.yaml"
    yield path
    going = [item for item in manifests.parse(path.read_text()) if item["kind"] not in LASTING]
    words = ("delete", "--ignore-not-found", "--wait=false", "-f", "-")
    kubectl(kubeconfig, *words, stdin=yaml.safe_dump_all(going))


def test_it_is_applied_in_one_go_and_again_without_a_change(kubeconfig: Path, installed: Path) -> None:
    made = kubectl(kubeconfig, "apply", "-f", str(installed)).splitlines()
    assert len(made) > 50
    # Nothing may change then: an aggregated role with rules of its own would lose its rights for a moment.
    assert kubectl(kubeconfig, "diff", "-f", str(installed)) == ""
