"""The chart's package in a release."""

from __future__ import annotations

import os
import shutil
import tarfile
from pathlib import Path

import pytest
import yaml

from dev.release import CHART, IMAGE
from dev.release_chart import files, pack
from devcluster import DevclusterError

ROOT = Path(__file__).parents[3]
MADE = 1_700_000_000


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    """A copy of the chart, to be changed."""
    return Path(shutil.copytree(ROOT / CHART, tmp_path / "chart"))


def packed(chart: Path, target: Path, repository: str = IMAGE) -> Path:
    pack(chart, target, made=MADE, repository=repository)
    return target


def test_two_packages_are_the_same_bytes_whatever_the_times_and_modes_of_the_files(
    chart: Path, tmp_path: Path
) -> None:
    for path in chart.rglob("*"):
        path.chmod(0o700)
        os.utime(path, (1, 1))
    first, second = packed(ROOT / CHART, tmp_path / "a.tgz"), packed(chart, tmp_path / "b.tgz")
    assert first.read_bytes() == second.read_bytes()


def test_it_has_every_file_in_helms_order_and_nothing_of_this_machine(tmp_path: Path) -> None:
    with tarfile.open(packed(ROOT / CHART, tmp_path / "a.tgz")) as archive:
        entries = archive.getmembers()
        contents = {entry.name: archive.extractfile(entry).read() for entry in entries}  # type: ignore[union-attr]
    sources = {
        str(path.relative_to(ROOT / CHART)): path for path in (ROOT / CHART).rglob("*") if path.is_file()
    }
    assert contents == {f"fournos/{name}": path.read_bytes() for name, path in sources.items()}
    assert [entry.name for entry in entries][:3] == [
        "fournos/Chart.yaml",
        "fournos/values.yaml",
        "fournos/values.schema.json",
    ]
    assert {(entry.mtime, entry.mode, entry.uid, entry.gid, entry.uname) for entry in entries} == {
        (MADE, 0o644, 0, 0, "")
    }


def test_a_release_for_another_registry_has_it_in_the_values(tmp_path: Path) -> None:
    target = packed(ROOT / CHART, tmp_path / "a.tgz", "registry.test/fournos")
    with tarfile.open(target) as archive:
        values = yaml.safe_load(archive.extractfile("fournos/values.yaml"))  # type: ignore[arg-type]
    before = yaml.safe_load((ROOT / CHART / "values.yaml").read_text())
    assert values == {**before, "image": {**before["image"], "repository": "registry.test/fournos"}}


def test_what_helm_ignores_in_each_chart_is_left_out(chart: Path) -> None:
    everything = files(chart)
    (chart / "templates" / ".web.yaml.swp").write_text("")
    assert files(chart) == everything


def test_a_file_of_rules_is_refused(chart: Path) -> None:
    (chart / ".helmignore").write_text("README.md")
    with pytest.raises(DevclusterError, match="is not supported"):
        files(chart)
