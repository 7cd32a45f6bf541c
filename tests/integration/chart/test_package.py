"""The chart's package of a release beside the one that helm makes of the same files."""

from __future__ import annotations

import tarfile
from pathlib import Path

import yaml

from dev.image import ROOT
from dev.release import CHART, IMAGE
from dev.release_chart import pack
from tests.integration.chart.conftest import run


def output(helm: Path, *words: str | Path) -> str:
    done = run(helm, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def contents(package: Path) -> dict[str, bytes]:
    """Name → content."""
    with tarfile.open(package) as archive:
        return {entry.name: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]


def test_it_is_what_helm_packs(helm: Path, tmp_path: Path) -> None:
    output(helm, "package", ROOT / CHART, "--destination", tmp_path)
    (by_helm,) = tmp_path.glob("fournos-*.tgz")
    ours = tmp_path / "ours.tgz"
    pack(ROOT / CHART, ours, made=1_700_000_000, repository=IMAGE)
    packed, expected = contents(ours), contents(by_helm)
    # Helm writes this file anew, with its keys in another order.
    described = [yaml.safe_load(files.pop("fournos/Chart.yaml")) for files in (packed, expected)]
    assert described[0] == described[1]
    assert packed == expected


def test_helm_reads_it(helm: Path, tmp_path: Path) -> None:
    package = tmp_path / "fournos.tgz"
    pack(ROOT / CHART, package, made=1_700_000_000, repository="registry.test/fournos")
    assert yaml.safe_load(output(helm, "show", "chart", package))["name"] == "fournos"
    rendered = output(helm, "template", "fournos", package, "--kube-version", "1.36.0", "--skip-tests")
    assert "image: registry.test/fournos:" in rendered and IMAGE not in rendered
